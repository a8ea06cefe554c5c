"""Install the built wheel into an empty environment, in an empty folder, and follow the README with it.

`make wheel` runs this: the sections "Train" and "Translate" of the README must work without the repository, and a typed
script that uses `focat.load` must pass `mypy --strict`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from focat.corpus.generated import generate
from tests.docs.pages import Page
from tests.docs.workspace import write_corpus, write_texts

SCRIPT = """\
import focat

model = focat.load("run")
translations: list[list[str]] = model.translate([["Where is the cat?", "It is old."]])
assert [len(document) for document in translations] == [2]
"""


def main(folder: Path, constraints: Path) -> None:
    """Check the one wheel in `folder`.

    Args:
        folder: where `python -m build` wrote the wheel
        constraints: versions to install it with
    """
    (wheel,) = folder.resolve().glob("*.whl")
    constraints = constraints.resolve()
    with tempfile.TemporaryDirectory(prefix="focat-wheel-") as name:
        work = Path(name) / "work"
        work.mkdir()
        environment = Path(name) / "environment"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        _run("install", [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), str(wheel)], work)
        write_files(work)
        shell = {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
        _run("version", ["focat", "--version"], work, shell)
        for section, block in sections("Train", "Translate"):
            if section == "Translate":
                (work / "try").rename(work / "run")
            _run(section, ["bash", "-euo", "pipefail", "-c", block], work, shell)
        (work / "script.py").write_text(SCRIPT, encoding="utf-8")
        _run("script", [str(python), "script.py"], work)
        checked = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "script.py"]
        _run("mypy", checked, work)
    print(f"{wheel.name}: works outside the repository")


def sections(*names: str) -> list[tuple[str, str]]:
    """The shell commands of each named section of the README."""
    parts = re.split(r"^## (.+)\n", Page("README.md").text, flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = [(name, re.search(r"^```bash\n(.*?)^```", texts[name], re.DOTALL | re.MULTILINE)) for name in names]
    return [(name, block[1]) for name, block in found if block is not None]


def write_files(folder: Path) -> None:
    """Write what the README's commands read: small corpora, texts to translate and the settings file."""
    for name, documents, seed in (("train", 60, 1), ("dev", 4, 2), ("test", 2, 3)):
        write_corpus(folder, name, list(generate(documents, seed)))
    write_texts(folder)
    for name, text in Page("README.md").files().items():
        (folder / name).write_text(text, encoding="utf-8")


def _run(what: str, command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run one command outside the repository; show its output and stop if it fails."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=variables | (environment or {}), text=True, capture_output=True, check=False
    )
    print(f"{what}: exit code {done.returncode}, {time.monotonic() - began:.1f} s", flush=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
