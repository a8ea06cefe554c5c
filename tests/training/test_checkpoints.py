"""Checkpoints: what is saved comes back, what is damaged is passed over, what averaging needs is kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from focat.errors import FocatError
from focat.files import PARTIAL_SUFFIX
from focat.model.stored_weights import read_weights
from focat.progress import NULL_PROGRESS
from focat.run import Run
from focat.training.adam import Adam
from focat.training.averaging import select_checkpoints
from focat.training.checkpoints import (
    TrainingState,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
    training_tensors,
)
from tests.training.runs import Workspace, last_checkpoint, records, same_tensors, weights_of, without_time

WEIGHTS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}
TRAINING = {"exp_avg.a": torch.full((2, 3), 0.5)}


def save(path: Path, state: TrainingState, keep: int = 5) -> Path:
    return save_checkpoint(Run(path), state, WEIGHTS, TRAINING, keep)


def names(path: Path) -> list[int]:
    return [int(folder.name) for folder in Run(path).checkpoints()]


# --------------------------------------------------------------------------------------------------------- one of them


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    state = TrainingState(7, 1, 2, 1.25, 3.5, 1, [(4, 0.5), (6, 0.25)], True)
    folder = save(tmp_path, state)
    assert {file.name for file in folder.iterdir()} == {
        "weights.safetensors",
        "training.safetensors",
        "state.json",
        "checksums.json",
    }
    assert load_checkpoint(Run(tmp_path), NULL_PROGRESS) == (state, folder)
    assert same_tensors(read_weights(folder), WEIGHTS)
    assert same_tensors(training_tensors(folder), TRAINING)
    assert json.loads((folder / "state.json").read_text()) == json.loads(json.dumps(asdict(state)))


def test_best_validation_is_the_earliest_of_equals() -> None:
    state = TrainingState(validations=[(10, 3.0), (20, 2.0), (30, 2.0), (40, 2.5)])
    assert state.best == (20, 2.0)
    assert state.without_improvement == 2
    assert TrainingState().best is None
    assert TrainingState().without_improvement == 0


def test_optimizer_comes_back() -> None:
    """Another optimizer that is given the state makes the same next step."""

    def step(model: torch.nn.Linear, optimizer: Adam, size: float) -> None:
        model.zero_grad()
        (size * model(torch.ones(1, 3)).square().sum()).backward()
        optimizer.step()

    torch.manual_seed(0)
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizer = Adam(model.parameters(), (0.9, 0.98), 1e-8, 0.0)
    for size in (1.0, -0.3):
        step(model, optimizer, size)
    other.load_state_dict(model.state_dict())
    others = Adam(other.parameters(), (0.9, 0.98), 1e-8, 0.0)
    named, other_named = dict(model.named_parameters()), dict(other.named_parameters())
    restore_optimizer(others.state, other_named, optimizer_tensors(optimizer.state, named))
    step(model, optimizer, 2.0)
    step(other, others, 2.0)
    assert same_tensors(dict(model.named_parameters()), dict(other.named_parameters()))


# ------------------------------------------------------------------------------------------------------ damaged ones


def damage(file: Path, how: str) -> None:
    content = bytearray(file.read_bytes())
    if how == "flipped":
        content[len(content) // 2] ^= 1
    elif how == "cut":
        del content[len(content) // 2 :]
    file.write_bytes(content)
    if how == "gone":
        file.unlink()


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("name", ["weights.safetensors", "training.safetensors", "state.json", "checksums.json"])
def test_damage_to_any_file_is_noticed(tmp_path: Path, name: str, how: str) -> None:
    before = save(tmp_path, TrainingState(update=4))
    folder = save(tmp_path, TrainingState(update=8))
    damage(folder / name, how)
    found = load_checkpoint(Run(tmp_path), NULL_PROGRESS)
    assert found is not None
    assert found[1] == before


def test_training_goes_back_before_the_damage_and_says_so(workspace: Workspace) -> None:
    """And ends where it would have ended; the damaged checkpoint is replaced, and does not count as one of the last."""
    workspace.train()
    expected, log = weights_of(workspace.run), without_time(records(workspace.run))
    damaged = last_checkpoint(workspace.run)
    assert damaged.name == "0000012"
    for how, file in (("flipped", "weights.safetensors"), ("cut", "training.safetensors")):
        damage(damaged / file, how)
        output = workspace.train()
        assert f"{damaged} is damaged ({file} does not match its checksum)" in output
        assert "resuming from update 8" in output
        assert same_tensors(weights_of(workspace.run), expected)
        assert without_time(records(workspace.run)) == log


def test_a_damaged_checkpoint_is_not_one_of_the_last_two(tmp_path: Path) -> None:
    """It lies in the future of the training that went back before it."""
    for update in (4, 8, 12):
        folder = save(
            tmp_path, TrainingState(update=update, validations=[(4, 3.0), (8, 2.0), (12, 1.0)][: update // 4])
        )
    damage(folder / "weights.safetensors", "flipped")
    assert (tmp_path / "best").read_text() == "0000012\n"
    found = load_checkpoint(Run(tmp_path), NULL_PROGRESS)
    assert found is not None
    found[0].update = 9
    save(tmp_path, found[0], keep=1)
    assert names(tmp_path) == [8, 9]
    assert (tmp_path / "best").read_text() == "0000008\n"


def test_when_all_are_damaged_nothing_is_overwritten(workspace: Workspace) -> None:
    workspace.train()
    for folder in Run(workspace.run).checkpoints()[-2:]:
        damage(folder / "state.json", "cut")
    before = {file: file.read_bytes() for file in workspace.run.rglob("*") if file.is_file()}
    output = workspace.train(expect=2)
    assert output.splitlines()[-1].startswith(f"focat: {workspace.run}: no checkpoint is whole enough to resume from")
    assert {file: file.read_bytes() for file in workspace.run.rglob("*") if file.is_file()} == before


def test_a_run_without_a_state_to_resume_from_is_not_begun_anew(workspace: Workspace) -> None:
    """A user may delete the larger half of all checkpoints to make room, and keep the weights."""
    workspace.train()
    for file in workspace.run.rglob("training.safetensors"):
        file.unlink()
    before = {file: file.read_bytes() for file in workspace.run.rglob("*") if file.is_file()}
    output = workspace.train("training.budget.updates=20", expect=2).splitlines()[-1]
    assert output.startswith(f"focat: {workspace.run}: no checkpoint is whole enough to resume from")
    assert f"training.init_from={workspace.run}" in output
    weights = {file: content for file, content in before.items() if file.suffix == ".safetensors"}
    assert weights
    assert {file: file.read_bytes() for file in weights} == weights


@pytest.mark.parametrize("link", [False, True])
def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew(workspace: Workspace, link: bool) -> None:
    """Lost, or on a disk that is not there."""
    workspace.train()
    shutil.rmtree(workspace.run / "checkpoints")
    if link:
        (workspace.run / "checkpoints").symlink_to(workspace.run / "elsewhere")
    before = {file: file.read_bytes() for file in workspace.run.rglob("*") if file.is_file()}
    output = workspace.train(expect=2).splitlines()[-1]
    assert output.startswith(f"focat: {workspace.run}/checkpoints: has no checkpoint, although the run had some")
    assert {file: file.read_bytes() for file in workspace.run.rglob("*") if file.is_file()} == before


def test_a_link_to_nothing_in_place_of_checkpoints_is_refused_before_the_log_is_cut(workspace: Workspace) -> None:
    """Also before the first validation, when there is no `best` yet."""
    workspace.train()
    shutil.rmtree(workspace.run / "checkpoints")
    (workspace.run / "best").unlink()
    (workspace.run / "checkpoints").symlink_to("nowhere")
    before = (workspace.run / "log.jsonl").read_bytes()
    output = workspace.train(expect=2).splitlines()[-1]
    assert output.startswith(f"focat: {workspace.run}/checkpoints: has no checkpoint, although the run had some")
    assert (workspace.run / "log.jsonl").read_bytes() == before


def test_damaged_weights_are_refused_in_one_line(workspace: Workspace) -> None:
    workspace.train("training.budget.updates=4")
    weights = last_checkpoint(workspace.run) / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # still weights, but others
    weights.write_bytes(content)
    with pytest.raises(FocatError, match=r"weights\.safetensors: is damaged \(it does not match its checksum\)"):
        Run.open(workspace.run).load_model()
    damage(weights, "cut")
    assert "is damaged" in workspace.focat("average", str(workspace.run), expect=2)


# ------------------------------------------------------------------------------------------------------------ retention


def test_averaging_finds_all_it_needs_after_any_course_of_training(tmp_path: Path) -> None:
    """Whatever the validations, what a rule would choose among all checkpoints that ever were is what is there."""
    courses = {
        "rising": list(range(8)),
        "valley": [5, 4, 3, 2, 1, 2, 3, 4, 5, 6, 7],
        "late": [20, 21, 22, 23, 3, 4, 2, 6, 7, 8, 9, 10, 11, 1],
    }
    for name, course in courses.items():
        for keep in (1, 3):
            state = TrainingState()
            for i, value in enumerate(course):
                if i % 4 == 0:  # one that was saved only because time had passed
                    state.update = 10 * i + 5
                    save(tmp_path / name / str(keep), state, keep)
                state.update = 10 * i + 10
                state.validations.append((state.update, float(value)))
                save(tmp_path / name / str(keep), state, keep)
                path = tmp_path / name / str(keep)
                kept, all_of_them = names(path), [update for update, _ in state.validations]
                assert state.best is not None
                for rule in ("closest", "next"):
                    assert set(select_checkpoints(all_of_them, state.best[0], keep, rule)) <= set(kept)
                assert int((path / "best").read_text()) == state.best[0]
                assert len(kept) <= 3 * keep + 1  # around the best, the last, and one more to go on from
                with_training = [c for c in Run(path).checkpoints() if (c / "training.safetensors").exists()]
                assert with_training == Run(path).checkpoints()[-2:]  # the larger part goes first


def test_leftovers_of_interruptions_are_swept_away(tmp_path: Path) -> None:
    """Killed while saving: half a checkpoint of an update that may never be saved again."""
    save(tmp_path, TrainingState(update=4))
    for name in (f"0000006{PARTIAL_SUFFIX}", f"0000002.old{PARTIAL_SUFFIX}"):
        (tmp_path / "checkpoints" / name).mkdir()
        (tmp_path / "checkpoints" / name / "weights.safetensors").write_bytes(b"half of it")
    assert names(tmp_path) == [4]
    save(tmp_path, TrainingState(update=8))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["0000004", "0000008"]


def test_what_others_have_put_beside_or_into_checkpoints_is_kept(tmp_path: Path) -> None:
    """Folders and files whose names are numbers, files in a checkpoint, and checkpoints moved to another disk."""
    for update in (1, 2):
        save(tmp_path, TrainingState(update=update), keep=1)
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "0000001" / "notes.txt").write_text("mine")
    (checkpoints / "2024").mkdir()
    (checkpoints / "2024" / "notes.txt").write_text("mine")
    (checkpoints / "0000000").write_text("mine")
    (checkpoints / f"notes{PARTIAL_SUFFIX}").write_text("mine")
    (checkpoints / "0000002").rename(tmp_path / "elsewhere")
    (checkpoints / "0000002").symlink_to(tmp_path / "elsewhere")
    for update in (3, 4, 5, 6):
        save(tmp_path, TrainingState(update=update), keep=1)
    assert names(tmp_path) == [1, 5, 6, 2024]
    kept = ("0000001/notes.txt", "2024/notes.txt", "0000000", f"notes{PARTIAL_SUFFIX}")
    assert {(checkpoints / name).read_text() for name in kept} == {"mine"}
    assert not list(checkpoints.glob(f"0*{PARTIAL_SUFFIX}"))
    assert len(list((tmp_path / "elsewhere").iterdir())) == 4
