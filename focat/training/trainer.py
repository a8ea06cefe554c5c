"""`focat train`: the training loop, from batches to checkpoints, until the budget is spent.

Tiny, on a CPU:   focat train focat:demo training.budget.updates=50
Many GPUs:        torchrun --nproc-per-node 4 -m focat train CONFIG

No random state carries over from update to update: dropout is seeded by the number of the batch, and the order of
batches by the epoch. So a run that was killed and resumed ends with the same weights.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from focat.config import Settings
from focat.corpus.made_from import check_same_data
from focat.corpus.store import Store
from focat.errors import FocatError
from focat.files import disk_errors, locked_folder
from focat.hardware import memory_errors
from focat.model.stored_weights import load_weights
from focat.progress import NULL_PROGRESS, Progress, shortened
from focat.run import Run
from focat.training.captured_step import CapturedStep
from focat.training.checkpoints import (
    TrainingState,
    load_checkpoint,
    optimizer_tensors,
    prune_checkpoints,
    restore_optimizer,
    save_checkpoint,
    training_tensors,
)
from focat.training.distributed import Processes, init_distributed
from focat.training.freezing import check_frozen_weights, freeze_base
from focat.training.initial_weights import load_initial_weights
from focat.training.logger import TrainLogger, end_line, training_line, validation_line
from focat.training.mixed_precision import MasterWeights
from focat.training.objective import LossSums
from focat.training.optimizer import build_optimizer
from focat.training.schedule import Elapsed, budget_fraction, discount_at, learning_rate
from focat.training.signals import Interrupted, StopSignals
from focat.training.step import TrainingStep, uses_bfloat16, uses_compile, uses_packing
from focat.training.validation import bleu, bleu_sentences, dev_losses, translate_sentences
from focat.windows.batch import PackedBatch
from focat.windows.loader import Loader, Prefetcher, Update, pin_memory
from focat.windows.splitmix64 import splitmix64

_MAX_SKIPPED = 20  # updates in a row whose gradient is not finite: training has diverged


def train(settings: Settings, progress: Progress) -> TrainingState:
    """Train, or resume training, until the budget is spent.

    Returns:
        The state of training at its end.

    Raises:
        Interrupted: a signal asked to stop; everything is saved.
    """
    check_frozen_weights(settings.training)
    with init_distributed(settings.training.device) as processes:
        store = Store(settings.data.store)
        if processes.is_main:
            store.verify()
            check_same_data(settings.data, store)
        with _locked(settings.training.output_dir) if processes.is_main else nullcontext():
            run = Run.create(settings, store) if processes.is_main else Run(settings.training.output_dir)
            processes.barrier()
            with memory_errors("model: does not fit into memory; lower d_model, d_ff or the number of layers"):
                trainer = Trainer(settings, store, run, processes, progress if processes.is_main else NULL_PROGRESS)
            with _memory_errors(settings):
                return trainer.train()


class Trainer:
    """Trains one run, in one of its processes."""

    def __init__(self, settings: Settings, store: Store, run: Run, processes: Processes, progress: Progress) -> None:
        self.settings, self.run, self.processes = settings, run, processes
        self.progress = progress
        self.tokenizer = store.tokenizer
        self.dev = store.split("dev") if "dev" in store.splits else None
        training = settings.training
        self.device = processes.device
        self.bfloat16 = uses_bfloat16(training, self.device)
        if self.device.type == "cuda":
            torch.set_num_threads(1)  # the CPU only launches kernels: its own work is too small to share
            torch.autograd.set_multithreading_enabled(False)  # nor is backward worth a thread of its own
        torch.set_float32_matmul_precision("high")  # what is left in float32 may use TF32 on GPUs

        torch.manual_seed(training.seed)
        self.model = run.build_model(settings).to(self.device)
        found = load_checkpoint(run, progress)
        self.state = (
            found[0]
            if found
            else TrainingState(
                gradient_accumulation=max(training.gradient_accumulation, processes.world_size),
                packed=uses_packing(training, settings.model, self.device),
            )
        )
        self.loader = Loader(
            store.split("train"),
            settings.windows,
            training.batch_tokens,
            training.seed,
            self.state.gradient_accumulation,
            processes.rank,
            processes.world_size,
            self.state.packed,
        )
        if found:
            load_weights(self.model, found[1])
        elif training.init_from is not None:
            load_initial_weights(self.model, training.init_from, progress)
        freeze_base(self.model, training)
        self.master_weights = MasterWeights(self.model, self.bfloat16)
        self.parameters = self.master_weights.parameters
        compiled = uses_compile(training, self.device)
        trained = {name: parameter for name, parameter in self.parameters.items() if parameter.requires_grad}
        self.optimizer = build_optimizer(training, self.model, trained)
        self.ema = {name: p.detach().clone() for name, p in self.parameters.items()} if training.ema else {}
        self._losses = LossSums.zero(self.device)  # since the last line of the log
        if found:
            self._restore(training_tensors(found[1]))

        self.step: nn.Module = TrainingStep(self.model, settings.objective, compiled, self.state.packed)
        self._captured: CapturedStep | None = None
        if processes.distributed:
            self.step = DistributedDataParallel(self.step)
            self.master_weights.reduce_in_float32(self.step)
        elif self.state.packed:
            several = self.state.gradient_accumulation > 1
            self._captured = CapturedStep(self.step, self.master_weights, self._autocast, progress, several)

        self._skipped = torch.zeros(2, device=self.device)  # since the last checkpoint, and in a row
        self._tokens, self._buckets_settled = 0, False
        self._signals = StopSignals()

    # ---------------------------------------------------------------------------------------------------- the loop

    def train(self) -> TrainingState:
        """Update, log, validate and save, until the budget is spent or patience runs out."""
        training = self.settings.training
        if self.state.update:
            self.progress.log(f"{self.run.path}: resuming from update {self.state.update:,}")
        if self.processes.is_main:
            prune_checkpoints(self.run, self.state, training.keep_checkpoints)
        if self.state.finished and self._is_over():
            self.progress.log(f"{self.run.path} is finished; to train on, raise training.budget or training.patience")
            return self.state
        self.state.finished = False
        self._log_setup()
        logger = TrainLogger(self.run, self.progress, self.state.update) if self.processes.is_main else None
        self._resumed_at, self._minutes_before = time.monotonic(), self.state.minutes
        last_saved, last_logged = self.state.minutes, self._resumed_at
        updates = self.loader.updates(self.state.position)
        prefetcher = Prefetcher(map(pin_memory, updates) if self.device.type == "cuda" else updates)
        with self._signals.watched(), closing(prefetcher), closing(logger) if logger else nullcontext():
            for update in prefetcher:
                rate, discount = self._update(update)
                stop = self._advance(update)
                if self.state.update % training.log_every == 0:
                    last_logged = self._log(logger, rate, discount, last_logged)
                over = self._is_over()
                due = update.next.update == 0
                if training.validate_every is not None:
                    due = self.state.update % training.validate_every == 0
                if due or over:
                    self._validate(logger, discount)
                    over = self.state.finished = self._is_over()
                # The minutes are the same on all processes, so all save, or none.
                if due or over or stop or self.state.minutes - last_saved > training.save_minutes:
                    self._save()
                    last_saved = self.state.minutes
                if stop and not over:
                    raise Interrupted(self._signals.received or signal.SIGTERM, self.state.update)
                if over:
                    self.progress.log(f"{self.run.path}: {end_line(self.state, training.patience)}")
                    return self.state
        raise FocatError("data.train: has no window to train on: every sentence is longer than windows.max_tokens")

    def _update(self, update: Update) -> tuple[float, float]:
        """Make one step of the optimizer; return its learning rate and discount."""
        training = self.settings.training
        fraction = self._budget_fraction()
        rate = learning_rate(training, self.state.update + 1, fraction)
        discount = discount_at(self.settings.objective.discount, fraction)
        weight = torch.full((), discount, device=self.device)  # filled there: a copy would wait for the device
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if not self.model.training:
            self.model.train()
        if self.processes.distributed and not self._buckets_settled:
            self._settle_buckets(update, weight)
        if self._captured is None:
            self.master_weights.zero_grad()
        # The gradient is the sum over all processes, per token of the whole update; DDP takes their mean.
        scale = 0.0 if update.idle else self.processes.world_size / update.target_tokens
        for i, (batch, number) in enumerate(zip(update.batches, update.batch_numbers, strict=True)):
            seed = int(splitmix64(1, training.seed, self.state.epoch, number, 5)[0] >> 1)
            if self._captured is not None:
                assert isinstance(batch, PackedBatch)
                self._captured.run(batch, seed, weight, scale, first=i == 0, losses=self._losses)
                continue
            torch.manual_seed(seed)
            here = batch.to(str(self.device))
            last = i == len(update.batches) - 1
            with nullcontext() if last or not self.processes.distributed else self.step.no_sync():  # type: ignore[operator]
                with self._autocast():
                    total, smoothed, plain = self.step(here.source, here.target, weight)
                (total * scale).backward()
            self.master_weights.accumulate_gradients()
            if not update.idle:
                self._losses = self._losses + LossSums.from_tokens(
                    here.target, smoothed, plain, self.model.predicts_context
                )
        self._tokens += update.target_tokens
        norm = nn.utils.get_total_norm(self.master_weights.gradients)
        if training.clip_norm:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), training.clip_norm, norm)
        # An update whose gradient is not finite is skipped; decided on the device, so that nothing waits for it.
        infinite = (~torch.isfinite(norm)).float()
        self._skipped = torch.stack([self._skipped[0] + infinite, (self._skipped[1] + 1) * infinite])
        self.optimizer.found_inf = infinite
        self.optimizer.step()
        self.master_weights.sync_working_weights()
        step_size = (1 - training.ema) * (1 - infinite)
        for name, parameter in self.parameters.items() if self.ema else ():
            self.ema[name].lerp_(parameter.detach(), step_size)
        return rate, discount

    def _settle_buckets(self, update: Update, discount: Tensor) -> None:
        """Run a backward pass whose gradient is not used: DDP regroups its buckets after the first one.

        Sums of more than two gradients depend on them, so a resumed run would begin with others."""
        batch = update.batches[0].to(str(self.device))
        with self._autocast():
            self.step(batch.source, batch.target, discount)[0].backward()
        self.master_weights.accumulate_gradients()
        self._buckets_settled = True

    def _advance(self, update: Update) -> bool:
        """Count an update; return whether a process was asked to stop."""
        self.state.update += 1
        self.state.epoch, self.state.update_in_epoch = update.next.epoch, update.next.update
        self.state.epochs = update.next.epoch + update.next.update / update.updates_in_epoch
        minutes = self._minutes_before + (time.monotonic() - self._resumed_at) / 60
        stop, self.state.minutes = self.processes.all_reduce_max(self._signals.received is not None, minutes)
        return bool(stop)

    def _budget_fraction(self) -> float:
        elapsed = Elapsed(self.state.update, self.state.epochs, self.state.minutes)
        return budget_fraction(self.settings.training.budget, elapsed)

    def _is_over(self) -> bool:
        patience = self.settings.training.patience
        return self._budget_fraction() >= 1 or (patience is not None and self.state.without_improvement >= patience)

    # ------------------------------------------------------------------------------------- logging, validating, saving

    def _log(self, logger: TrainLogger | None, rate: float, discount: float, since: float) -> float:
        """Log figures of the updates since a time; return the time now."""
        losses = LossSums(self.processes.all_reduce_sum(self._losses.sums)).means(discount)  # waits for the device
        now, fraction = time.monotonic(), self._budget_fraction()
        skipped, in_a_row = (int(n) for n in self._skipped.tolist())
        figures: dict[str, Any] = {
            **losses,
            "learning_rate": rate,
            "discount": discount,
            "epochs": self.state.epochs,
            "tokens_per_second": self._tokens / (now - since),
            "minutes": self.state.minutes,
            "minutes_left": self.state.minutes * (1 - fraction) / fraction if fraction else None,
            "skipped": self.state.skipped + skipped,
        }
        if logger is not None:
            logger.record("train", self.state.update, **figures)
            logger.status(training_line({"update": self.state.update, **figures}))
            if skipped:
                logger.log(f"{figures['skipped']} updates so far had a gradient that is not finite, and were skipped")
        if in_a_row >= _MAX_SKIPPED:
            raise FocatError(
                f"{self.run.path}: the last {in_a_row} updates all had gradients that are not finite; lower "
                f"training.learning_rate ({self.settings.training.learning_rate}), set training.clip_norm=1, "
                "or use training.precision=float32"
            )
        self._losses, self._tokens = LossSums.zero(self.device), 0
        return now

    def _validate(self, logger: TrainLogger | None, discount: float) -> None:
        if self.dev is None:
            return
        training = self.settings.training
        self.model.eval()
        with self._with_ema_weights():
            figures: dict[str, Any] = dev_losses(
                self.model, self.dev, self.settings, self.processes, self._autocast
            ).means(discount)
            if training.criterion == "bleu":
                figures["bleu"] = bleu(self._translate(bleu_sentences(self.dev)))
            value = -figures["bleu"] if training.criterion == "bleu" else figures[training.criterion]
            best_before = self.state.best
            self.state.validations.append((self.state.update, value if math.isfinite(value) else math.inf))
            best = self.state.best
            assert best is not None
            samples = self._translate(self._samples_to_show()) if self.processes.is_main else []
        if logger is not None:
            figures |= {"criterion": training.criterion, "best": best != best_before, "best_value": abs(best[1])}
            shown = [vars(sample) for sample in samples]
            logger.record("validation", self.state.update, **figures, samples=shown)
            logger.log(validation_line({"update": self.state.update, **figures}))
            for sample in samples:
                for mark, text in ((" ", sample.source), ("→", sample.translation), ("=", sample.reference)):
                    logger.log(f"  {mark} {shortened(text)}")

    def _samples_to_show(self) -> list[int]:
        """Indices of a few sentences of the dev set, others at each validation."""
        assert self.dev is not None
        first = len(self.state.validations) * self.settings.training.log_samples
        return [int(splitmix64(1, 6, first + i)[0] % len(self.dev)) for i in range(self.settings.training.log_samples)]

    def _translate(self, sentences: list[int]) -> list[Any]:
        assert self.dev is not None
        return translate_sentences(
            self.model, self.tokenizer, self.dev, self.settings, sentences, self.device, self._autocast
        )

    def _save(self) -> None:
        self.state.skipped += int(self._skipped[0])
        self._skipped[0] = 0
        losses = self.processes.all_reduce_sum(self._losses.sums)
        if self.processes.is_main:
            training = {**optimizer_tensors(self.optimizer.state, self.parameters), "losses": losses.cpu()}
            weights = self.master_weights.to_cpu()
            if self.ema:  # the moving average is what is used; the weights themselves are only needed to resume
                training |= {f"weight.{name}": tensor for name, tensor in weights.items()}
                weights = {name: tensor.cpu() for name, tensor in self.ema.items()}
            save_checkpoint(self.run, self.state, weights, training, self.settings.training.keep_checkpoints)
        self.processes.barrier()

    def _restore(self, stored: dict[str, Tensor]) -> None:
        optimizer = {entry: tensor for entry, tensor in stored.items() if not entry.startswith("weight.")}
        restore_optimizer(self.optimizer.state, self.parameters, optimizer)
        if self.processes.is_main:  # the stored sums are those of all processes
            self._losses = LossSums(stored["losses"].to(self.device))
        if self.ema:
            self.master_weights.load({name: stored[f"weight.{name}"] for name in self.parameters})

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.bfloat16 else nullcontext()

    @contextmanager
    def _with_ema_weights(self) -> Iterator[None]:
        """Put the moving average of the weights, if there is one, into the model for a while."""
        if not self.ema:
            yield
            return
        own = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}
        self.master_weights.load(self.ema)
        try:
            yield
        finally:
            self.master_weights.load(own)

    def _log_setup(self) -> None:
        windows, order = self.loader.epoch(self.state.epoch)
        parameters = sum(p.numel() for p in self.model.parameters())
        self.progress.log(
            f"{parameters / 1e6:.1f}M parameters on {self.processes.world_size} × {self.device.type}; "
            f"{len(windows):,} windows, {self.loader.count_updates(order):,} updates an epoch"
            + ("" if self.dev else "; no validation, since the store has no dev split")
        )
        if windows.shortened:
            self.progress.log(f"{windows.shortened:,} windows over windows.max_tokens lost their farthest context")
        if len(windows.too_long):
            self.progress.log(f"{len(windows.too_long):,} sentences over windows.max_tokens are never current")


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Lock the folder of a run against other processes."""
    with disk_errors(run):
        run.mkdir(parents=True, exist_ok=True)
    with locked_folder(run, "another process is training this run"):
        yield


def _memory_errors(settings: Settings) -> AbstractContextManager[None]:
    tokens, batches = settings.training.batch_tokens, settings.training.gradient_accumulation
    return memory_errors(
        f"training.batch_tokens = {tokens}: does not fit into memory; training.batch_tokens={tokens // 2} with "
        f"training.gradient_accumulation={batches * 2} makes the same updates in half of it"
    )
