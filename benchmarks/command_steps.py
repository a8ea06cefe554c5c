"""Where the seconds of a command go, step by step, from the start of its process.

    python -m benchmarks.command_steps contrast RUN --suite deixis_test.json --detokenise --instances answers.jsonl
    python -m benchmarks.command_steps evaluate RUN --fragments 4 --json quality.json
    python -m benchmarks.command_steps translate RUN line.txt -o line.de.txt
    python -m benchmarks.command_steps train CONFIG training.budget.updates=1

Functions that stand for steps are wrapped with clocks, and the command runs as it is. A step has the seconds that none
of the steps inside it has. On a CPU, `model` is what the model computes, and the rest is the host's. On a GPU, `model`
is what it takes to queue that, and the step that reads the results has the time spent waiting for it. CPU seconds are
those of all threads of the process; on a machine that does other things, they say more than the clock.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

START = "FOCAT_BENCHMARK_START"  # of the process, by the clock
TRANSFORMER = [
    f"focat.model.transformer:Transformer.{name}" for name in ("encode", "init_cache", "decode_step", "project")
]
RUNNER = [f"focat.decoding.model_runner:ModelRunner.{name}" for name in ("step", "_read")]
LOAD = {"weights, settings": ["focat.run:TrainedSystem.__init__"]}
STEPS: dict[str, dict[str, list[str]]] = {
    "contrast": {
        **LOAD,
        "model": [*TRANSFORMER, "focat.evaluation.prefix_scoring:_predicted"],
        "read suites": ["focat.evaluation.contrast:read_contrast_suites"],
        "normalise": ["focat.evaluation.suites.normalization:TextNormalization.suite"],
        "windows": ["focat.evaluation.contrastive:candidate_group"],
        "tokenise": ["focat.evaluation.prefix_scoring:_encoded"],
        "trees": ["focat.evaluation.prefix_scoring:_trees"],
        "batches": ["focat.evaluation.prefix_scoring:_score"],
        "wait for scores, sums": ["focat.evaluation.contrastive:score_candidates"],
        "answers to instances": ["focat.evaluation.contrast:instance_results"],
        "accuracies": ["focat.evaluation.contrast:contrast_results"],
        "tables": ["focat.reporting.terminal.contrast:show_contrast"],
        "write": ["focat.files:write_atomic"],
    },
    "evaluate": {
        **LOAD,
        "model": RUNNER,
        "read test set": ["focat.evaluation.test_sets:documents_of"],
        "prepare weights": ["focat.translation.translator:Translator.__init__"],
        "windows, tokenise": ["focat.translation.document_stream:JobBuilder.next_job"],
        "texts": ["focat.translation.translator:Translator.translation"],
        "search, slots, waiting": ["focat.decoding.engine:Engine.step"],
        "metrics": ["focat.evaluation.quality:evaluate"],
        "tables, intervals": [
            "focat.reporting.terminal.evaluation:show_evaluation",
            "focat.evaluation.quality:evaluation_results",
        ],
        "write": ["focat.evaluation.results:EvaluationResults.write"],
    },
    "translate": {
        **LOAD,
        "model": RUNNER,
        "prepare weights": ["focat.translation.translator:Translator.__init__"],
        "search, slots, waiting": ["focat.decoding.engine:Engine.step"],
        "file, journal": ["focat.api:run_job"],
    },
    "train": {
        "model": ["focat.training.trainer:Trainer._update"],
        "verify store": ["focat.corpus.store:Store.verify"],
        "run folder": ["focat.run:Run.create"],
        "optimizer": ["focat.training.trainer:build_optimizer"],
        "cut windows": ["focat.windows.loader:Loader.__init__"],
        "order of an epoch": ["focat.windows.loader:order_epoch"],
        "validate": ["focat.training.trainer:Trainer._validate"],
        "save": ["focat.training.trainer:Trainer._save"],
    },
}


class StepClock:
    """Seconds of nested steps, by name, each without those inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}  # by the clock, of the processor
        self._inside: list[list[float]] = []  # of each open step: seconds of the steps inside it

    def wrap(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a clock around it."""

        def timed(*given: Any, **named: Any) -> Any:
            begun = _now()
            self._inside.append([0.0, 0.0])
            try:
                return function(*given, **named)
            finally:
                whole = [now - then for now, then in zip(_now(), begun, strict=True)]
                inside = self._inside.pop()
                own = self.seconds.setdefault(step, [0.0, 0.0])
                for i in range(2):
                    own[i] += whole[i] - inside[i]
                    if self._inside:
                        self._inside[-1][i] += whole[i]

        return timed


def main() -> None:
    """Run a command in a new process, and print its steps."""
    if START not in os.environ:
        os.environ[START] = repr(time.time())
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.command_steps", *sys.argv[1:]])
    from focat import cli

    clock, get_command = StepClock(), cli.typer.main.get_command
    begun: list[float] = []  # the steps after the imports: by the clock, of the processor

    def with_clocks(*given: Any) -> Any:
        """Import what the command will: its own `main` has set the process up by now."""
        for step, names in STEPS[sys.argv[1]].items():
            for name in names:
                _wrap(name, clock, step)
        begun.extend(_now())
        return get_command(*given)

    cli.typer.main.get_command = with_clocks
    try:
        cli.main()
    finally:
        ended = time.time() - float(os.environ[START]), time.process_time()
        steps = [now - then for now, then in zip(_now(), begun, strict=True)]
        imports = [whole - after for whole, after in zip(ended, steps, strict=True)]
        known = [sum(own[i] for own in clock.seconds.values()) for i in range(2)]
        other = [whole - inside for whole, inside in zip(steps, known, strict=True)]
        rows = {"start, imports": imports, **clock.seconds, "other": other, "all": ended}
        print(f"{'':26}{'seconds':>9}{'CPU':>9}", file=sys.stderr)
        for step, (seconds, processor) in rows.items():
            print(f"{step:26}{seconds:9.3f}{processor:9.3f}", file=sys.stderr)


def _wrap(name: str, clock: StepClock, step: str) -> None:
    """Replace a function, `module:name` or `module:Class.name`, by itself with a clock."""
    module, _, path = name.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, last = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    setattr(owner, last, clock.wrap(step, getattr(owner, last)))


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main()
