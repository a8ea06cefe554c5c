"""COMET through unbabel-comet, which lives in an environment of its own because its pins clash with everyone's.

With context it is the doc-COMET of Vernikos et al. (2022): the sentences before are read along (those of the reference
on the target side), and only the current sentence is scored.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from focat.errors import FocatError
from focat.evaluation.metrics import Documents, MetricScore, metric_score
from focat.files import cache_folder
from focat.progress import Progress

DEFAULT_MODEL = "Unbabel/wmt22-comet-da"
VARIABLE = "FOCAT_COMET_ENV"
# One with context; and a setuptools that still has what its torchmetrics imports.
_PACKAGES = ("unbabel-comet>=2.2.7,<3", "setuptools<81")
_ISOLATED = ["-I"]  # isolated: neither PYTHONPATH nor this folder, whose comet.py is not COMET, is on its path
_WORKER = Path(__file__).with_name("comet_worker.py")


def environment() -> Path:
    """Return the folder of COMET's own environment."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    return cache_folder("comet")


def check() -> dict[str, str]:
    """Return the versions of COMET and torch in its environment.

    Raises:
        FocatError: COMET does not start; the message says what to run.
    """
    done = _run([python(), *_ISOLATED, _WORKER, "--check"])
    if done.returncode:
        raise FocatError(
            f"{environment()}: COMET does not start ({_last_line(done)}); run `focat doctor --install-comet`"
        )
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def install(progress: Progress) -> None:
    """Create or repair the environment, with the version of torch that focat itself runs on."""
    folder = environment()
    torch_version = version("torch").partition("+")[0]
    steps = {
        f"making {folder}": [sys.executable, "-m", "venv", folder],
        "installing unbabel-comet": [
            *(folder / "bin" / "python", *_ISOLATED, "-m", "pip", "install", "--disable-pip-version-check"),
            *(*_PACKAGES, f"torch=={torch_version}"),
        ],
    }
    for label, command in steps.items():
        with progress.bar(label):
            done = _run(command)
            if done.returncode:
                raise FocatError(f"{label}: {_last_line(done)}; the command was: {' '.join(map(str, command))}")


def comet(
    sources: Documents,
    hypotheses: Documents,
    references: Documents,
    progress: Progress,
    model: str = DEFAULT_MODEL,
    contexts: Sequence[int] = (0,),
    batch: int = 16,
    reference_sha256: str = "",
) -> list[MetricScore]:
    """Compute COMET of all sentences, once for each number of context sentences in `contexts`."""
    interpreter = python()
    if model.endswith(".ckpt") and not Path(model).is_file():
        raise FocatError(f"{model}: no such file")
    name = "/".join((Path(model).absolute().parents[1].name, Path(model).name)) if model.endswith(".ckpt") else model
    most = max(contexts)
    samples = [
        {
            "src": source[i],
            "mt": hypothesis[i],
            "ref": reference[i],
            "before": {"src": source[max(i - most, 0) : i], "ref": reference[max(i - most, 0) : i]},
        }
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
        for i in range(len(source))
    ]
    with TemporaryDirectory(prefix="focat-comet-") as folder:
        request, result = Path(folder) / "request.json", Path(folder) / "result.json"
        content = {"model": model, "batch": batch, "contexts": list(contexts), "samples": samples}
        request.write_text(json.dumps(content), encoding="utf-8")
        with progress.bar(f"COMET by {name}: {len(samples):,} sentences"):
            done = _run([interpreter, *_ISOLATED, _WORKER, request, result])
            if done.returncode or not result.exists():
                raise FocatError(f"COMET with {model}: {_last_line(done)}")
        answer = json.loads(result.read_text(encoding="utf-8"))
    scores_by_context = []
    for context, run in zip(contexts, answer["runs"], strict=True):
        if run["cut"]:
            progress.log(f"COMET: {run['cut']} sentences lost their oldest context, for which the encoder has no room")
        scores = np.array(run["scores"], np.float64)
        signature = f"model:{name}|context:{context}|version:{answer['version']}"
        statistics = np.stack([scores, np.ones_like(scores)], axis=1)
        scores_by_context.append(
            metric_score("COMET", "document" if context else "sentence", signature, statistics, reference_sha256)
        )
    return scores_by_context


def python() -> Path:
    """Return the interpreter of COMET's environment.

    Raises:
        FocatError: there is none; the message says what to run.
    """
    interpreter = environment() / "bin" / "python"
    if not interpreter.exists():
        raise FocatError(
            f"COMET is not installed ({environment()} is no environment); run `focat doctor --install-comet`, "
            f"or set {VARIABLE} to an environment that has unbabel-comet"
        )
    return interpreter


def _run(command: Sequence[object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, errors="replace", check=False
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"
