"""What one system of a plan still needs, and doing it: train, contrast, evaluate, analyse, each step once.

A step is done when its result is there and was made from the same inputs: the settings, the weights, the bytes of the
files. Change one system, and only what depends on it is done again.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from focat.analysis.analyse import Asked, analyse
from focat.analysis.systems import Chosen
from focat.api import Model, load
from focat.choices import ScoringRule
from focat.config import Settings
from focat.config.data import DataSettings
from focat.corpus.generated import contrapro_suite, voita_suite
from focat.corpus.prepare import prepare
from focat.corpus.readers import read_documents
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.evaluation.contrast_report import instance_lines
from focat.evaluation.contrast_run import Asking, ask
from focat.evaluation.contrastive import Answer
from focat.evaluation.disc import distance_of
from focat.evaluation.metrics import parse_metrics
from focat.evaluation.quality import Measures, evaluate, evaluation_record, write_evaluation
from focat.evaluation.suites import ContextFiles, Form, Suite, contrapro_instances, read_suite, voita_instances
from focat.evaluation.translating import translate_documents
from focat.experiments.plan import LoadedPlan, SuitePlan, TestPlan
from focat.experiments.results import Record, Results, Step, Stopwatch, fingerprint, packed_numbers
from focat.files import digest_of, disk_errors, sha256, write_atomic, write_json
from focat.hardware import device_named
from focat.progress import Progress
from focat.run import Run
from focat.training.averaging import average
from focat.training.trainer import train

_VERSION = 2  # of results; another number, and everything is done again
# What changes how training goes, but not what it is of: with it, a run goes on.
_NOT_IDENTITY: Any = {
    "data": True,
    "decoding": True,
    "training": {
        *("output_dir", "init_from", "budget", "patience"),
        *("device", "compile", "keep_checkpoints", "log_every", "log_samples", "save_minutes"),
    },
}
_CURVE = ("update", "epochs", "current", "context", "ratio", "full", "current_nll", "bleu")
_DISTANCES = {"d=0": "0", "d=1": "1", "d=2": "2", "d=3": "3", "d>3": ">", "unknown distance": "?"}


class Workshop:
    """The folder of a plan: stores, runs and results."""

    def __init__(self, loaded: LoadedPlan, folder: Path, progress: Progress) -> None:
        self.loaded, self.plan, self.folder, self.progress = loaded, loaded.plan, folder, progress
        self.results = Results(folder / "results")
        self._suites: dict[str, Suite] = {}

    def check(self) -> None:
        """Find out before training what measuring would miss after it: files, metrics, corpora."""
        files: dict[str, str] = {}
        for name, suite in self.plan.suites.items():
            fingerprint(suite)
            if suite.path is not None:
                other = files.setdefault(self.suite(name).name, name)
                if other != name:
                    raise FocatError(
                        f"{self.loaded.where}: suites.{other} and suites.{name}: both files are called "
                        f"{self.suite(name).name}, and their instances would be taken together; rename one"
                    )
        settings = next(self.loaded.all_settings())[2]
        for name, test in self.plan.tests.items():
            corpora = [test.corpus] if test.corpus else settings.data.test
            if not corpora:
                raise FocatError(f"{self.loaded.where}: tests.{name}: give a corpus, or one under data.test")
            fingerprint(corpora)
            try:
                _measures(test).check(has_source=True)
            except FocatError as error:
                problem = str(error).removeprefix("--metrics: ")
                raise FocatError(f"{self.loaded.where}: tests.{name}.metrics: {problem}") from None
        if self.plan.analyses and settings.data.train and not getattr(settings.data, self.plan.analyse):
            raise FocatError(f"{self.loaded.where}: analyses: give a corpus under data.{self.plan.analyse}")

    def prepare(self, systems: list[str]) -> None:
        """Make the stores that systems need and that are not there."""
        made = set()
        for system, _, settings in self.loaded.all_settings():
            store = self.store_of(settings)
            if system in systems and store not in made and settings.data.train:
                prepare(settings.data.model_copy(update={"store": store}), self.progress)
                made.add(store)

    def store_of(self, settings: Settings) -> Path:
        """The store that a system is trained on; it is named after all that goes into it."""
        data = settings.data
        return self.folder / "stores" / _data_digest(data)[:12] if data.train else data.store

    def work(self, system: str, seed: int) -> SystemWork:
        """The work on one system and seed."""
        return SystemWork(self, system, seed)

    def all_work(self) -> list[SystemWork]:
        """On every system with every seed, in the order of the plan."""
        return [self.work(system, seed) for system, seed, _ in self.loaded.all_settings()]

    def suite(self, name: str) -> Suite:
        """A suite as it was published."""
        if name not in self._suites:
            self._suites[name] = _read_suite(name, self.plan.suites[name])
        return self._suites[name]

    def done(self) -> list[Record]:
        """All results that are up to date, in the order of the plan."""
        return [record for work in self.all_work() for step in work.steps() if (record := work.result(step))]


class SystemWork:
    """What is to be done for one system and seed."""

    def __init__(self, workshop: Workshop, system: str, seed: int) -> None:
        self.workshop, self.system, self.seed = workshop, system, seed
        self.plan, self.progress, self.results = workshop.plan, workshop.progress, workshop.results
        self.run_folder = workshop.folder / "runs" / f"{system}-seed{seed}"
        self.planned = workshop.loaded.settings(system, seed)
        self.trained = Step(system, seed, "train")

    def __str__(self) -> str:
        return f"{self.system} (seed {self.seed})"

    @cached_property
    def origin(self) -> SystemWork | None:
        """The work whose weights this one starts from."""
        name = self.plan.systems[self.system].init_from
        return None if name is None else self.workshop.work(name, self.seed)

    def steps(self) -> Iterator[Step]:
        """Everything, in the order in which it is done."""
        yield self.trained
        size = self.planned.windows.size
        for name, suite in self.plan.suites.items():
            for window in self._sizes(suite.windows):
                yield Step(self.system, self.seed, "contrast", name, window=window)
        for name, test in self.plan.tests.items():
            contexts = test.contexts if size > 1 else test.contexts[:1]  # alone, a sentence has no target context
            for context in contexts:
                for window in self._sizes(test.windows):
                    yield Step(self.system, self.seed, "evaluate", name, context, window)
        if self.plan.analyses:
            yield Step(self.system, self.seed, "analyse")

    def _sizes(self, others: tuple[int, ...]) -> list[int | None]:
        """The size of training, then others; a system that sees one sentence is not asked about more."""
        trained = self.planned.windows.size
        return [None, *(size for size in others if size != trained and trained > 1)]

    # ---------------------------------------------------------------------------------------- what is there already

    def result(self, step: Step) -> Record | None:
        """The result of a step, if it is up to date."""
        inputs = self.inputs(step)
        found = None if inputs is None else self.results.of(step, inputs)
        if found is None or step.kind == "train":
            return found
        # a run that is not here was trained elsewhere, and its results are all that came
        return found if self.details(step).exists() or not self.run_folder.exists() else None

    def missing(self) -> list[Step]:
        """Steps that are still to be done."""
        return [step for step in self.steps() if self.result(step) is None]

    def inputs(self, step: Step) -> str | None:
        """The digest of all that a step is made from; None if that is not there yet."""
        if step.kind == "train":
            identity = self._identity()
            until = self.planned.training.model_dump(include={"budget", "patience"})
            return None if identity is None else digest_of([identity, until, self.plan.average])
        trained = self.result(self.trained)
        if trained is None:
            return None
        about = [_VERSION, trained["inputs"], trained["result"]["weights"]["sha256"], step.name]
        if step.kind == "contrast":
            suite = self.plan.suites[step.subject]
            return digest_of([*about, fingerprint(suite.model_copy(update={"windows": ()})), self.plan.rules])
        decoding = fingerprint(self.planned.decoding)
        if step.kind == "evaluate":
            test = self.plan.tests[step.subject]
            corpora = [test.corpus] if test.corpus else self.planned.data.test
            how = test.model_dump(exclude={"corpus", "contexts", "windows"}, exclude_defaults=True)
            return digest_of([*about, decoding, fingerprint(corpora), how])
        return digest_of([*about, self.plan.analyses, self.plan.analyse, self.plan.analyse_sentences])

    def details(self, step: Step) -> Path:
        """Where every item of a step is: what `focat compare` and `focat report` read."""
        ending = "jsonl" if step.kind == "contrast" else "json"
        return self.run_folder / ("results" if self._on_page(step) else "more-results") / f"{step.name}.{ending}"

    def set_aside_what_is_old(self) -> None:
        """Move away what lies among the results of the run and is not of this plan and these weights."""
        current = {self.details(step) for step in self.steps() if self.result(step) is not None}
        older = self.run_folder / "older-results"
        for path in sorted((self.run_folder / "results").glob("*")):
            if path.is_file() and path not in current:
                with disk_errors(older):
                    older.mkdir(exist_ok=True)
                    path.replace(older / path.name)

    def _on_page(self, step: Step) -> bool:
        """Whether the report shows it: of each figure one, so no other windows, and one kind of target context."""
        if step.kind == "evaluate":
            first = next(iter(self.plan.tests))
            return (step.subject, step.context, step.window) == (first, self.plan.tests[first].contexts[0], None)
        return step.window is None

    def _identity(self) -> str | None:
        """What the run is of: settings, corpus, and the weights it starts from; None if these are not there yet."""
        store = self.workshop.store_of(self.planned)
        if not (store / "manifest.json").exists():
            return None
        keys = Store(store).manifest["keys"]
        origin = None
        if self.origin is not None:
            found = self.origin.result(self.origin.trained)
            if found is None:
                return None
            origin = found["result"]["weights"]["sha256"]
        settings = self.planned.model_dump(mode="json", exclude=_NOT_IDENTITY, exclude_defaults=True)
        return digest_of([_VERSION, settings, keys["train"], keys.get("dev"), origin])

    # ------------------------------------------------------------------------------------------------------- doing it

    def do(self, step: Step) -> None:
        """One step; its result is there afterwards."""
        inputs, watch = self.inputs(step), Stopwatch()
        if inputs is None:
            raise FocatError(f"{step}: what it needs is not there")
        if step.kind == "train":
            result, more = self._train()
            command = f"focat train {_quoted(self.run_folder / 'config.yaml')}"
            self.results.keep(step, inputs, result, watch.provenance(command, **more))
            return
        if not self.run_folder.exists():
            raise FocatError(
                f"{step}: {self.run_folder} is not here; bring it, or delete {self.results.path(self.trained)}, "
                "and it is trained again"
            )
        with disk_errors(self.run_folder):
            self.details(step).parent.mkdir(exist_ok=True)
        does = {"contrast": self._contrast, "evaluate": self._evaluate, "analyse": self._analyse}[step.kind]
        result, command = does(step)
        self.results.keep(step, inputs, result, watch.provenance(command))

    @cached_property
    def run(self) -> Run:
        """The run, once it is trained."""
        return Run.open(self.run_folder)

    @cached_property
    def _model(self) -> Model:
        return load(self.run_folder, self.planned.training.device)

    def _train(self) -> tuple[Record, Record]:
        self._make_room()
        state = train(self._settings(), self.progress)
        run = Run.open(self.run_folder)
        if self.plan.average > 1 and state.best is not None:
            average(run, self.plan.average)
        weights = run.weights_folder()
        lines = run.log.read_text(encoding="utf-8").splitlines()
        validations = [record for record in map(json.loads, lines) if record["kind"] == "validation"]
        settings = self.planned
        shift = json.loads((run.path / "model.json").read_text(encoding="utf-8"))["shift"]
        result = {
            "signature": (
                f"train|recipe:{Path(self.plan.systems[self.system].recipe).name}|seed:{self.seed}|"
                f"budget:{_limits(settings)}|average:{self.plan.average}|identity:{str(self._identity())[:8]}"
            ),
            "updates": state.update,
            "epochs": round(state.epochs, 6),
            "best": None if state.best is None else {"update": state.best[0], "value": state.best[1]},
            "criterion": settings.training.criterion,
            "weights": {
                "from": str(weights.relative_to(run.path)),
                "sha256": sha256(weights / "weights.safetensors"),
            },
            "window": settings.windows.size,
            **settings.objective.model_dump(include={"discount"}),
            "shift": shift,
            "segment_embeddings": settings.model.segment_embeddings,
            "init_from": self.plan.systems[self.system].init_from,
            "validations": [{name: v[name] for name in _CURVE if name in v} for v in validations],
        }
        return result, {"minutes": round(state.minutes, 3)}

    def _make_room(self) -> None:
        """A run of other settings is set aside, not deleted: nobody asked for that."""
        identity = self._identity()
        beside = self.run_folder.with_suffix(".json")
        with disk_errors(self.run_folder):
            self.run_folder.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(beside.read_text(encoding="utf-8"))["identity"] if beside.exists() else None
        if before == identity:
            return
        if self.run_folder.exists() and before is not None:
            aside = self.run_folder.with_name(f"{self.run_folder.name}.{before[:8]}")
            with disk_errors(aside):
                shutil.rmtree(aside, ignore_errors=True)  # the same settings, trained before those in between
                self.run_folder.rename(aside)
            self.progress.log(f"{self}: settings, corpus or origin have changed; the earlier run is now {aside}")
        write_json(beside, {"identity": identity})

    def _settings(self) -> Settings:
        """What is trained: the planned settings, with the folders of this workshop."""
        origin = None
        if self.origin is not None:
            origin = self.origin.run_folder
            if (self.run_folder / "config.yaml").exists():  # the folder may have moved since; it is not read again
                begun = Run(self.run_folder)
                if begun.checkpoints():
                    origin = begun.settings.training.init_from
                else:
                    shutil.rmtree(self.run_folder)
        training = self.planned.training.model_copy(update={"output_dir": self.run_folder, "init_from": origin})
        data = self.planned.data.model_copy(update={"store": self.workshop.store_of(self.planned)})
        return self.planned.model_copy(update={"training": training, "data": data})

    def _contrast(self, step: Step) -> tuple[Record, str]:
        planned, suite, rules = self.plan.suites[step.subject], self.workshop.suite(step.subject), self.plan.rules
        asking = Asking(rules[0], window=step.window, form=Form(planned.detokenise, planned.lowercase))
        device = device_named(self.planned.training.device)
        (answered,), setup = ask(self.run, [suite], asking, device, self.progress)
        found = list(answered.answers)
        write_atomic(self.details(step), instance_lines([answered], rules[0]))
        result = {
            "signature": {rule: replace(setup, rule=rule).signature([suite]) for rule in rules},
            "suite": {"name": suite.name, "kind": suite.kind, "sha256": suite.sha256, "instances": len(found)},
            "chance": 100 * suite.chance,
            "accuracy": {rule: 100 * sum(answer.correct(rule) for answer in found) / len(found) for rule in rules},
            "answers": _packed(found, rules),
        }
        return result, self._contrast_command(step, planned)

    def _contrast_command(self, step: Step, planned: SuitePlan) -> str:
        if planned.path is None:
            return f"focat reproduce {shlex.quote(self.workshop.loaded.where)} --only {self.system}"
        words = ["focat", "contrast", _quoted(self.run_folder), "--suite", _quoted(planned.path)]
        if planned.context_source is not None and planned.context_target is not None:
            words += ["--context-source", _quoted(planned.context_source)]
            words += ["--context-target", _quoted(planned.context_target)]
        words += ["--detokenise"] * planned.detokenise + ["--lowercase"] * planned.lowercase
        words += [] if step.window is None else ["--window", str(step.window)]
        return " ".join(words)

    def _evaluate(self, step: Step) -> tuple[Record, str]:
        test = self.plan.tests[step.subject]
        corpora = [test.corpus] if test.corpus else self.planned.data.test
        documents = [document for corpus in corpora for document in read_documents(corpus)]
        self.progress.log(f"{step}: {sum(len(d.source) for d in documents):,} sentences")
        options = {"context": step.context, "window": step.window, "beam": test.beam, "constrained": test.constrained}
        texts, made = translate_documents(self._model, documents, self.progress, **options)
        figures = evaluate(texts, _measures(test), self.progress)
        record = evaluation_record(self.system, texts, figures, made)
        write_evaluation(self.details(step), record)
        how = ("context", "constrained", "window", "beam", "length_penalty")
        result = {
            "signature": "|".join(["evaluate", *(f"{name}:{made[name]}" for name in how)]),
            "cut": made["cut"],
            "reference": record["reference"],
            "figures": {
                figure["name"]: {name: figure[name] for name in ("score", "interval", "signature")}
                for figure in record["figures"]
            },
            "lines": {
                figure.name: {"metric": figure.metric, "level": figure.level, **packed_numbers(figure.statistics)}
                for figure in figures
            },
        }
        return result, self._evaluate_command(step, test)

    def _evaluate_command(self, step: Step, test: TestPlan) -> str:
        words = ["focat", "evaluate", _quoted(self.run_folder), "--context", step.context, "--metrics", test.metrics]
        words += [] if step.window is None else ["--window", str(step.window)]
        words += [] if test.beam is None else ["--beam", str(test.beam)]
        words += ["--unconstrained"] * (not test.constrained) + ["--lowercase"] * test.lowercase
        words += [] if test.fragments is None else ["--fragments", str(test.fragments)]
        source, target = (getattr(test.corpus, side, None) for side in ("source", "target"))
        words += ["--source", _quoted(source), "--reference", _quoted(target)] if source and target else []
        return " ".join(words)

    def _analyse(self, step: Step) -> tuple[Record, str]:
        chosen = Chosen(self.plan.analyse, limit=self.plan.analyse_sentences)
        asked = Asked(parts=self.plan.analyses)
        found = analyse([self.run_folder], chosen, asked, self.progress, device_named(self.planned.training.device))
        record = found.record()
        write_json(self.details(step), record)
        (of_system,) = record["systems"].values()
        result: Record = {"signature": f"analyse|split:{self.plan.analyse}|sentences:{record['corpus']['sentences']}"}
        if "attention" in self.plan.analyses:
            attention = of_system["attention"]
            result |= {"share": attention["share"], "entropy": attention["entropy"]}
        if "losses" in self.plan.analyses:
            result["losses"] = of_system["losses"]["end"]
        words = ["focat", "analyse", _quoted(self.run_folder), "--split", self.plan.analyse]
        words += ["--analyses", ",".join(self.plan.analyses)]
        words += [] if self.plan.analyse_sentences is None else ["--limit", str(self.plan.analyse_sentences)]
        return result, " ".join(words)


def _data_digest(data: DataSettings) -> str:
    return digest_of(fingerprint(data.model_dump(exclude={"store"}, exclude_defaults=True)))


def _measures(test: TestPlan) -> Measures:
    return Measures(parse_metrics(test.metrics), test.fragments, test.lowercase)


def _limits(settings: Settings) -> str:
    budget = settings.training.budget.model_dump(exclude_none=True)
    return "+".join(f"{value:g}{name}" for name, value in budget.items())


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _read_suite(name: str, planned: SuitePlan) -> Suite:
    if planned.generated == "contrapro":
        entries, source, target = contrapro_suite(planned.instances, planned.seed)
        return Suite(name, "contrapro", contrapro_instances(entries, (source, target)), digest_of(entries))
    if planned.generated is not None:
        made = voita_suite(planned.generated, planned.instances, planned.seed)
        return Suite(name, "voita", voita_instances(made, planned.generated), digest_of(made))
    assert planned.path is not None
    source_file, target_file = planned.context_source, planned.context_target
    context = None if source_file is None or target_file is None else ContextFiles(source_file, target_file)
    return read_suite(planned.path, context)


def _packed(found: list[Answer], rules: Sequence[ScoringRule]) -> Record:
    """Whether each answer is right, and what it is about, in a character each."""
    phenomena = [(name, len(list(group))) for name, group in groupby(answer.instance.phenomenon for answer in found)]
    return {
        "phenomena": [list(run) for run in phenomena],
        "distances": "".join(_DISTANCES[distance_of(answer.instance)] for answer in found),
        "ids": digest_of([[str(answer.instance.id), answer.instance.right] for answer in found]),
        "correct": {rule: "".join("01"[answer.correct(rule)] for answer in found) for rule in rules},
    }
