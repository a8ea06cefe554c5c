"""Every benchmark that runs on this machine, at a size of minutes: `python -m benchmarks` (or `make bench`).

The corpus is the generated one; figures that the docs quote come from the same scripts on real stores.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from focat.config import load_settings
from focat.corpus.generated import generate
from focat.corpus.prepare import prepare
from focat.progress import Progress


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        sizes = ["data.train.0.documents=20000", "data.tokenizer.vocabulary=1000"]
        prepare(load_settings(Path("focat:demo"), [f"data.store={store}", *sizes]).data, Progress())
        texts = _text_files(Path(folder))
        _run("prepare_speed", "--source", str(texts[0]), "--target", str(texts[1]), "--vocabulary", "1000")
        _run("feed_rate", str(store))
        _run("train_speed", str(store), "--preset", "small", "--seconds", "30")
        _run("busy_machine", "--rounds", "1")
        _run("score_speed")
        if sys.platform == "linux":
            _run("growth", "corpus", "documents", "windows", "processes")
        few = ("--preset", "small", "--documents", "16", "--sentences", "2", "--batches", "32")
        _run("translate_speed", str(store), *few, "--systems", "hf-marian,regenerate,reuse")


def _text_files(folder: Path) -> list[Path]:
    """The same corpus as plain text."""
    documents = list(generate(20_000, 1))
    files = []
    for side, language in (("source", "en"), ("target", "de")):
        files.append(folder / f"train.{language}")
        text = "\n\n".join("\n".join(getattr(document, side)) for document in documents)
        files[-1].write_text(text + "\n", encoding="utf-8")
    return files


def _run(name: str, *arguments: str) -> None:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=True)


if __name__ == "__main__":
    main()
