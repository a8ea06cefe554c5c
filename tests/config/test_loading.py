"""Files, bases and overrides to settings; and what a user is told, in one line, when something is wrong."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from focat.config import Settings, dump_settings, load_settings, override_decoding
from focat.config.corpora import TextCorpus
from focat.config.explain import RENAMED
from focat.errors import FocatError
from tests.config.test_schema import POSSIBLE

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file below the test's own folder."""

    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def complaint(path: Path, *overrides: str) -> str:
    """The error of loading a file, which is always one line and always names the file or the override."""
    with pytest.raises(FocatError) as caught:
        load_settings(path, overrides)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith((str(path), *overrides))
    return message


# ---------------------------------------------------------------------------------------------------------------- bases


def test_an_empty_file_is_the_defaults(write: Write) -> None:
    assert load_settings(write("a.yaml", "# nothing yet\n")) == Settings()


def test_a_file_wins_over_its_base_setting_by_setting(write: Write) -> None:
    write("base.yaml", "windows: {before: 1, max_tokens: 99}\nmodel: {preset: tiny}\n")
    settings = load_settings(write("a.yaml", "base: base.yaml\nwindows: {before: 2}\n"))
    assert (settings.windows.before, settings.windows.max_tokens, settings.model.d_model) == (2, 99, 64)


def test_bases_have_bases_and_later_ones_win(write: Write) -> None:
    write("deep/root.yaml", "training: {seed: 1, warmup: 1, keep_checkpoints: 1}\n")
    write("deep/left.yaml", "base: root.yaml\ntraining: {seed: 2, warmup: 2}\n")
    write("right.yaml", "training: {warmup: 3}\n")
    settings = load_settings(write("a.yaml", "base: [deep/left.yaml, right.yaml]\n"))
    assert (settings.training.seed, settings.training.warmup, settings.training.keep_checkpoints) == (2, 3, 1)


def test_a_base_may_be_reached_on_two_ways(write: Write) -> None:
    # A diamond is no circle.
    write("root.yaml", "training: {seed: 5}\n")
    write("left.yaml", "base: root.yaml\n")
    write("right.yaml", "base: root.yaml\n")
    assert load_settings(write("a.yaml", "base: [left.yaml, right.yaml]\n")).training.seed == 5


def test_lists_are_replaced_not_merged(write: Write) -> None:
    write("base.yaml", "data: {train: [{format: tsv, path: a}, {format: tsv, path: b}]}\n")
    settings = load_settings(write("a.yaml", "base: base.yaml\ndata: {train: [{format: generated}]}\n"))
    assert [corpus.format for corpus in settings.data.train] == ["generated"]


@pytest.mark.parametrize("text", ["base: a.yaml\n", "base: b.yaml\n"])
def test_bases_that_go_in_a_circle_are_an_error(write: Write, text: str) -> None:
    path = write("a.yaml", text)
    write("b.yaml", "base: c/c.yaml\n")
    write("c/c.yaml", "base: ../a.yaml\n")
    with pytest.raises(FocatError, match="lead back to itself"):
        load_settings(path)


def test_a_missing_base_is_named_with_the_file_that_wants_it(write: Write, tmp_path: Path) -> None:
    wants = write("sub/b.yaml", "base: no.yaml\n")
    with pytest.raises(FocatError) as caught:
        load_settings(write("a.yaml", "base: sub/b.yaml\n"))
    assert str(caught.value) == f"{wants}: base: no.yaml: there is no file {tmp_path / 'sub' / 'no.yaml'}"


@pytest.mark.parametrize("base", ["5", "{a: b}", "[a.yaml, 3]", "true"])
def test_a_base_is_a_file_name(write: Write, base: str) -> None:
    assert "should be the name of a settings file, or a list of names" in complaint(write("x.yaml", f"base: {base}\n"))


# ---------------------------------------------------------------------------------------------------------------- paths


def test_a_path_starts_from_the_file_that_wrote_it(write: Write, tmp_path: Path) -> None:
    corpus = "{format: text, source: en.txt, target: ../de.txt}"
    write("shared/base.yaml", f"data: {{store: stores/one, train: [{corpus}]}}\ntraining: {{output_dir: /runs/one}}\n")
    path = write("mine/a.yaml", "base: ../shared/base.yaml\ntraining: {init_from: other}\n")
    settings = load_settings(path)

    def there(name: str) -> Path:
        return (tmp_path / name).resolve()

    assert settings.data.store.resolve() == there("shared/stores/one")
    (train,) = settings.data.train
    assert isinstance(train, TextCorpus)
    assert (train.source.resolve(), train.target.resolve()) == (there("shared/en.txt"), there("de.txt"))
    assert settings.training.init_from is not None
    assert settings.training.init_from.resolve() == there("mine/other")
    assert settings.training.output_dir == Path("/runs/one")  # absolute is absolute


def test_a_path_on_the_command_line_starts_from_where_the_command_runs(write: Write) -> None:
    settings = load_settings(
        write("sub/a.yaml", "data: {store: mine}\n"), ["data.store=other", "training.output_dir=~/runs"]
    )
    assert settings.data.store == Path("other")
    assert settings.training.output_dir == Path.home() / "runs"


# ------------------------------------------------------------------------------------------------------------ overrides


@pytest.mark.parametrize(
    ("override", "name", "value"),
    [
        ("windows.before=1", "windows.before", 1),
        ("training.learning_rate=3e-4", "training.learning_rate", 3e-4),  # in YAML 1.1 this is a text
        ("training.learning_rate=1", "training.learning_rate", 1.0),
        ("data.cleaning.identical=true", "data.cleaning.identical", True),
        ("model.shift=avg-corpus", "model.shift", "avg-corpus"),
        ("model.shift=8", "model.shift", 8),
        ("training.patience=null", "training.patience", None),
        ("training.betas=[0.8, 0.9]", "training.betas", (0.8, 0.9)),
        ("training.device=cuda:1", "training.device", "cuda:1"),
        ("training.output_dir=a=b", "training.output_dir", Path("a=b")),
        ("training.output_dir=2024-13-45", "training.output_dir", Path("2024-13-45")),  # looks like a date and is none
        ("data.source_language=[", "data.source_language", "["),  # is no YAML, so it is a text
    ],
)
def test_an_override_has_the_type_of_its_setting(write: Write, override: str, name: str, value: object) -> None:
    found: Any = load_settings(write("a.yaml", "training: {patience: 3}\n"), [override])
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value
    assert type(found) is type(value) or isinstance(value, Path)


def test_later_overrides_win_and_sections_need_not_exist(write: Write) -> None:
    settings = load_settings(write("a.yaml", ""), ["objective.discount.start=0.5", "model.heads=2", "model.heads=4"])
    assert settings.model.heads == 4
    assert settings.objective.model_dump()["discount"]["start"] == 0.5


CORPORA = "data: {train: [{format: tsv, path: a}, {format: tsv, path: b}]}\n"


def test_an_override_reaches_into_a_list(write: Write) -> None:
    path = write("a.yaml", CORPORA)
    train = load_settings(path, ["data.train.1.max_pairs=3"]).data.train
    assert [corpus.max_pairs for corpus in train] == [None, 3]
    train = load_settings(path, ["data.train.0={format: generated}"]).data.train
    assert [corpus.format for corpus in train] == ["generated", "tsv"]


@pytest.mark.parametrize("place", ["2", "x", "-1", "²"])
def test_an_override_beyond_a_list_says_what_there_is(write: Write, place: str) -> None:
    message = complaint(write("a.yaml", CORPORA), f"data.train.{place}.max_pairs=3")
    assert f"there is no {place} in this list; it has entries 0 to 1" in message


def test_an_override_changes_one_place_even_where_yaml_shares_content(write: Write) -> None:
    text = "data:\n  train: &corpora [{format: tsv, path: a}]\n  dev: *corpora\n"
    data = load_settings(write("a.yaml", text), ["data.train.0.max_pairs=3"]).data
    assert (data.train[0].max_pairs, data.dev[0].max_pairs) == (3, None)


@pytest.mark.parametrize("override", ["windows.before", "=3", "before 3", ""])
def test_an_override_without_key_and_value_is_an_error(write: Write, override: str) -> None:
    assert "an override is written key=value" in complaint(write("a.yaml", ""), override)


# ------------------------------------------------------------------------------------------- files that are no settings


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.symlink_to(path)
    assert complaint(path).startswith(f"{path}: cannot be read: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("training:\n  seed: 1\n  seed: 2\n", ", line 3: not valid YAML: 'seed' is given twice"),
        ("windows: {}\nmodel: {}\nwindows: {}\n", ", line 3: not valid YAML: 'windows' is given twice"),
        ("windows:\n  before: 3: 4\n", ", line 2: not valid YAML: mapping values are not allowed here"),
        ("windows:\n\tbefore: 3\n", ", line 2: not valid YAML: found character '\\t' that cannot start any token"),
        ("training: {seed: 2024-13-45}\n", ", line 1: not valid YAML: month must be in 1..12"),
        ("training:\n  seed: !!int ''\n", ", line 2: not valid YAML: is no int"),
        ("training:\n  seed: !!bool x\n", ", line 2: not valid YAML: is no bool"),
        (f"training:\n  seed: {'1:' * 3000}2\n", ", line 2: not valid YAML: a number with too many digits"),
        (f"training:\n  seed: {'1:' * 3000}2.5\n", ", line 2: not valid YAML: is no float"),
        (f"training:\n  seed: 0x{'f' * 5000}\n", ", line 2: not valid YAML: a number with too many digits"),
        ("- windows\n", ": holds a list; expected sections"),
        ("windows\n", ": holds a single value; expected sections"),
        ("training: !!python/object:os.system {}\n", ", line 1: not valid YAML: could not determine a constructor"),
    ],
)
def test_what_is_not_yaml_is_named_with_its_line(write: Write, text: str, said: str) -> None:
    path = write("a.yaml", text)
    assert complaint(path).startswith(f"{path}{said}")


@pytest.mark.parametrize("content", ["windows: é".encode("latin-1"), "windows: {}".encode("utf-16"), b"\x00\x01"])
def test_what_is_not_utf8_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    assert complaint(path) == f"{path}: is not a text file in UTF-8"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert complaint(tmp_path / "a.yaml") == f"{tmp_path / 'a.yaml'}: cannot be read: No such file or directory"


def test_what_is_given_in_place_of_a_settings_file_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; give a settings file (YAML)"
    (tmp_path / "config.yaml").touch()
    assert complaint(tmp_path) == f"{tmp_path}: is a folder; its settings are in {tmp_path / 'config.yaml'}"
    assert complaint(Path("s4to4-cd")) == "s4to4-cd: no such file; the recipe is focat:s4to4-cd"
    assert complaint(Path("s4to5")) == "s4to5: cannot be read: No such file or directory"


# ---------------------------------------------------------------------------------------------- settings that are wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # A slip of the finger, in the same section.
        ("windows: {bfore: 3}", "windows.bfore = 3: there is no such setting; did you mean windows.before?"),
        ("window: {before: 3}", "window: there is no such setting; did you mean windows?"),
        ("objective: {discount: {begn_at: 0.2}}", "did you mean objective.discount.begin_at?"),
        ("data: {train: [{format: text, source: a, targe: b}]}", "did you mean data.train.0.target?"),
        # The right name in the wrong place, even where a similar one is nearer (betas).
        ("before: 3", "before = 3: there is no such setting; did you mean windows.before?"),
        ("training: {beam: 4}", "training.beam = 4: there is no such setting; did you mean decoding.beam?"),
        ("model: {label_smoothng: 0.1}", "did you mean objective.label_smoothing?"),
        # Nothing near: the names that there are.
        ("windows: {xyzzy: 1}", "there is no such setting (here: after, before, context, max_tokens, sampling,"),
        # Values.
        ("model: {norm: pst}", "model.norm = pst: should be 'post' or 'pre'; did you mean post?"),
        (
            "model: {shift: avg-corpse}",
            "should be a whole number, or should be 'avg-corpus' or 'avg-sequence'; did you",
        ),
        ("windows: {before: two}", "windows.before = two: should be a whole number"),
        ("windows: {before: -1}", "windows.before = -1: should be greater than or equal to 0"),
        ("windows: {before: {a: 1}}", "windows.before: should be a whole number"),
        (
            "objective: {discount: 2}",
            "objective.discount = 2: should be less than or equal to 1, or should be a section",
        ),
        ("objective: {discount: {start: 2}}", "objective.discount.start = 2: should be less than or equal to 1"),
        ("objective: {discount: {end_at: 0}}", "objective.discount: end_at is 0.0: it must come after begin_at, 0.0"),
        ("training: {betas: [0.9]}", "training.betas.1: is needed and not given"),
        ("data: {store: 5}", "data.store = 5: should be a path"),
        ("windows: 3", "windows = 3: should be a section with before, after,"),
        ("windows: {before: null}", "windows.before = null: should be a whole number"),
        ("windows: {before: [true]}", "windows.before = [True]: should be a whole number"),
        ("data: {source_language: true}", "data.source_language = true: should be a "),
        (
            "data: {train: [a.en, a.de]}",
            "data.train.0 = a.en: should be a corpus, a section with a format: one of",
        ),
        ("model: {d_model: 100}", "model: d_model 100 must be a multiple of"),
        ("training: {seed: a, keep_checkpoints: b}", "training.seed = a: should be a whole number (and 1 more)"),
        # Corpora, which are one of several kinds.
        ("data: {train: 5}", "data.train = 5: should be a list"),
        (
            "data: {train: [a.txt]}",
            "data.train.0 = a.txt: should be a corpus, a section with a format: one of text, ids",
        ),
        ("data: {train: [{path: a}]}", "data.train.0: should be a corpus, a section with a format: one of text, ids"),
        ("data: {train: [{format: txt}]}", "data.train.0: format txt should be one of 'text', 'ids',"),
        ("data: {train: [{format: txt}]}", "did you mean text?"),
        ("data: {train: [{format: tsv}]}", "data.train.0.path: is needed and not given"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_helps(write: Write, text: str, said: str) -> None:
    assert said in complaint(write("a.yaml", text + "\n"))


def test_even_unreasonable_values_make_one_bearable_line(write: Write) -> None:
    path = write("a.yaml", yaml.safe_dump({"model": {"norm": "post\n" * 500}}))
    assert len(complaint(path)) < len(str(path)) + 200


# ----------------------------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("given", POSSIBLE)
def test_settings_survive_being_dumped_and_loaded_elsewhere(write: Write, given: dict[str, Any]) -> None:
    # A run keeps its settings in its own folder: paths must mean there what they meant here.
    loaded = load_settings(write("recipes/a.yaml", yaml.safe_dump(given)))
    again = load_settings(write("runs/one/config.yaml", dump_settings(loaded)))
    once_more = load_settings(write("config.yaml", dump_settings(again)))
    assert dump_settings(again) == dump_settings(once_more) == dump_settings(loaded)
    assert again == once_more
    assert again.model_dump(exclude={"data": True, "training": {"output_dir"}}) == loaded.model_dump(
        exclude={"data": True, "training": {"output_dir"}}
    )
    assert again.data.train == loaded.data.train
    assert again.data.store == loaded.data.store.absolute()


# -------------------------------------------------------------------------------------------------- as a user runs them


def focat(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "focat", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_focat_config_shows_what_a_file_and_overrides_amount_to(write: Write, tmp_path: Path) -> None:
    write("base.yaml", "model: {preset: tiny}\n")
    write("a.yaml", "base: base.yaml\nwindows: {before: 1}\n")
    done = focat("config", "a.yaml", "windows.after=1", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    shown = yaml.safe_load(done.stdout)
    assert (shown["windows"]["before"], shown["windows"]["after"], shown["model"]["d_model"]) == (1, 1, 64)


def test_focat_config_without_a_file_shows_the_defaults(tmp_path: Path) -> None:
    done = focat("config", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_settings_from(done.stdout, tmp_path).windows == Settings().windows


def load_settings_from(text: str, folder: Path) -> Settings:
    (folder / "shown.yaml").write_text(text, encoding="utf-8")
    return load_settings(folder / "shown.yaml")


def test_focat_config_writes_a_schema(tmp_path: Path) -> None:
    done = focat("config", "--schema", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "windows" in json.loads(done.stdout)["properties"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.yaml"], "focat: missing.yaml: cannot be read: No such file or directory"),
        (["a.yaml", "windows.befor=1"], "focat: a.yaml: windows.befor = 1: there is no such setting; did you mean"),
        (["a.yaml", "windows.before"], "focat: windows.before: an override is written key=value"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(write: Write, tmp_path: Path, arguments: list[str], said: str) -> None:
    write("a.yaml", "windows: {before: 1}\n")
    done = focat("config", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(said)


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_setting_of_an_earlier_version_is_answered_with_its_new_name(write: Write, old: str, new: str) -> None:
    path = write("a.yaml", "windows: {before: 1}\n")
    assert complaint(path, f"{old}=1") == f"{path}: {old} = 1: is now called {new}"
    *sections, name = new.split(".")
    assert name in type(functools.reduce(getattr, sections, Settings())).model_fields


class TestOverridesOfDecoding:
    def test_only_what_is_named_changes(self) -> None:
        settings = Settings()
        changed = override_decoding(settings, ["decoding.beam=8", "decoding.target_context=none"])
        assert (changed.decoding.beam, changed.decoding.target_context) == (8, "none")
        assert changed.model_copy(update={"decoding": settings.decoding}) == settings

    @pytest.mark.parametrize(
        ("override", "problem"),
        [
            ("decoding.beam=0", "settings: decoding.beam = 0: should be greater than 0"),
            ("decoding.bean=8", "settings: decoding.bean = 8: there is no such setting; did you mean decoding.beam?"),
            ("decoding.nbest=9", "settings: decoding: nbest is 9 but only 4 hypotheses are kept: set beam to 9"),
            ("windows.before=1", "windows.before=1: only settings of decoding can change after training"),
            ("beam=8", "beam=8: only settings of decoding can change after training"),
        ],
    )
    def test_wrong_overrides(self, override: str, problem: str) -> None:
        with pytest.raises(FocatError) as caught:
            override_decoding(Settings(), [override])
        assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("name", ["windows.before", "model.shift", "model.position_offset", "training.seed"])
def test_an_integer_that_no_tensor_holds_is_refused(name: str) -> None:
    for value in (2**53, 10**30):
        with pytest.raises(FocatError, match=rf"{name} = {value}.*: should have 15 digits at most"):
            load_settings(Path("focat:demo"), [f"{name}={value}"])
