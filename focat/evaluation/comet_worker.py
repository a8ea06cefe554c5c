"""What runs inside COMET's own environment: python comet_worker.py REQUEST.json RESULT.json, or --check.

Nothing of focat is installed there, so nothing of focat is imported. `focat.evaluation.comet` starts it.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any


def comet_main() -> None:
    """Print what is installed, or score a request; an error is the last line of standard error."""
    if sys.argv[1:] == ["--check"]:
        import comet  # noqa: F401  (installed is not yet usable)
        import torch

        print(json.dumps({"comet": version("unbabel-comet"), "torch": torch.__version__}))
        return
    request, result = map(Path, sys.argv[1:])
    try:
        answer = score(json.loads(request.read_text(encoding="utf-8")))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        sys.exit(f"\n{reason}")
    result.write_text(json.dumps(answer), encoding="utf-8")


def score(request: dict[str, Any]) -> dict[str, Any]:
    """Score each sentence, once for each number of context sentences; context is read and not scored."""
    model = load_comet(request["model"])
    runs = {}
    for context in sorted(request["contexts"]):  # none first: what is enabled stays enabled
        if context:
            model.enable_context()
            if not model.use_context:
                raise ValueError("this model cannot use context; take one with average pooling, such as wmt20-comet-da")
        runs[context] = run(model, request["samples"], context, request["batch"])
    return {"runs": [runs[context] for context in request["contexts"]], "version": version("unbabel-comet")}


def run(model: Any, samples: list[dict[str, Any]], context: int, batch: int) -> dict[str, Any]:
    """Return the scores, and the number of sentences that lost some of their context."""
    import torch

    sides = ["src", "mt", "ref"] if model.requires_references() else ["src", "mt"]
    prepared = [in_context(model, sample, context, sides) for sample in samples]
    gpus = 1 if torch.cuda.is_available() else 0
    predicted = model.predict(
        [texts for texts, _ in prepared], batch_size=batch, gpus=gpus, num_workers=0, progress_bar=False
    )
    wanted = [min(context, len(sample["before"]["src"])) for sample in samples]
    cut = sum(kept < most for (_, kept), most in zip(prepared, wanted, strict=True))
    return {"scores": [float(value) for value in predicted["scores"]], "cut": cut}


def load_comet(name: str) -> Any:
    """Load a model by name, downloaded if necessary, or a checkpoint file."""
    from comet import download_model, load_from_checkpoint

    return load_from_checkpoint(name if name.endswith(".ckpt") else download_model(name))


def in_context(model: Any, sample: dict[str, Any], context: int, sides: list[str]) -> tuple[dict[str, str], int]:
    """Return the texts of a sentence after as much context as the encoder can take, and how much that is.

    The encoder itself would cut off the end, which is the very sentence that is scored. A translation stands behind the
    context of the reference, so that each sentence is judged by itself (Vernikos et al., 2022).
    """
    tokenizer = model.encoder.tokenizer
    longest = model.encoder.max_positions - 2
    before = {**sample["before"], "mt": sample["before"]["ref"]}
    kept = min(context, len(before["src"]))
    while True:
        behind = {side: [*before[side][len(before[side]) - kept :], sample[side]] for side in sides}
        texts = {side: f" {tokenizer.sep_token} ".join(sentences) for side, sentences in behind.items()}
        if not kept or max(map(len, tokenizer(list(texts.values()))["input_ids"])) <= longest:
            return texts, kept
        kept -= 1


if __name__ == "__main__":
    comet_main()
