"""The trainer as a user runs it, and the parts of an update that cannot be seen from outside."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from focat.corpus.store import Store
from focat.corpus.vocabulary import PAD
from focat.errors import FocatError
from focat.model.stored_weights import read_weights
from focat.progress import NULL_PROGRESS
from focat.run import Run
from focat.training.checkpoints import TrainingState, training_tensors
from focat.training.logger import end_line
from focat.training.objective import LossSums
from focat.training.schedule import learning_rate
from focat.training.trainer import Trainer, _memory_errors, train
from focat.training.validation import Sample, bleu
from focat.windows.batch import Batch
from focat.windows.corpus_windows import cut_windows, gather_batch
from tests.training.launcher import Launcher
from tests.training.runs import Workspace, last_checkpoint, records, same_tensors, weights_of


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def parameters(trainer: Trainer) -> dict[str, Tensor]:
    return copied(dict(trainer.model.named_parameters()))


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    return copied({name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None})


def close(some: dict[str, Tensor], others: dict[str, Tensor], **tolerance: float) -> None:
    assert some.keys() == others.keys()
    for name in some:
        torch.testing.assert_close(some[name], others[name], **(tolerance or {"rtol": 1e-4, "atol": 1e-7}))


def token_losses(trainer: Trainer, batch: Batch) -> Tensor:
    """The label-smoothed loss of every token by PyTorch's own means, all at once: (windows, length)."""
    logits = trainer.model.project(trainer.model(batch.source, batch.target))
    labels = batch.target.tokens.masked_fill(batch.target.tokens == PAD, -100)
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none", label_smoothing=0.1)


# ---------------------------------------------------------------------------------------------- what a user sees


def test_the_log_tells_how_it_went(workspace: Workspace) -> None:
    output = workspace.train("training.budget.updates=30", "training.validate_every=10", "training.log_every=5")
    log = records(workspace.run)
    expected = [(kind, 5 * i) for i in range(1, 7) for kind in (["train"] if i % 2 else ["train", "validation"])]
    assert [(record["kind"], record["update"]) for record in log] == expected
    for record in log:
        assert record["ratio"] == pytest.approx(record["current"] / record["context"])
        assert 0 < record["discounted"] < record["full"] < 10
    for record in records(workspace.run, "train"):
        assert record["learning_rate"] == pytest.approx(
            learning_rate(workspace.settings().training, record["update"], 0.0)
        )
        assert record["discount"] == 0.01
        assert record["tokens_per_second"] > 0
        assert record["skipped"] == 0
    first, last = records(workspace.run, "train")[0], records(workspace.run, "train")[-1]
    assert last["current"] < first["current"] - 0.5
    losses = [record["current"] for record in records(workspace.run, "validation")]
    assert losses == sorted(losses, reverse=True)
    assert [record["best"] for record in records(workspace.run, "validation")] == [True] * 3
    assert output.count("· validation: current ") == 3
    assert f"update     30 · epoch {last['epochs']:.2f} · current {last['current']:.3f}, context" in output


def test_figures_can_be_written_to_a_file(workspace: Workspace) -> None:
    figures = workspace.folder / "figures.json"
    workspace.train("training.budget.updates=4", "--json", str(figures))
    state = json.loads(figures.read_text())
    assert state["update"] == 4
    assert state["finished"] is True
    assert [update for update, _ in state["validations"]] == [4]


def test_packed_batches_are_resumed_in_the_same_order(workspace: Workspace) -> None:
    """The order is that of the start, also where a new run would have another."""
    whole = workspace.folder / "whole"
    workspace.train("training.packing=always", f"training.output_dir={whole}")
    workspace.train("training.packing=always", "training.budget.updates=5")
    workspace.train("training.packing=always")
    assert same_tensors(weights_of(workspace.run), weights_of(whole))
    assert json.loads((last_checkpoint(workspace.run) / "state.json").read_text())["packed"] is True
    padded = workspace.folder / "padded"
    workspace.train(f"training.output_dir={padded}")
    assert not same_tensors(weights_of(padded), weights_of(whole))


def test_samples_are_shown_and_logged(workspace: Workspace) -> None:
    output = workspace.train("training.budget.updates=8", "training.log_samples=2")
    first, second = (record["samples"] for record in records(workspace.run, "validation"))
    store = Store(workspace.store)
    dev, tokenizer = store.split("dev"), store.tokenizer
    references = {
        tokenizer.source.decode(dev.source[i]): tokenizer.target.decode(dev.target[i]) for i in range(len(dev))
    }
    for sample in (*first, *second):
        assert sample["reference"] == references[sample["source"]]
        assert isinstance(sample["translation"], str)
        assert f"    {sample['source']}\n  → {sample['translation']}\n  = {sample['reference']}\n" in output
    assert len(first) == len(second) == 2
    assert first != second  # other sentences each time


def test_without_a_dev_corpus(workspace: Workspace) -> None:
    """It trains and saves at the same times; the last checkpoint is the one to use."""
    store = workspace.store.with_name("store-without-dev")
    output = workspace.train(f"data.store={store}", "data.dev=[]", "training.patience=1")
    assert "; no validation, since the store has no dev split\n" in output
    assert "next:" not in output
    assert {record["kind"] for record in records(workspace.run)} == {"train"}
    assert [folder.name for folder in Run(workspace.run).checkpoints()] == ["0000008", "0000012"]
    assert not (workspace.run / "best").exists()
    assert Run(workspace.run).weights_folder().name == "0000012"
    assert "has no validated checkpoint" in workspace.focat("average", str(workspace.run), expect=2)


def test_diverging_training_ends_with_advice(workspace: Workspace) -> None:
    """1e30 makes every weight so large that no later gradient is finite."""
    output = workspace.train(
        "training.learning_rate=1e30", "training.budget.updates=1000", "training.log_every=1", expect=2
    )
    assert output.splitlines()[-1] == (
        f"focat: {workspace.run}: the last 20 updates all had gradients that are not finite; lower "
        "training.learning_rate (1e+30), set training.clip_norm=1, or use training.precision=float32"
    )
    assert "updates so far had a gradient that is not finite, and were skipped" in output


# --------------------------------------------------------------------------------------------------- when it is over


def test_a_budget_of_epochs(workspace: Workspace) -> None:
    settings = workspace.settings(
        "training.budget={epochs: 2}", "training.batch_tokens=2000", "training.validate_every=null"
    )
    state = train(settings, NULL_PROGRESS)
    per_epoch = state.update // 2
    assert (state.epoch, state.update_in_epoch, state.epochs) == (2, 0, 2.0)
    assert [update for update, _ in state.validations] == [per_epoch, 2 * per_epoch]  # at the end of each epoch
    assert records(workspace.run, "train")[-1]["epochs"] == pytest.approx(2.0, abs=2 / per_epoch)


def test_a_budget_of_minutes(workspace: Workspace) -> None:
    """1.2 seconds of training; the learning rate has come down nearly to zero by then, however many updates it was."""
    settings = workspace.settings(
        "training.budget={minutes: 0.02}",
        "training.schedule=linear",
        "training.log_every=1",
        "training.keep_checkpoints=1",
    )
    begun = time.monotonic()
    state = train(settings, NULL_PROGRESS)
    assert 1.2 <= time.monotonic() - begun < 30
    assert state.minutes >= 0.02
    assert state.finished
    assert records(workspace.run, "train")[-1]["learning_rate"] < 0.4 * settings.training.learning_rate
    assert state.validations[-1][0] == state.update


def test_the_limit_that_ended_training_is_named() -> None:
    state = TrainingState(update=1200, minutes=2.2, validations=[(400, 1.5), (800, 1.6), (1200, 1.5)])
    assert end_line(state, None) == "finished after 1,200 updates, in 2 min: training.budget is spent"
    assert end_line(state, 3).endswith(": training.budget is spent")
    assert end_line(state, 2).endswith(", in 2 min: 2 validations without improvement (training.patience)")


def test_patience(workspace: Workspace) -> None:
    """At this rate nothing gets better after a few updates: three validations without improvement, and no more."""
    settings = workspace.settings(
        "training.learning_rate=0.5", "training.patience=3", "training.budget.updates=1000", "training.validate_every=2"
    )
    state = train(settings, NULL_PROGRESS)
    assert state.finished
    assert state.update < 100
    assert state.without_improvement == 3
    losses = [value for _, value in state.validations]
    assert min(losses[-3:]) >= min(losses[:-3]) == losses[-4]
    assert [record["best"] for record in records(workspace.run, "validation")][-4:] == [True, False, False, False]
    assert (workspace.run / "best").read_text() == f"{state.validations[-4][0]:07d}\n"


@pytest.mark.parametrize("criterion", ["current", "discounted", "full", "bleu"])
def test_criterion(workspace: Workspace, criterion: str) -> None:
    state = train(workspace.settings(f"training.criterion={criterion}", "decoding.max_length_ratio=0.1"), NULL_PROGRESS)
    log = records(workspace.run, "validation")
    sign = -1 if criterion == "bleu" else 1  # of BLEU, more is better
    assert [(record["update"], sign * record[criterion]) for record in log] == state.validations
    best = min(state.validations, key=lambda validation: validation[1])
    assert log[-1]["criterion"] == criterion
    assert log[-1]["best_value"] == abs(best[1])
    assert (workspace.run / "best").read_text() == f"{best[0]:07d}\n"


def test_the_highest_bleu_is_the_best(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = workspace.trainer("training.criterion=bleu", "decoding.max_length_ratio=0.1")
    scores = iter([10.0, 30.0, 20.0])
    monkeypatch.setattr("focat.training.trainer.bleu", lambda samples: next(scores))
    for update in (4, 8, 12):
        trainer.state.update = update
        trainer._validate(None, 1.0)
    assert trainer.state.best is not None
    assert trainer.state.best[0] == 8


def test_bleu_of_translations() -> None:
    """Those that are right have 100; those that have no word right have 0."""
    right = Sample("Anna needs the old key now.", "Anna braucht jetzt den alten Schlüssel.", "")
    assert bleu([replace(right, translation=right.reference)] * 2) == pytest.approx(100)
    assert bleu([replace(right, translation="Wir kommen morgen")]) == 0


def test_a_loss_that_is_not_a_number_is_never_the_best(workspace: Workspace) -> None:
    trainer = workspace.trainer()
    trainer.state.update = 4
    with torch.no_grad():
        next(trainer.model.parameters())[:] = math.nan
    trainer._validate(None, 1.0)
    assert trainer.state.validations == [(4, math.inf)]


# ---------------------------------------------------------------------------------------------------------- validation


def test_validation_is_that_of_one_window_after_the_other(workspace: Workspace) -> None:
    """Without batches, padding, chunks or dropout; windows have their full size, whatever training's have."""
    trainer = workspace.trainer("windows.sampling=random")
    dev = trainer.dev
    assert dev is not None
    sums = {"current": 0.0, "context": 0.0}
    counts = {"current": 0, "context": 0}
    windows = cut_windows(dev, workspace.settings().windows)
    trainer.model.eval()
    for i in range(len(windows)):
        batch = gather_batch(windows, np.array([i]))
        with torch.no_grad():
            losses = token_losses(trainer, batch)[0].tolist()
        for segment, loss in zip(batch.target.segments[0].tolist(), losses, strict=True):
            where = "current" if segment == int(batch.target.current[0]) else "context"
            sums[where] += loss
            counts[where] += 1
    trainer.model.train()
    trainer.state.update = 4
    trainer._validate(None, 1.0)
    assert trainer.state.validations == [(4, pytest.approx(sums["current"] / counts["current"], rel=1e-5))]


# ----------------------------------------------------------------------------------------------------- a single update


def test_gradients_of_two_batches_are_added_and_divided_by_all_target_tokens(workspace: Workspace) -> None:
    """By all of them, context included and not discounted, as in the paper; the discount itself is in the sum."""
    trainer = workspace.trainer("training.gradient_accumulation=2", "model.dropout=0", "objective.discount=0.3")
    update = next(trainer.loader.updates())
    assert len(update.batches) == 2
    total, tokens = torch.zeros(()), 0
    for batch in update.batches:
        current = batch.target.segments == batch.target.current[:, None]
        total = total + (token_losses(trainer, batch) * torch.where(current, 1.0, 0.3)).sum()
        tokens += int((batch.target.tokens != PAD).sum())
    (total / tokens).backward()
    expected = gradients(trainer)
    trainer._update(update)
    close(gradients(trainer), expected)


def test_figures_in_the_log_are_means_over_the_tokens_of_its_updates(workspace: Workspace) -> None:
    trainer = workspace.trainer("model.dropout=0", "training.learning_rate=1e-20", "training.budget.updates=3")
    expected = LossSums.zero("cpu")
    for update in islice(trainer.loader.updates(), 3):
        with torch.no_grad():
            losses = token_losses(trainer, update.batches[0])
        expected = expected + LossSums.from_tokens(update.batches[0].target, losses, losses)
        trainer._update(update)
    assert trainer._losses.means(0.5)["current"] == pytest.approx(expected.means(0.5)["current"], rel=1e-5)
    assert trainer._losses.means(0.5)["context"] == pytest.approx(expected.means(0.5)["context"], rel=1e-5)


def test_clipping(workspace: Workspace) -> None:
    """A long gradient is shortened and keeps its direction; a short one is left alone."""
    free, short, long = (
        workspace.trainer(f"training.clip_norm={c}", f"training.output_dir={workspace.run}-{c}") for c in (0, 0.01, 1e6)
    )
    update = next(free.loader.updates())
    for trainer in (free, short, long):
        trainer._update(update)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients(free).values()))
    assert norm > 0.1
    close({name: gradient * 0.01 / norm for name, gradient in gradients(free).items()}, gradients(short))
    close(gradients(free), gradients(long), rtol=0, atol=0)


def test_moving_average(workspace: Workspace) -> None:
    """It moves a tenth of the way to the weights after each update; it is what is validated, and what is saved."""
    trainer = workspace.trainer("training.ema=0.9", "training.budget.updates=3")
    expected = parameters(trainer)
    for update in islice(trainer.loader.updates(), 3):
        trainer._update(update)
        now = parameters(trainer)
        expected = {name: 0.9 * average + 0.1 * now[name] for name, average in expected.items()}
        trainer.state.update += 1
    close(trainer.ema, expected, rtol=1e-5, atol=1e-7)
    assert not same_tensors(trainer.ema, parameters(trainer))

    average, own = copied(trainer.ema), parameters(trainer)
    trainer._validate(None, 1.0)
    trainer._save()
    assert same_tensors(parameters(trainer), own)  # validation has put them back
    stored = last_checkpoint(workspace.run)
    assert same_tensors(read_weights(stored), average)
    weights = {n.removeprefix("weight."): t for n, t in training_tensors(stored).items() if n.startswith("weight.")}
    assert same_tensors(weights, own)

    plain = workspace.trainer(f"training.output_dir={workspace.folder / 'plain'}", f"training.init_from={stored}")
    plain.state.update = 3
    plain._validate(None, 1.0)
    assert plain.state.validations == trainer.state.validations

    resumed = workspace.trainer("training.ema=0.9", "training.budget.updates=3")
    assert same_tensors(parameters(resumed), own)
    assert same_tensors(resumed.ema, average)


def test_an_update_whose_gradient_is_not_finite_changes_nothing(workspace: Workspace) -> None:
    """Neither weights, nor their average, nor the optimizer; then training goes on as if it had never been."""
    trainer = workspace.trainer("training.ema=0.9", "training.clip_norm=1.0", "training.log_every=1")
    first, second, third = islice(trainer.loader.updates(), 3)
    trainer._update(first)
    before = parameters(trainer), copied(trainer.ema)
    moments = [copied(state) for state in trainer.optimizer.state.values()]

    poisoned = next(iter(trainer.model.parameters()))
    hook = poisoned.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor([7]), math.inf))
    trainer._update(second)
    hook.remove()
    assert same_tensors(parameters(trainer), before[0])
    assert same_tensors(trainer.ema, before[1])
    for state, expected in zip(trainer.optimizer.state.values(), moments, strict=True):
        assert same_tensors(state, expected)

    trainer.state.update = 2
    trainer._log(None, 0.1, 1.0, time.monotonic())  # one is no reason to stop, even if every update is logged
    trainer._update(third)
    assert not same_tensors(parameters(trainer), before[0])
    for _ in range(2):  # it counts once, however many checkpoints follow
        trainer._save()
        assert trainer.state.skipped == 1


def test_twenty_bad_updates_in_a_row_are_too_many_and_nineteen_are_not(workspace: Workspace) -> None:
    trainer = workspace.trainer()
    update = next(trainer.loader.updates())
    poisoned = next(iter(trainer.model.parameters()))
    for bad in (19, 20):
        hook = poisoned.register_hook(lambda gradient: gradient * math.nan)
        for _ in range(bad):
            trainer._update(update)
        hook.remove()
        if bad == 19:
            trainer._update(update)
            trainer._log(None, 0.1, 1.0, 0.0)
    with pytest.raises(FocatError, match="the last 20 updates all had gradients that are not finite"):
        trainer._log(None, 0.1, 1.0, 0.0)


def test_dropout_depends_on_the_number_of_the_batch_alone(workspace: Workspace) -> None:
    """Whatever random numbers were drawn before, so it is the same on any number of processes and after any stop."""
    trainer = workspace.trainer("model.dropout=0.3")
    update = next(trainer.loader.updates())
    found = []
    for number, draws in ((3, 0), (3, 100), (4, 0)):
        other = workspace.trainer("model.dropout=0.3", f"training.output_dir={workspace.run}-{len(found)}")
        torch.rand(draws)
        other._update(replace(update, batch_numbers=[number]))
        found.append(gradients(other))
    assert same_tensors(found[0], found[1])
    assert not same_tensors(found[0], found[2])


def test_half_precision_learns_the_same(workspace: Workspace) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        trainer = workspace.trainer(
            f"training.precision={precision}", f"training.output_dir={workspace.run}-{precision}", "model.dropout=0"
        )
        for update in islice(trainer.loader.updates(), 6):
            trainer._update(update)
            trainer.state.update += 1
        losses[precision] = trainer._losses.means(1.0)["full"]
        assert {parameter.dtype for parameter in trainer.parameters.values()} == {torch.float32}
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.01)
    assert losses["bfloat16"] != losses["float32"]


# ------------------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_out_of_memory_says_what_to_set(workspace: Workspace, error: Exception) -> None:
    with pytest.raises(FocatError) as told, _memory_errors(workspace.settings("training.gradient_accumulation=3")):
        raise error
    assert str(told.value) == (
        "training.batch_tokens = 500: does not fit into memory; training.batch_tokens=250 with "
        "training.gradient_accumulation=6 makes the same updates in half of it"
    )


@pytest.mark.parametrize("text", ["CUDA error: an illegal memory access was encountered", "shapes do not fit"])
def test_other_errors_stay_what_they_are(workspace: Workspace, text: str) -> None:
    with pytest.raises(RuntimeError, match=text), _memory_errors(workspace.settings()):
        raise RuntimeError(text)


def test_no_window_fits(workspace: Workspace, launcher: Launcher, tmp_path: Path) -> None:
    """Each sentence has ten words; a window may have eight tokens."""
    text = tmp_path / "long.txt"
    text.write_text("\n".join(" ".join("abcdefghij") for _ in range(20)))
    config = tmp_path / "long.yaml"
    corpus = {"format": "text", "source": str(text), "target": str(text)}
    tree = json.loads(workspace.config.read_text())
    tree["data"] = {"store": "long-store", "train": [corpus], "tokenizer": {"vocabulary": 300}}
    tree["windows"] = {"max_tokens": 8}
    config.write_text(json.dumps(tree))
    workspace.focat("prepare", str(config))
    output = workspace.focat("train", str(config), expect=2)
    assert output.splitlines()[-1].startswith("focat: data.train: has no window to train on")


@pytest.mark.parametrize("power", [40, 52])
def test_a_model_that_fits_into_no_memory_is_one_line(workspace: Workspace, power: int) -> None:
    output = workspace.train(f"model.d_ff={2**power}", expect=2)
    assert output == f"focat: {workspace.run}: its model does not fit into memory; lower model.d_model or model.d_ff\n"
