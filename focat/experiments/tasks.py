"""The steps of one system and seed: train, contrast, evaluate, analyse; which are done, and running the others.

A step is done when its result exists and was made from the same inputs: the settings, the weights, the bytes of the
files. After a change to one system, only what depends on it runs again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from focat.config import Settings
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.evaluation.results import validated_result
from focat.experiments.experiment import Experiment
from focat.experiments.measuring import measure_step, measuring_command
from focat.experiments.results import (
    RESULT_VERSION,
    Result,
    Step,
    StepProvenance,
    StepResult,
    TrainResult,
    Validation,
    fingerprint,
    provenance_of,
)
from focat.files import digest_of, disk_errors, read_json_object, sha256, unused_path, write_json
from focat.run import Run, TrainedSystem, load_system
from focat.training.averaging import average_checkpoints
from focat.training.trainer import train

# Settings that change how training runs but not what it computes: a run continues when one of them changes.
_NOT_IDENTITY: Any = {
    "data": True,
    "decoding": True,
    "training": {
        *("output_dir", "init_from", "budget", "patience"),
        *("device", "compile", "keep_checkpoints", "log_every", "log_samples", "save_minutes"),
    },
}


class SystemTasks:
    """The steps of one system and seed."""

    def __init__(self, experiment: Experiment, system: str, seed: int) -> None:
        self.experiment, self.system, self.seed = experiment, system, seed
        self.plan, self.progress, self.results = experiment.plan, experiment.progress, experiment.results
        self.run_folder = experiment.folder / "runs" / f"{system}-seed{seed}"
        self.planned = experiment.loaded.settings(system, seed)
        self.training = Step(system=system, seed=seed, kind="train")

    def __str__(self) -> str:
        return f"{self.system} (seed {self.seed})"

    @cached_property
    def parent(self) -> SystemTasks | None:
        """The system whose weights this one starts from."""
        name = self.plan.systems[self.system].init_from
        return None if name is None else SystemTasks(self.experiment, name, self.seed)

    def steps(self) -> Iterator[Step]:
        """All steps, in the order in which they run."""
        yield self.training
        for name, suite in self.plan.suites.items():
            for window in self._window_sizes(suite.windows):
                yield self.training.model_copy(update={"kind": "contrast", "dataset": name, "window": window})
        for name, test in self.plan.tests.items():
            # A system with windows of one sentence has no target context.
            contexts = test.contexts if self.planned.windows.size > 1 else test.contexts[:1]
            for context in contexts:
                for window in self._window_sizes(test.windows):
                    changes = {"kind": "evaluate", "dataset": name, "context": context, "window": window}
                    yield self.training.model_copy(update=changes)
        if self.plan.analyses:
            yield self.training.model_copy(update={"kind": "analyse"})

    def _window_sizes(self, others: tuple[int, ...]) -> list[int | None]:
        """None for the size of training, then the others; a system without context is only tested without."""
        trained = self.planned.windows.size
        return [None, *(size for size in others if size != trained and trained > 1)]

    # ------------------------------------------------------------------------------------------- what is done already

    def result(self, step: Step) -> StepResult | None:
        """The result of a step, if it is up to date."""
        inputs = self.inputs(step)
        found = None if inputs is None else self.results.load(step, inputs)
        if found is None or step.kind == "train":
            return found
        # Without its run folder, a system was trained elsewhere, and only its results were copied here.
        return found if self.details(step).exists() or not self.run_folder.exists() else None

    @property
    def trained(self) -> TrainResult | None:
        """The result of training, if it is up to date."""
        found = self.result(self.training)
        return found.result if found is not None and isinstance(found.result, TrainResult) else None

    def inputs(self, step: Step) -> str | None:
        """Digest of everything that a step depends on; None if some of it does not exist yet."""
        if step.kind == "train":
            identity = self._identity()
            until = self.planned.training.model_dump(include={"budget", "patience"})
            return None if identity is None else digest_of([identity, until, self.plan.average])
        trained = self.result(self.training)
        if trained is None or not isinstance(trained.result, TrainResult):
            return None
        shared = [RESULT_VERSION, trained.inputs, trained.result.weights_sha256, step.name]
        if step.kind == "contrast":
            suite = self.plan.suites[step.dataset]
            return digest_of([*shared, fingerprint(suite.model_copy(update={"windows": ()})), self.plan.rules])
        if step.kind == "evaluate":
            test = self.plan.tests[step.dataset]
            corpora = [test.corpus] if test.corpus else self.planned.data.test
            options = test.model_dump(exclude={"corpus", "contexts", "windows"}, exclude_defaults=True)
            return digest_of([*shared, fingerprint(self.planned.decoding), fingerprint(corpora), options])
        return digest_of([*shared, self.plan.analyses, self.plan.analyse, self.plan.analyse_sentences])

    def details(self, step: Step) -> Path:
        """The file with every item of a step, which `focat compare` and `focat report` read."""
        ending = "jsonl" if step.kind == "contrast" else "json"
        return self.run_folder / ("results" if self._on_page(step) else "more-results") / f"{step.name}.{ending}"

    def archive_stale_results(self) -> None:
        """Move files out of the results of the run that do not belong to this plan and these weights."""
        current = {self.details(step) for step in self.steps() if self.result(step) is not None}
        archive = self.run_folder / "older-results"
        for path in sorted((self.run_folder / "results").glob("*")):
            if path.is_file() and path not in current:
                with disk_errors(archive):
                    archive.mkdir(exist_ok=True)
                    path.rename(unused_path(archive / path.name))

    def _on_page(self, step: Step) -> bool:
        """Whether the report shows a step: only the window size of training, and one kind of target context."""
        if step.kind == "evaluate":
            first = next(iter(self.plan.tests))
            return (step.dataset, step.context, step.window) == (first, self.plan.tests[first].contexts[0], None)
        return step.window is None

    def _identity(self) -> str | None:
        """Digest of what the run is: settings, corpus and initial weights; None if these do not exist yet."""
        store = self.experiment.store_of(self.planned)
        if not (store / "manifest.json").exists():
            return None
        keys = Store(store).manifest["keys"]
        initial = None
        if self.parent is not None:
            trained = self.parent.trained
            if trained is None:
                return None
            initial = trained.weights_sha256
        settings = self.planned.model_dump(mode="json", exclude=_NOT_IDENTITY, exclude_defaults=True)
        return digest_of([RESULT_VERSION, settings, keys["train"], keys.get("dev"), initial])

    # ------------------------------------------------------------------------------------------------- running a step

    def run_step(self, step: Step) -> None:
        """Run one step and write its result."""
        inputs, start = self.inputs(step), time.monotonic()
        if inputs is None:
            raise FocatError(f"{step}: the step that it depends on is not done")
        if step.kind == "train":
            trained, minutes = self._train()
            command = ["focat", "train", str(self.run_folder / "config.yaml")]
            self._save(step, inputs, trained, provenance_of(command, start, minutes=minutes))
            return
        if not self.run_folder.exists():
            raise FocatError(
                f"{step}: {self.run_folder} is not here; bring it, or delete {self.results.path(self.training)}, "
                "and it is trained again"
            )
        with disk_errors(self.run_folder):
            self.details(step).parent.mkdir(exist_ok=True)
        result = measure_step(self.experiment, self._system, self.planned, step, self.details(step))
        command = measuring_command(self.experiment, self.run_folder, step)
        self._save(step, inputs, result, provenance_of(command, start))

    def _save(self, step: Step, inputs: str, result: Result, provenance: StepProvenance) -> None:
        self.results.save(
            StepResult(
                kind="focat result",
                version=RESULT_VERSION,
                step=step,
                inputs=inputs,
                result=result,
                provenance=provenance,
            )
        )

    @cached_property
    def _system(self) -> TrainedSystem:
        return load_system(self.run_folder, self.planned.training.device)

    def _train(self) -> tuple[TrainResult, float]:
        """Train or continue training; returns the minutes of all sessions too."""
        self._archive_stale_run()
        state = train(self._training_settings(), self.progress)
        run = Run.open(self.run_folder)
        if self.plan.average > 1 and state.best is not None:
            average_checkpoints(run, self.plan.average)
        weights = run.weights_folder()
        logged = [record for record in run.log_records() if record["kind"] == "validation"]
        settings, system = self.planned, self.plan.systems[self.system]
        budget = "+".join(
            f"{value:g}{name}" for name, value in settings.training.budget.model_dump(exclude_none=True).items()
        )
        result = TrainResult(
            kind="train",
            signature=(
                f"train|recipe:{Path(system.recipe).name}|seed:{self.seed}|budget:{budget}|"
                f"average:{self.plan.average}|identity:{str(self._identity())[:8]}"
            ),
            updates=state.update,
            epochs=round(state.epochs, 6),
            best_update=None if state.best is None else state.best[0],
            best_value=None if state.best is None else state.best[1],
            criterion=settings.training.criterion,
            weights=str(weights.relative_to(run.path)),
            weights_sha256=sha256(weights / "weights.safetensors"),
            window=settings.windows.size,
            discount=settings.objective.model_dump(include={"discount"})["discount"],
            shift=run.model_info().shift,
            segment_embeddings=settings.model.segment_embeddings,
            init_from=system.init_from,
            validations=tuple(validated_result(Validation, record, str(run.log), "focat train") for record in logged),
        )
        return result, round(state.minutes, 3)

    def _archive_stale_run(self) -> None:
        """Rename a run of other settings; it is never deleted."""
        identity = self._identity()
        identity_file = self.run_folder.with_suffix(".json")
        with disk_errors(self.run_folder):
            self.run_folder.parent.mkdir(parents=True, exist_ok=True)
        before = self._recorded_identity(identity_file)
        if before == identity:
            return
        if self.run_folder.exists() and before is not None:
            archive = unused_path(self.run_folder.with_name(f"{self.run_folder.name}.{before[:8]}"))
            with disk_errors(archive):
                self.run_folder.rename(archive)
            self.progress.log(f"{self}: settings, corpus or initial weights have changed; the earlier run is {archive}")
        write_json(identity_file, {"identity": identity})

    def _recorded_identity(self, path: Path) -> str | None:
        """The identity of the run that is there; None if it was never recorded."""
        if not path.exists():
            return None
        remedy = f"delete it if {self.run_folder} is to go on, else move both away"
        identity = read_json_object(path, remedy).get("identity")
        if not isinstance(identity, str):
            raise FocatError(f"{path}: does not say which run is there; {remedy}")
        return identity

    def _training_settings(self) -> Settings:
        """The planned settings, with the folders of this experiment."""
        init_from = None
        if self.parent is not None:
            init_from = self.parent.run_folder
            if (self.run_folder / "config.yaml").exists():  # the experiment may have moved; weights are not read again
                begun = Run.open(self.run_folder)
                if begun.checkpoints():
                    init_from = begun.settings.training.init_from
                else:
                    (self.run_folder / "config.yaml").unlink()  # begun, and begun again
        training = self.planned.training.model_copy(update={"output_dir": self.run_folder, "init_from": init_from})
        data = self.planned.data.model_copy(update={"store": self.experiment.store_of(self.planned)})
        return self.planned.model_copy(update={"training": training, "data": data})


def all_tasks(experiment: Experiment) -> list[SystemTasks]:
    """The tasks of every system with every seed, in the order of the plan."""
    return [SystemTasks(experiment, system, seed) for system, seed, _ in experiment.loaded.all_settings()]


def finished_results(experiment: Experiment) -> list[StepResult]:
    """All results that are up to date, in the order of the plan."""
    return [found for tasks in all_tasks(experiment) for step in tasks.steps() if (found := tasks.result(step))]
