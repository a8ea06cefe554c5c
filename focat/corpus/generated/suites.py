"""The contrastive suites of the generated corpus as files, in the layout of the published ones."""

from __future__ import annotations

import json
from pathlib import Path

from focat.corpus.generated.contrapro import contrapro_suite
from focat.corpus.generated.voita import GENERATED_PHENOMENA, voita_suite


def write_suites(folder: Path, instances: int, seed: int) -> list[Path]:
    """Write every suite, of at least `instances` instances each, and return the files."""
    entries, source_lines, target_lines = contrapro_suite(instances, seed)
    suites = {phenomenon: voita_suite(phenomenon, instances, seed) for phenomenon in GENERATED_PHENOMENA}
    texts = {f"{phenomenon}.json": _json(suite) for phenomenon, suite in suites.items()}
    texts["contrapro.json"] = _json(entries)
    texts["contrapro.context.en"] = _lines(source_lines)
    texts["contrapro.context.de"] = _lines(target_lines)

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [folder / name for name in texts]


def _json(instances: object) -> str:
    return json.dumps(instances, ensure_ascii=False, indent=1) + "\n"


def _lines(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)
