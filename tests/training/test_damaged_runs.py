"""Damaged files of a run: every command that reads one says so in a line, or gives the right result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from focat.corpus.generated.suites import write_suites
from focat.run import log_record
from tests.evaluation.commands import focat, refused, run_focat
from tests.training.runs import Workspace

LOADED = ("best", "config.yaml", "model.json", "tokenizer/tokenizer.json", "tokenizer/source.model")
AVERAGE = ("averaged/average.json", "averaged/checksums.json", "averaged/weights.safetensors")
LAST = "checkpoints/0000012"
TRAINING = tuple(f"{LAST}/{name}" for name in ("state.json", "checksums.json", "weights.safetensors"))
# Files by the commands that read them; what all do alike, opening a run and its weights, is left to `translate`.
READ = {
    "translate": (*LOADED, *AVERAGE),
    "score": ("averaged/weights.safetensors",),
    "contrast": ("averaged/weights.safetensors",),
    "analyse": ("best", "log.jsonl"),
    "report": ("best", "config.yaml", "log.jsonl", "averaged/weights.safetensors"),
    "average": ("best", *TRAINING),
    "train": ("config.yaml", "model.json", "log.jsonl"),  # and a checkpoint: test_checkpoints.py
}
COMMANDS = {
    "translate": ("translate", "run", "text.en", "-o", "out", "--scores", "--quiet"),
    "score": ("score", "run", "text.en", "text.de", "-o", "out", "--quiet"),
    "contrast": ("contrast", "run", "--suite", "suites/deixis.json", "--quiet"),
    "analyse": (
        "analyse",
        "run",
        "--analyses",
        "losses",
        "--split",
        "dev",
        "--limit",
        "5",
        "--trials",
        "10",
        "--quiet",
    ),
    "report": ("report", "run", "-o", "page.html", "--overwrite", "--quiet"),
    "average": ("average", "run"),
    "train": ("train", "config.yaml", "training.output_dir=run", "training.budget.updates=13"),
}


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "a flipped bit": _flipped,
    "a flipped bit in its beginning": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "a byte that is not UTF-8": lambda content: content[:9] + b"\xff" + content[9:],
    "null": lambda content: b"null\n",
    "a list": lambda content: b"[]\n",
    "text": lambda content: b"../../elsewhere\n",
}


@pytest.fixture(scope="module")
def undamaged(stores: Path, tmp_path_factory: pytest.TempPathFactory, launcher) -> Path:
    """A folder with a trained and averaged run, and what the commands need."""
    workspace = Workspace(stores / "store", tmp_path_factory.mktemp("undamaged"), launcher)
    folder = workspace.folder
    workspace.train("decoding.max_length_ratio=0.5", "decoding.max_length_offset=3")
    (folder / "text.en").write_text("Anna needs it.\nIt is new.\n")
    (folder / "text.de").write_text("Anna braucht sie.\nSie ist neu.\n")
    write_suites(folder / "suites", 5, 1000)
    run_focat(folder, "average", "run")
    return folder


@pytest.fixture(scope="module")
def expected(undamaged: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the commands print about the undamaged run."""
    folder = tmp_path_factory.mktemp("expected") / "copy"
    shutil.copytree(undamaged, folder)
    return {name: _result(folder, name) for name in ("translate", "score", "contrast", "analyse")}


def _result(folder: Path, command: str) -> str:
    """What a command prints, or writes."""
    printed = focat(folder, *COMMANDS[command]).stdout
    out = folder / "out"
    written = out.read_text(encoding="utf-8") if out.exists() else ""
    out.unlink(missing_ok=True)
    return printed + written


@pytest.mark.parametrize(("command", "file"), [(command, file) for command, files in READ.items() for file in files])
def test_a_damaged_file_is_one_line_or_changes_nothing(
    undamaged: Path, expected: dict[str, str], tmp_path: Path, command: str, file: str
) -> None:
    for damage, function in DAMAGES.items():
        folder = tmp_path / damage
        shutil.copytree(undamaged, folder)
        path = folder / "run" / file
        path.write_bytes(function(path.read_bytes()))
        done = run_focat(folder, *COMMANDS[command])
        (folder / "out").unlink(missing_ok=True)
        if done.code == 2:
            assert [line[:7] for line in done.stderr.splitlines()] == ["focat: "], damage
            assert path.name in done.stderr, damage
        else:
            assert done.code == 0, f"{damage}: {done.stderr}"
            if command in expected and file != "log.jsonl":  # a shorter log is one of a shorter training
                assert _result(folder, command) == expected[command], damage
        shutil.rmtree(folder)


@pytest.mark.parametrize("file", ["best", "averaged/weights.safetensors", "config.yaml", "model.json", "log.jsonl"])
def test_a_folder_where_a_file_belongs_is_one_line(undamaged: Path, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    (folder / "run" / file).unlink()
    (folder / "run" / file).mkdir()
    for command in ("report", "train") if file == "log.jsonl" else ("translate", "report"):
        assert "run/" in refused(folder, *COMMANDS[command]), command


def test_best_cannot_name_weights_outside_of_the_run(undamaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    shutil.copytree(folder / "run" / LAST, folder / "elsewhere")
    (folder / "run" / "best").write_text("../../elsewhere\n")
    for command in ("translate", "report", "average"):
        line = refused(folder, *COMMANDS[command])
        assert line.startswith("run/best: names no checkpoint; write the name of a checkpoint into it"), command


def test_settings_of_a_run_come_from_no_other_file(undamaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    (folder / "secret").write_text("password: 1234\n")
    config = folder / "run" / "config.yaml"
    config.write_text("base: ../secret\n" + config.read_text(encoding="utf-8"), encoding="utf-8")
    for command in ("translate", "report", "train"):
        line = refused(folder, *COMMANDS[command])
        assert line == "run/config.yaml: base: all settings of a run are in this file; take it out", command


@pytest.mark.parametrize(
    "fields",
    [
        {"update": 2.5},
        {"update": 2, "best": True, "criterion": "current"},  # a bit of the name of best_value was flipped
        {"update": 2, "best": True, "criterion": "current", "best_value": "6.7"},
        {"update": 2, "best": True, "criterion": None, "best_value": 6.7},
    ],
)
def test_a_record_without_what_the_report_shows_is_none(fields: dict[str, object]) -> None:
    assert log_record(json.dumps({"kind": "validation", **fields}).encode()) is None
    whole = {"kind": "validation", "update": 2, "best": True, "criterion": "current", "best_value": 6.7}
    assert log_record(json.dumps(whole).encode()) == whole


def test_an_update_that_is_no_number_is_no_record(undamaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    log = folder / "run" / "log.jsonl"
    content = log.read_text(encoding="utf-8")
    for number in ("NaN", "Infinity", "-1", "9" * 400):
        log.write_text(f'{{"kind": "validation", "update": {number}, "current": 1.0}}\n{content}', encoding="utf-8")
        line = refused(folder, *COMMANDS["report"])
        assert line == "run/log.jsonl, line 1: is no record of training; restore it, or delete the line", number


def test_a_shift_beyond_all_positions_is_one_line(undamaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    described = folder / "run" / "model.json"
    content = json.loads(described.read_text(encoding="utf-8"))
    described.write_text(json.dumps(content | {"shift": 10**30}), encoding="utf-8")
    for command in ("translate", "report", "train"):
        line = refused(folder, *COMMANDS[command])
        assert line == "run/model.json: does not describe a model; restore it from a copy of the run", command


def test_files_among_the_checkpoints_are_left_alone(undamaged: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undamaged, folder)
    notes = [folder / "run" / "checkpoints" / name for name in ("0000099", "notes.focat-unfinished")]
    for path in notes:
        path.write_text("mine")
    for command in ("average", "train"):
        focat(folder, *COMMANDS[command])
        assert [path.read_text() for path in notes] == ["mine", "mine"], command
