"""Plans: which systems to train, on which data and for how long, and what to measure on them.

A plan is a YAML file of these settings (docs/reproducing.md). `focat:NAME` is one that comes with focat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from focat.choices import Correction, ScoringRule, TargetContext, TestSplit
from focat.config import Settings
from focat.config.corpora import AnyCorpus
from focat.config.loading import apply_overrides, merge_trees, packaged_file, read_tree, validate_tree
from focat.config.schema import BudgetSettings
from focat.config.sections import FilePath, FileString, SettingsSection
from focat.corpus.text_files import DECOMPRESSORS
from focat.errors import FocatError

PLANS = Path(__file__).parent.parent / "plans"  # one file for each plan, part of the package
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")

PlannedAnalysis = Literal["attention", "losses"]


def _settings_file(name: object) -> object:
    """The name of a recipe, or a file relative to the folder of the plan."""
    if isinstance(name, FileString) and not name.startswith("focat:"):
        return str(name.folder / Path(name).expanduser())
    return str(name) if isinstance(name, str) else name


def _plain_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("names become file names: use letters, digits, -, + and _")
    return name


SettingsFile = Annotated[str, BeforeValidator(_settings_file)]
FileNamePart = Annotated[str, AfterValidator(_plain_name)]
Seeds = Annotated[tuple[int, ...], Field(min_length=1)]


class SystemPlan(SettingsSection):
    """One system: a recipe or settings file, and the settings that differ from it."""

    recipe: SettingsFile
    """A recipe such as `focat:s4to4`, or a settings file beside the plan."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings over those of the recipe and of the plan, in sections as in a settings file."""
    title: str | None = None
    """Its title in tables; its name if not given."""
    init_from: str | None = None
    """Another system of the plan whose weights, of the same seed, are the starting point."""
    budget: BudgetSettings | None = None
    """Its own budget instead of the plan's."""
    seeds: Seeds | None = None
    """Its own seeds instead of the plan's."""
    against: tuple[str, ...] | None = None
    """Systems to compare it with, instead of the plan's."""
    paper: str | None = None
    """The row of the paper's tables to show beside it; the one of its own name if not given."""


class SuitePlan(SettingsSection):
    """One contrastive suite: a published file, or one of the generated corpus."""

    path: FilePath | None = None
    """The file, as published."""
    context_source: FilePath | None = None
    """For ContraPro: the file with the context's lines, on the source."""
    context_target: FilePath | None = None
    """The same on the target."""
    detokenise: bool = False
    """Undo the tokenisation that the suite was published with."""
    lowercase: bool = False
    """Lower-case every sentence."""
    generated: Literal["deixis", "lex_cohesion", "ellipsis_vp", "contrapro"] | None = None
    """A suite of the generated corpus, instead of a file."""
    instances: PositiveInt = 300
    """With `generated`, how many instances."""
    seed: int = 1000
    """With `generated`, of which documents; not those of any corpus."""
    windows: tuple[PositiveInt, ...] = ()
    """Window sizes to ask with, besides the one of training."""

    @model_validator(mode="after")
    def _one_source(self) -> SuitePlan:
        if (self.path is None) == (self.generated is None):
            raise ValueError("give either path, a file, or generated")
        if (self.context_source is None) != (self.context_target is None):
            raise ValueError("context_source and context_target come together")
        if self.generated is not None and self.context_source is not None:
            raise ValueError("a generated suite has its context inside; take context_source and context_target out")
        return self


class TestPlan(SettingsSection):
    """One test set to translate and to evaluate."""

    __test__ = False  # pytest would collect it

    corpus: AnyCorpus | None = None
    """The documents; those of data.test if not given."""
    contexts: Annotated[tuple[TargetContext, ...], Field(min_length=1)] = ("reuse", "regenerate")
    """Where target context comes from: earlier translations, or the whole window decoded again (the paper)."""
    windows: tuple[PositiveInt, ...] = ()
    """Window sizes to translate with, besides the one of training."""
    metrics: str = "bleu,chrf"
    """Of bleu, chrf, chrf++, ter and comet."""
    lowercase: bool = False
    """Measure lower-cased, as the paper does for En→Ru."""
    fragments: Annotated[int, Field(ge=2)] | None = None
    """Also measure lines of so many sentences, as the paper does for En→Ru."""
    beam: PositiveInt | None = None
    """Hypotheses kept at each step; those of the system's settings if not given."""
    constrained: bool = True
    """Every window yields as many sentences as it has; if not, what follows the last separator is kept (the paper)."""


class Plan(SettingsSection):
    """A grid of systems and what is measured on them."""

    title: str = ""
    """What the plan is about, in one line."""
    pair: Literal["en-ru", "en-de"] | None = None
    """The language pair of the paper's figures to show beside ours; none if not given."""
    folders: dict[str, str] = Field(default_factory=dict)
    """Folders that the user gives as NAME=FOLDER, by name, with a description; `{NAME}` stands for one in paths."""
    data: dict[str, Any]
    """The corpora, as in a settings file; or only `store`, an existing token store."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of all systems, over those of their recipes."""
    systems: Annotated[dict[FileNamePart, SystemPlan], Field(min_length=1)]
    """The systems, by name."""
    seeds: Seeds = (1,)
    """Each system is trained once with each."""
    budget: BudgetSettings | None = None
    """Training of each system; that of its recipe if not given."""
    average: NonNegativeInt = 0
    """Checkpoints to average around the best; 0 uses the best alone."""
    suites: dict[FileNamePart, SuitePlan] = Field(default_factory=dict)
    """Contrastive suites, by name."""
    rules: Annotated[tuple[ScoringRule, ...], Field(min_length=1)] = ("current-sum", "window-mean")
    """By which scores candidates are chosen; tables are built with each, `window-mean` being the authors'."""
    tests: dict[FileNamePart, TestPlan] = Field(default_factory=dict)
    """Test sets, by name."""
    analyses: tuple[PlannedAnalysis, ...] = ()
    """`attention`: share and entropy of attention; `losses`: of current and context sentences."""
    analyse: TestSplit = "test"
    """The split that is analysed."""
    analyse_sentences: PositiveInt | None = None
    """Analyse whole documents until there are so many sentences; all of the split if not given."""
    against: tuple[str, ...] = ()
    """Systems that others are compared with: a star is for those that are better than all of these."""
    correction: Correction = "none"
    """Of p-values, for multiple comparisons; the paper has none."""

    @model_validator(mode="before")
    @classmethod
    def _remove_null_entries(cls, tree: Any) -> Any:
        """`NAME: null` removes a system, suite or test of the base plan."""
        if not isinstance(tree, dict):
            return tree
        named = {name: tree[name] for name in ("systems", "suites", "tests") if isinstance(tree.get(name), dict)}
        return tree | {name: {k: v for k, v in entries.items() if v is not None} for name, entries in named.items()}

    @model_validator(mode="after")
    def _check_systems(self) -> Plan:
        for name, system in self.systems.items():
            if system.init_from is not None:
                self._check_known(system.init_from, f"systems.{name}.init_from")
                self._check_parents(name)
            for other in system.against or ():
                self._check_known(other, f"systems.{name}.against")
        for name in self.against:
            self._check_known(name, "against")
        titles: dict[str, str] = {}
        for name in self.systems:
            other = titles.setdefault(self.title_of(name), name)
            if other != name:
                raise ValueError(f"systems.{other} and systems.{name}: both are called {self.title_of(name)}")
        for where, names in (("suites", self.suites), ("tests", self.tests)):
            for name in names:
                if re.fullmatch(r"window\d+", name):
                    raise ValueError(f"{where}.{name}: steps with windows of other sizes are called so; rename it")
        return self

    def _check_known(self, name: str, where: str) -> None:
        if name not in self.systems:
            raise ValueError(f"{where}: there is no system {name} (there are: {', '.join(self.systems)})")

    def _check_parents(self, name: str) -> None:
        """Raise an error if a parent lacks a seed, or if systems start from each other in a circle."""
        system, seen = self.systems[name], [name]
        while system.init_from is not None and system.init_from in self.systems:
            if system.init_from in seen:
                raise ValueError(f"systems.{name}.init_from: leads back to itself, by {' ← '.join(seen)}")
            missing = set(self.seeds_of(seen[-1])) - set(self.seeds_of(system.init_from))
            if missing:
                raise ValueError(
                    f"systems.{seen[-1]}.init_from: {system.init_from} is not trained with seed {min(missing)}"
                )
            seen.append(system.init_from)
            system = self.systems[system.init_from]

    def seeds_of(self, name: str) -> tuple[int, ...]:
        """The seeds that a system is trained with."""
        return self.systems[name].seeds or self.seeds

    def baselines_of(self, name: str) -> list[str]:
        """The systems that a system is compared with; a baseline is compared with those before it."""
        own = self.systems[name].against
        if own is not None:
            return [other for other in own if other != name]
        return list(self.against[: self.against.index(name)] if name in self.against else self.against)

    def title_of(self, name: str) -> str:
        """The title of a system in tables."""
        return self.systems[name].title or name

    def row_of(self, name: str) -> str:
        """The name of the paper's row to show beside a system."""
        return self.systems[name].paper or name


class LoadedPlan:
    """A plan with the settings of its systems."""

    def __init__(self, where: str, plan: Plan) -> None:
        self.where, self.plan = where, plan
        self._settings: dict[tuple[str, int], Settings] = {}

    def settings(self, system: str, seed: int) -> Settings:
        """The settings of one system and seed; folders of the store, the run and initial weights are set later."""
        if (system, seed) not in self._settings:
            self._settings[system, seed] = self._load(system, seed)
        return self._settings[system, seed]

    def all_settings(self) -> Iterator[tuple[str, int, Settings]]:
        """The settings of every system with every seed, in the order of the plan."""
        for system in self.plan.systems:
            for seed in self.plan.seeds_of(system):
                yield system, seed, self.settings(system, seed)

    def _load(self, name: str, seed: int) -> Settings:
        plan, system = self.plan, self.plan.systems[name]
        where = f"{self.where}, system {name}"
        tree = read_tree(Path(system.recipe))
        for over in ({"data": plan.data}, plan.settings, system.settings, {"training": {"seed": seed}}):
            tree = merge_trees(tree, over)
        budget = system.budget or plan.budget
        if budget is not None:  # replaces that of the recipe
            tree = merge_trees(tree, {"training": {"budget": budget.model_dump()}})
        settings = validate_tree(Settings, tree, where)
        if settings.training.init_from is not None:
            raise FocatError(
                f"{where}: training.init_from is a file; name a system of the plan, systems.{name}.init_from"
            )
        return settings


def load_plan(name: str, overrides: Sequence[str] = ()) -> LoadedPlan:
    """Load a plan with overrides, and validate the settings of every system.

    Args:
        name: a file, or a plan that comes with focat.
        overrides: `key=value`, and `NAME=FOLDER` for the folders that the plan declares.
    """
    path = _file(name)
    tree = read_tree(path)
    declared: dict[str, Any] = tree["folders"] if isinstance(tree.get("folders"), dict) else {}
    folders = {key: text for key, _, text in (o.partition("=") for o in overrides) if key in declared}
    tree = apply_overrides(tree, [o for o in overrides if o.partition("=")[0] not in declared])
    for key, holds in declared.items():
        if key not in folders:
            raise FocatError(f"{name}: needs {key}=FOLDER, the folder that holds {holds}")
        folder = Path(folders[key]).expanduser().absolute()
        if not folder.is_dir():
            raise FocatError(f"{key}={folders[key]}: there is no such folder; it should hold {holds}")
        folders[key] = str(folder)
    loaded = LoadedPlan(name, validate_tree(Plan, _fill_placeholders(tree, folders, name), name))
    for _ in loaded.all_settings():
        pass
    return loaded


def plan_names() -> dict[str, str]:
    """The plans that come with focat, and what each is about."""
    return {path.stem: str(read_tree(path).get("title", "")) for path in sorted(PLANS.glob("*.yaml"))}


def _file(name: str) -> Path:
    """A file that exists or ends in .yaml; else the plan of that name, with or without `focat:`."""
    if not name.startswith("focat:") and (Path(name).is_file() or Path(name).suffix in (".yaml", ".yml")):
        return Path(name)
    path = packaged_file(name if name.startswith("focat:") else f"focat:{name}", PLANS, "plan")
    assert path is not None
    return path


def _fill_placeholders(tree: Any, folders: dict[str, str], where: str) -> Any:
    """The tree with `{NAME}` replaced by the folder of that name; a file in it may be compressed."""
    if isinstance(tree, dict):
        return {k: v if k == "folders" else _fill_placeholders(v, folders, where) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_fill_placeholders(value, folders, where) for value in tree]
    if not isinstance(tree, FileString) or not _PLACEHOLDER.match(tree):
        return tree
    for name in _PLACEHOLDER.findall(tree):
        if name not in folders:
            raise FocatError(f"{where}: {tree}: no folder {name} is declared under folders:")
    return FileString(_existing_file(_PLACEHOLDER.sub(lambda found: folders[found[1]], tree)), tree.folder)


def _existing_file(path: str) -> str:
    """The file, or its compressed version if only that exists."""
    return next((path + end for end in ("", *DECOMPRESSORS) if Path(path + end).exists()), path)
