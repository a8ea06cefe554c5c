"""The folder of a plan: token stores, runs and results, and the suites that systems are tested on."""

from __future__ import annotations

from pathlib import Path

from focat.config import Settings
from focat.config.data import DataSettings
from focat.corpus.generated import contrapro_suite, voita_suite
from focat.corpus.prepare import prepare
from focat.errors import FocatError
from focat.evaluation.metrics import parse_metrics
from focat.evaluation.quality import MetricConfig
from focat.evaluation.suites import (
    ContextFiles,
    Suite,
    contrapro_instances,
    contrastive_suite,
    read_suite,
    voita_instances,
)
from focat.experiments.plan import LoadedPlan, SuitePlan, TestPlan
from focat.experiments.results import ResultStore, fingerprint
from focat.files import digest_of, partial_file, read_json_object
from focat.progress import Progress

_KINDS = {"results.json": "focat results", "provenance.json": "focat provenance", "tables.json": "focat tables"}


class Experiment:
    """A plan and the folder that it runs in."""

    def __init__(self, loaded: LoadedPlan, folder: Path, progress: Progress) -> None:
        self.loaded, self.plan, self.folder, self.progress = loaded, loaded.plan, folder, progress
        self.results = ResultStore(folder / "results")
        self._suites: dict[str, Suite] = {}

    def check_folder(self) -> None:
        """Refuse a folder with a file that would be replaced, but that was not written for a plan.

        What an interrupted plan has left under the name of an unfinished file is deleted.
        """
        folder, own = self.folder, False
        for name, kind in _KINDS.items():
            if (folder / name).exists():
                own = _kind_of(folder / name) == kind
                _refuse_unless(own, folder / name)
        if (folder / "tables.md").exists():  # written together with the others
            _refuse_unless(own, folder / "tables.md")
        if (folder / "report.html").exists():
            _refuse_unless(_is_page(folder / "report.html"), folder / "report.html")
        interrupted = any((folder / name).is_dir() for name in ("stores", "runs", "results"))
        for partial in (partial_file(folder / name) for name in (*_KINDS, "tables.md", "report.html")):
            _refuse_unless(interrupted or not partial.exists(), partial)
            partial.unlink(missing_ok=True)

    def check(self) -> None:
        """Check everything that measuring needs before training starts: suites, metrics, corpora.

        Raises:
            FocatError: something is missing, or two suites have the same name.
        """
        names: dict[str, str] = {}
        for name, suite in self.plan.suites.items():
            fingerprint(suite)
            if suite.path is not None:
                other = names.setdefault(self.suite(name).name, name)
                if other != name:
                    raise FocatError(
                        f"{self.loaded.where}: suites.{other} and suites.{name}: both files are called "
                        f"{self.suite(name).name}, and their instances would be counted together; rename one"
                    )
        settings = next(self.loaded.all_settings())[2]
        for name, test in self.plan.tests.items():
            corpora = [test.corpus] if test.corpus else settings.data.test
            if not corpora:
                raise FocatError(f"{self.loaded.where}: tests.{name}: give a corpus, or one under data.test")
            fingerprint(corpora)
            try:
                metrics_of(test).check(has_source=True)
            except FocatError as error:
                problem = str(error)
                what = problem.removeprefix("metrics") if problem.startswith("metrics") else f": {problem}"
                raise FocatError(f"{self.loaded.where}: tests.{name}.metrics{what}") from None
        if self.plan.analyses and settings.data.train and not getattr(settings.data, self.plan.analyse):
            raise FocatError(f"{self.loaded.where}: analyses: give a corpus under data.{self.plan.analyse}")

    def prepare(self, systems: list[str]) -> None:
        """Make the token stores that these systems need and that do not exist yet."""
        prepared = set()
        for system, _, settings in self.loaded.all_settings():
            store = self.store_of(settings)
            if system in systems and store not in prepared and settings.data.train:
                prepare(settings.data.model_copy(update={"store": store}), self.progress)
                prepared.add(store)

    def store_of(self, settings: Settings) -> Path:
        """The token store that a system is trained on; its name is a digest of the data settings."""
        data = settings.data
        return self.folder / "stores" / data_digest(data)[:12] if data.train else data.store

    def suite(self, name: str) -> Suite:
        """A suite of the plan, read once."""
        if name not in self._suites:
            self._suites[name] = _load_suite(name, self.plan.suites[name])
        return self._suites[name]


def _kind_of(path: Path) -> object:
    try:
        return read_json_object(path, "").get("kind")
    except FocatError:
        return None


def _is_page(path: Path) -> bool:
    """Whether a file is a page of `focat report`."""
    with path.open("rb") as file:
        return b'<meta name="generator" content="focat ' in file.read(100_000)


def _refuse_unless(own: bool, path: Path) -> None:
    if not own:
        raise FocatError(
            f"{path}: was not written by `focat reproduce`, which would replace it; move it, or give another folder"
        )


def data_digest(data: DataSettings) -> str:
    """Digest of data settings and of the files that they name."""
    return digest_of(fingerprint(data.model_dump(exclude={"store"}, exclude_defaults=True)))


def metrics_of(test: TestPlan) -> MetricConfig:
    """The metrics of a test set."""
    return MetricConfig(parse_metrics(test.metrics), test.fragments, test.lowercase)


def _load_suite(name: str, planned: SuitePlan) -> Suite:
    if planned.generated == "contrapro":
        entries, source, target = contrapro_suite(planned.instances, planned.seed)
        return Suite(name, "contrapro", contrapro_instances(entries, (source, target)), digest_of(entries))
    if planned.generated is not None:
        generated = voita_suite(planned.generated, planned.instances, planned.seed)
        return Suite(name, "voita", voita_instances(generated, planned.generated), digest_of(generated))
    assert planned.path is not None
    source_file, target_file = planned.context_source, planned.context_target
    context = None if source_file is None or target_file is None else ContextFiles(source_file, target_file)
    return contrastive_suite(read_suite(planned.path, context), planned.path)
