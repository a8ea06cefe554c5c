"""Does a base system that went through another toolkit's format learn context as well as one that did not?

    python -m benchmarks.context_from_pretrained FOLDER

Trains a sentence-level system of demo size on the generated corpus, exports it for transformers, imports it again, and
fine-tunes both in windows by the recipe `focat:context-from-pretrained`, with a budget for this size. Then compares
contrastive accuracies with those of base, and translations of the fine-tuned system in focat with those in transformers
and in CTranslate2. Six minutes on two cores. What is in the folder already is not made again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

from focat.corpus.generated import generate
from focat.corpus.generated.suites import write_suites

_BASE = """
base: focat:demo
data: {store: store}
windows: {before: 0}
model: {shift: 0, norm: post, sinusoids: marian}
objective: {discount: 1.0}
training: {output_dir: base}
"""
_CONTEXT = """
base: [START/config.yaml, focat:context-from-pretrained]
data:
  store: NAME-store
  train: [{format: generated, documents: 6000, seed: 1}]
  dev: [{format: generated, documents: 50, seed: 2}]
  tokenizer: {from_run: START}
training:
  init_from: START
  output_dir: NAME
  optimizer: adam
  learning_rate: 1e-3
  warmup: 20
  batch_tokens: 2048
  budget: {updates: 400}
  validate_every: 200
"""
_SYSTEMS = {"direct": "base", "detour": "imported"}  # fine-tuned systems, and what they start from
_PHENOMENA = ("deixis", "ellipsis_vp")


def main() -> None:
    """Train what is missing, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where systems and suites are made")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "base.yaml", _BASE)
    for name, start in _SYSTEMS.items():
        _write(folder / f"{name}.yaml", _CONTEXT.replace("START", start).replace("NAME", name))
    write_suites(folder / "suites", 200, 1000)
    _focat(folder, "prepare", "base.yaml", "-q")
    _focat(folder, "train", "base.yaml", "-q")
    if not (folder / "imported").exists():
        _focat(folder, "export", "base", "--to", "hf", "-o", "base-hf", "--overwrite")
        _focat(folder, "import", "base-hf", "-o", "imported")
    for name in _SYSTEMS:
        _focat(folder, "prepare", f"{name}.yaml", "-q")
        _focat(folder, "train", f"{name}.yaml", "-q")
    suites = [part for phenomenon in _PHENOMENA for part in ("--suite", f"suites/{phenomenon}.json")]
    for name in ("base", *_SYSTEMS):
        _focat(folder, "contrast", name, *suites, "--instances", f"{name}.jsonl", "--overwrite")
    print(_focat(folder, "compare", *(f"{name}.jsonl" for name in ("base", *_SYSTEMS))))
    for to in ("hf", "ct2"):
        print(f"{to}: {_same_translations(folder, to)}")


def _write(path: Path, text: str) -> None:
    path.write_text(text.lstrip(), encoding="utf-8")


def _focat(folder: Path, *arguments: str) -> str:
    """Run a command, and return what it printed."""
    command = [sys.executable, "-m", "focat", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _same_translations(folder: Path, to: str) -> str:
    """How many translations by the code of the model card are those of `focat translate`."""
    import focat

    _focat(folder, "export", "direct", "--to", to, "-o", f"direct-{to}", "--overwrite")
    card = (folder / f"direct-{to}" / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[0]
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code.replace("FOLDER", str(folder / f"direct-{to}")), scope)
    translate, model = scope["translate"], focat.load(folder / "direct", "cpu")
    documents = [list(document.source) for document in generate(20, 7)]
    pairs = [
        (ours, theirs)
        for document in documents
        for ours, theirs in zip(model.translate(document, context="reuse"), translate(document), strict=True)  # type: ignore[operator]
    ]
    return f"{sum(ours == theirs for ours, theirs in pairs)} of {len(pairs)} translations are the same"


if __name__ == "__main__":
    main()
