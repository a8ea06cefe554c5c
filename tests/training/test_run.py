"""A run folder: what it refuses, what it lets a user change, and that all of a system is in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from focat.config import load_settings
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.files import PARTIAL_SUFFIX, sha256
from focat.model import stored_weights
from focat.model.stored_weights import load_weights, read_weights
from focat.run import Run, load_system
from focat.windows.loader import Loader
from tests.model.examples import tiny
from tests.training.runs import Workspace, last_checkpoint, records, same_tensors, weights_of


def test_a_run_can_be_moved_and_used_elsewhere(workspace: Workspace) -> None:
    """Even where neither the store nor the settings file is: all of the system is in its folder, and none is pickle."""
    workspace.train()
    split = Store(workspace.store).split("dev")
    batch = next(Loader(split, workspace.settings().windows, 500).one_pass())
    with torch.no_grad():
        expected = Run.open(workspace.run).load_model()(batch.source, batch.target)

    elsewhere = workspace.folder / "elsewhere" / "moved"
    shutil.copytree(workspace.run, elsewhere)
    shutil.rmtree(workspace.run)
    run = Run.open(elsewhere)
    with torch.no_grad():
        assert torch.equal(run.load_model()(batch.source, batch.target), expected)
    assert run.tokenizer.source.decode(run.tokenizer.source.encode("Anna needs it.")) == "Anna needs it."
    kinds = {file.suffix for file in elsewhere.rglob("*") if file.is_file()}
    assert kinds == {".safetensors", ".json", ".jsonl", ".yaml", ".model", ""}
    assert [file.name for file in elsewhere.rglob("*") if file.is_file() and not file.suffix] == ["best"]

    output = workspace.train(f"training.output_dir={elsewhere}", "training.budget.updates=14")  # and it goes on there
    assert "resuming from update 12" in output


def test_loading_draws_no_random_numbers_and_reads_the_weights_for_their_digest_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.train("training.budget.updates=4", "model.segment_embeddings=learned")
    file = Run.open(workspace.run).weights_folder() / "weights.safetensors"
    expected, before = sha256(file), torch.get_rng_state()
    hashed: list[Path] = []

    def noted(path: Path) -> str:
        hashed.append(path)
        return sha256(path)

    monkeypatch.setattr(stored_weights, "sha256", noted)
    system = load_system(workspace.run, "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert same_tensors(dict(system.model.named_parameters()), read_weights(file.parent))
    del hashed[1:]
    assert (system.weights_digests, hashed) == ([expected], [file])
    (file.parent / "checksums.json").unlink()
    assert (system.weights_digests, hashed) == ([expected], [file, file])


def test_settings_of_a_run_are_those_it_was_trained_with(workspace: Workspace) -> None:
    trainer = workspace.trainer("model.shift=avg-corpus", "objective.discount={start: 1, end: 0.5}")
    assert trainer.run.settings == trainer.settings
    assert trainer.model.shift == round(Store(workspace.store).average_length)


def test_the_average_length_is_rounded_to_the_nearest_shift(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "average_length", 7.6)
    assert workspace.trainer("model.shift=avg-corpus").model.shift == 8


def test_weights_are_the_averaged_else_the_best_else_the_last(workspace: Workspace) -> None:
    run = workspace.trainer().run
    with pytest.raises(FocatError, match="has no checkpoint yet"):
        run.weights_folder()
    for name in ("0000004", "0000008"):
        (run.path / "checkpoints" / name).mkdir(parents=True)
    assert run.weights_folder().name == "0000008"
    (run.path / "best").write_text("0000004\n")
    assert run.weights_folder().name == "0000004"
    run.averaged.mkdir()
    (run.averaged / "average.json").write_text('{"best": 4}')
    assert run.weights_folder() == run.averaged
    (run.path / "best").write_text("0000008\n")  # training went on, and the average is of the past
    assert run.weights_folder().name == "0000008"


# ------------------------------------------------------------------------------------------------------ going on


def saved_run(workspace: Workspace, *overrides: str) -> Run:
    """A run with the folder of a checkpoint, so that it is not begun anew."""
    run = workspace.trainer(*overrides).run
    (run.path / "checkpoints" / "0000004").mkdir(parents=True)
    return run


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("training.learning_rate=0.1", "training.learning_rate = 0.005, not 0.1"),
        ("training.batch_tokens=400", "training.batch_tokens = 500, not 400"),
        ("training.ema=0.5", "training.ema = 0.0, not 0.5"),
        ("model.d_model=64", "model.d_model = 32, not 64"),
        ("windows.before=1", "windows.before = 2, not 1"),
        ("objective.discount=0.5", "objective.discount = 0.01, not 0.5"),
    ],
)
def test_a_changed_setting_is_named(workspace: Workspace, override: str, named: str) -> None:
    saved_run(workspace)
    with pytest.raises(FocatError) as error:
        workspace.trainer(override)
    assert (
        str(error.value) == f"{workspace.run}: was begun with {named}; set it back, or give another training.output_dir"
    )


def test_settings_may_change_before_the_first_checkpoint(workspace: Workspace) -> None:
    """As when a model or a batch does not fit into memory, and the error says what to lower."""
    output = workspace.train("model.d_ff=4000000000", expect=2)
    assert output == f"focat: {workspace.run}: its model does not fit into memory; lower model.d_model or model.d_ff\n"
    run = workspace.trainer("model.d_ff=32").run
    assert run.settings.model.d_ff == 32
    assert run.build_model().settings.d_ff == 32


def test_a_changed_setting_is_one_line_on_the_command_line(workspace: Workspace) -> None:
    saved_run(workspace)
    before = (workspace.run / "config.yaml").read_bytes()
    output = workspace.train("training.learning_rate=0.1", expect=2)
    assert output.startswith("focat: ")
    assert output.count("\n") == 1
    assert (workspace.run / "config.yaml").read_bytes() == before


def test_the_budget_may_grow(workspace: Workspace) -> None:
    """Twice 6 updates are 12 updates; what does not touch learning may change as well, and is written down."""
    output = workspace.train("training.budget.updates=6")
    assert f"{workspace.run}: finished after 6 updates, in " in output
    assert ": training.budget is spent\n" in output
    assert f"next: focat average {workspace.run}\n" in output
    assert "is finished; to train on, raise training.budget" in workspace.train("training.budget.updates=6")
    workspace.train(
        "training.budget.updates=12", "training.log_every=1", "training.log_samples=0", "training.keep_checkpoints=2"
    )
    assert load_settings(workspace.run / "config.yaml").training.log_every == 1
    workspace.train(f"training.output_dir={workspace.folder / 'at-once'}")
    assert same_tensors(weights_of(workspace.run), weights_of(workspace.folder / "at-once"))


def test_another_store_is_refused(workspace: Workspace) -> None:
    run = saved_run(workspace)
    described = json.loads((run.path / "model.json").read_text())
    (run.path / "model.json").write_text(json.dumps(described | {"store": "of other text"}))
    with pytest.raises(FocatError, match="was begun on another token store"):
        workspace.trainer()


def test_a_run_of_another_format_is_refused(workspace: Workspace) -> None:
    run = workspace.trainer().run
    described = json.loads((run.path / "model.json").read_text())
    del described["format"]  # as focat 0.1 wrote it
    (run.path / "model.json").write_text(json.dumps(described))
    message = "is a run of format 1, and this focat reads format 2; use the focat that wrote it, or train it again"
    with pytest.raises(FocatError, match=message):
        Run.open(run.path)
    with pytest.raises(FocatError, match=message):
        workspace.trainer()


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_description_of_the_model_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.yaml").touch()
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(FocatError, match="restore it from a copy of the run"):
        Run.open(tmp_path)


def test_a_folder_that_holds_something_else_is_refused(workspace: Workspace) -> None:
    workspace.run.mkdir()
    (workspace.run / "config.yaml").write_text("precious: work\n")
    output = workspace.train(expect=2)
    assert output == f"focat: {workspace.run}: is not empty and holds no run; give another training.output_dir\n"
    assert (workspace.run / "config.yaml").read_text() == "precious: work\n"
    with pytest.raises(FocatError, match=r"holds no run \(there is no model.json\)"):
        Run.open(workspace.run)


def test_what_is_given_in_place_of_a_run_is_named(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(FocatError, match="name a folder that `focat train` or `focat import` made") as refused:
            Run.open(path)
        return str(refused.value).removeprefix(f"{path}: holds no run ").partition(";")[0]

    (tmp_path / "talk.txt").touch()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "manifest.json").touch()
    assert said(tmp_path / "nothing") == "(there is no such folder)"
    assert said(tmp_path / "talk.txt") == "(it is a file)"
    assert said(tmp_path / "store") == "(it is a token store)"
    assert said(tmp_path) == "(there is no model.json)"


@pytest.mark.parametrize("name", ["model.json", f"model.json{PARTIAL_SUFFIX}"])
@pytest.mark.parametrize("content", ['{"layers": 6}', "mine", "[]", "{}"])
def test_a_file_of_a_user_in_the_folder_of_a_new_run_is_kept(workspace: Workspace, name: str, content: str) -> None:
    workspace.run.mkdir()
    (workspace.run / name).write_text(content)
    with pytest.raises(FocatError, match=r"is not empty and holds no run; give another training\.output_dir"):
        workspace.trainer()
    assert {path.name: path.read_text() for path in workspace.run.iterdir()} == {name: content}


def test_a_run_without_its_settings_is_not_begun_again(workspace: Workspace) -> None:
    workspace.train("training.budget.updates=4")
    (workspace.run / "config.yaml").unlink()
    with pytest.raises(FocatError, match="holds no run"):
        workspace.trainer()
    shutil.rmtree(workspace.run / "checkpoints")
    (workspace.run / "best").unlink()
    workspace.trainer()  # interrupted before its first checkpoint


def test_a_run_that_was_killed_while_it_was_begun_can_be_begun_again(workspace: Workspace) -> None:
    """At each of the moments when one more of its files was there, in the order in which they came."""
    run = workspace.trainer().run.path
    files = sorted((file for file in run.rglob("*") if file.is_file()), key=lambda file: file.stat().st_mtime_ns)
    assert files[-1].name == "config.yaml"
    while files:
        files.pop().unlink()
        if not files:
            shutil.rmtree(run)
            run.mkdir()
            (run / f"model.json{PARTIAL_SUFFIX}").touch()
        with pytest.raises(FocatError, match="holds no run"):
            Run.open(run)
        workspace.trainer()
        assert Run.open(run).build_model().shift == 0
        for file in [file for file in run.rglob("*") if file.is_file() and file not in files]:
            file.unlink()


def test_one_process_at_a_time(workspace: Workspace) -> None:
    """The second leaves no trace; when the first is gone, even by kill -9, the run is free."""
    first = workspace.start("training.budget.updates=1000000")
    while not (workspace.run / "log.jsonl").exists():
        time.sleep(0.01)
        assert first.running(), first.output
    before = (workspace.run / "config.yaml").stat().st_mtime_ns
    output = workspace.train(expect=2)
    assert output == f"focat: {workspace.run}: another process is training this run; wait for it or stop it\n"
    assert (workspace.run / "config.yaml").stat().st_mtime_ns == before
    first.send(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    workspace.train("training.budget.minutes=0.0001")


# --------------------------------------------------------------------------------------------------- starting points


def test_init_from_a_run_and_from_a_checkpoint(workspace: Workspace) -> None:
    workspace.train("training.budget.updates=8")
    other = workspace.folder / "other"
    best = Run.open(workspace.run).weights_folder()
    for source, folder in ((workspace.run, best), (workspace.run / "checkpoints" / "0000004", None)):
        trainer = workspace.trainer(f"training.output_dir={other}", f"training.init_from={source}")
        weights = {name: parameter.detach() for name, parameter in trainer.model.named_parameters()}
        assert same_tensors(weights, read_weights(folder or source))
        assert trainer.state.update == 0
        shutil.rmtree(other)


def test_a_relative_init_from_is_the_same_setting_when_resumed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is written down as an absolute one, and still is the same setting."""
    workspace.train("training.budget.updates=4")
    monkeypatch.chdir(workspace.folder)
    relative = [
        f"training.output_dir={workspace.folder / 'other'}",
        f"training.init_from={os.path.relpath(workspace.run)}",
    ]
    saved_run(workspace, *relative)
    with pytest.raises(FocatError, match="no checkpoint is whole enough"):  # nothing is said about settings
        workspace.trainer(*relative)
    with pytest.raises(FocatError, match=r"training\.init_from"):
        workspace.trainer(relative[0], "training.init_from=elsewhere")


def test_init_from_a_run_without_segment_embeddings(workspace: Workspace) -> None:
    """They are new here; everything else is taken over, and the other way round is refused."""
    workspace.train("training.budget.updates=4")
    wanted = [
        f"training.output_dir={workspace.folder / 'other'}",
        f"training.init_from={workspace.run}",
        "training.budget.updates=4",
    ]
    output = workspace.train(*wanted, "model.segment_embeddings=learned")
    assert f"{workspace.run} has no segment_embedding.table: it starts from random values" in output
    trainer = workspace.trainer(
        *wanted[1:], f"training.output_dir={workspace.folder / 'third'}", "model.segment_embeddings=learned"
    )
    stored = read_weights(Run.open(workspace.run).weights_folder())
    weights = {name: p.detach() for name, p in trainer.model.named_parameters() if name != "segment_embedding.table"}
    assert same_tensors(weights, stored)
    back = [f"training.output_dir={workspace.folder / 'fourth'}", f"training.init_from={workspace.folder / 'other'}"]
    assert "segment_embedding.table is 4×32 there and missing in this model" in workspace.train(*back, expect=2)


def test_init_from_another_model_is_refused(workspace: Workspace) -> None:
    workspace.train("training.budget.updates=4")
    output = workspace.train(
        f"training.output_dir={workspace.folder / 'other'}",
        f"training.init_from={workspace.run}",
        "model.d_ff=96",
        expect=2,
    )
    assert "64×32 there and 96×32 in this model" in output or "64 there and 96 in this model" in output


def test_log_has_no_record_twice(workspace: Workspace) -> None:
    """Records that were written after the last checkpoint are written again, and half a line is forgotten."""
    workspace.train()
    expected = [(record["kind"], record["update"]) for record in records(workspace.run)]
    with (workspace.run / "log.jsonl").open("a") as log:
        log.write('{"kind": "train", "update": 14, "current": 1.0}\n{"kind": "train", "upd')
    shutil.rmtree(last_checkpoint(workspace.run))
    workspace.train()
    assert [(record["kind"], record["update"]) for record in records(workspace.run)] == expected
    assert Path(workspace.run / "best").read_text() == "0000012\n"


def test_weights_that_may_be_missing_hide_no_others(tmp_path: Path) -> None:
    """Segment embeddings may be missing; a matrix of another shape is refused all the same."""
    model = tiny(segment_embeddings="learned")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for d_ff in (24, 32):
        stored = dict(tiny(seed=1, d_ff=d_ff).named_parameters())
        save_file({name: parameter.detach() for name, parameter in stored.items()}, tmp_path / "weights.safetensors")
        if d_ff == model.settings.d_ff:
            assert load_weights(model, tmp_path, may_lack="segment_embedding") == ["segment_embedding.table"]
            assert torch.equal(model.segment_embedding.table, before["segment_embedding.table"])
            assert all(torch.equal(model.get_parameter(name), stored[name]) for name in stored)
        else:
            with pytest.raises(FocatError, match=r"up_proj.weight is 32×16 there and 24×16 in this model"):
                load_weights(model, tmp_path, may_lack="segment_embedding")
    with pytest.raises(FocatError, match=r"segment_embedding.table is missing there"):
        load_weights(model, tmp_path)
