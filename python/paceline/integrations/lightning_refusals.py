"""Settings of a Lightning Trainer that a job does not support."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import (
    BaseFinetuning,
    BatchSizeFinder,
    EarlyStopping,
    GradientAccumulationScheduler,
    LearningRateFinder,
    Timer,
)
from lightning.pytorch.utilities.model_helpers import is_overridden

from ..cuts import CannotCut
from ..errors import PacelineError


def refuse(trainer: Trainer, precision: Any) -> None:
    """Raises an error if the Trainer's arguments ask for one of them."""
    for why in _of_trainer(trainer, precision):
        raise PacelineError(why)


def refuse_model(trainer: Trainer, strategy: Any) -> None:
    """The same, of the LightningModule."""
    for why in _of_model(trainer, strategy):
        raise PacelineError(why)


def hints(trainer: Trainer) -> Iterator[str]:
    """A line for each setting that has no effect, with the job's name for it."""
    each, part = trainer.check_val_every_n_epoch, trainer.val_check_interval
    if each not in (None, 1):
        yield (
            f"check_val_every_n_epoch={each} has no effect: the evaluator measures once an epoch; to measure as "
            f"often, write --set evaluate.every_epochs={each}"
        )
    if isinstance(part, int) or part != 1.0:
        epochs = part if isinstance(part, float) else "EPOCHS, which may be a fraction"
        yield (
            f"val_check_interval={part} has no effect: the evaluator measures once an epoch; write "
            f"--set evaluate.every_epochs={epochs}"
        )


def refuse_to_cut(module: Any) -> None:
    """Raises why a job cannot compute a part of this module's training step."""
    if not module.automatic_optimization:
        raise CannotCut("the module has automatic_optimization = False, and a stage has its own backward pass")
    for name in ("backward", "on_before_backward", "on_after_backward"):
        if is_overridden(name, module):
            raise CannotCut(f"the module has its own {name}(), and a stage has its own backward pass")


def _of_trainer(trainer: Trainer, precision: Any) -> Iterator[str]:
    if trainer.accumulate_grad_batches != 1:
        yield (
            f"Trainer(accumulate_grad_batches={trainer.accumulate_grad_batches}): a step of a job is one batch; "
            "make the DataLoader's batch larger, and write micro_batch in the job file if it does not fit in memory"
        )
    if trainer.max_steps != -1 or trainer.min_steps or trainer.min_epochs:
        yield "Trainer(max_steps, min_steps, min_epochs): a job lasts a number of epochs; give max_epochs alone"
    all_batches = isinstance(trainer.limit_train_batches, float) and trainer.limit_train_batches == 1.0
    if not all_batches or trainer.overfit_batches:  # 1 is one batch
        yield (
            "Trainer(limit_train_batches, overfit_batches, fast_dev_run): a job trains on every sample; use a "
            "torch.utils.data.Subset"
        )
    if trainer.reload_dataloaders_every_n_epochs:
        yield (
            f"Trainer(reload_dataloaders_every_n_epochs={trainer.reload_dataloaders_every_n_epochs}): a job leases "
            "the samples of one data set from beginning to end; leave it out"
        )
    if getattr(getattr(trainer, "_accelerator_connector", None), "_layer_sync", None) is not None:
        yield (
            "Trainer(sync_batchnorm=True): each worker normalizes with its own batch; leave it out, and use "
            "GroupNorm if batches are small"
        )
    if trainer.gradient_clip_val and trainer.gradient_clip_algorithm not in (None, "norm"):
        yield "Trainer(gradient_clip_algorithm='value'): the servers clip by the norm; write 'norm'"
    if getattr(precision, "scaler", None) is not None:
        yield f"Trainer(precision={trainer.precision!r}): its loss scaler steps the optimizer; write 'bf16-mixed'"
    if trainer.ckpt_path is not None:
        yield (
            "fit(ckpt_path=...): a job goes on with `paceline train --resume RUN`; to begin with these weights, load "
            "them into the module before fit()"
        )
    for callback in trainer.callbacks:
        name = type(callback).__name__
        if isinstance(callback, EarlyStopping):
            yield f"{name} would stop one worker and not the job; set evaluate.stop_at_target in the job file"
        if isinstance(callback, Timer):
            yield (
                f"{name} (max_time=) would stop one worker and not the job; leave it out, and write `timeout 8h` "
                "before the command, which stops the run with a checkpoint"
            )
        if isinstance(callback, GradientAccumulationScheduler):
            yield f"{name}: a step of a job is one batch"
        if isinstance(callback, (BatchSizeFinder, LearningRateFinder)):  # Tuner's methods make these
            yield f"{name} takes steps of its own and undoes them; let it search in a script without the strategy"
        if isinstance(callback, BaseFinetuning):
            yield (
                f"{name} unfreezes parameters during training, and a job trains the same ones throughout; begin a "
                "second job with the first one's exported weights (--set model.weights=FILE) and these unfrozen"
            )
        if any("WeightAveraging" in one.__name__ for one in type(callback).__mro__):
            yield f"{name} averages weights that the servers step; leave it out"


def _of_model(trainer: Trainer, strategy: Any) -> Iterator[str]:
    module = trainer.lightning_module
    if len(strategy.optimizers) != 1:
        yield f"configure_optimizers() returned {len(strategy.optimizers)} optimizers; a job has one"
    if is_overridden("optimizer_step", module):
        yield "the module has an optimizer_step() of its own, but the servers step; a warm-up is a scheduler"
    if strategy.lr_scheduler_configs and is_overridden("lr_scheduler_step", module):
        yield "the module has an lr_scheduler_step() of its own, but the servers step; give a torch.optim one"
    if trainer.gradient_clip_val and is_overridden("configure_gradient_clipping", module):
        yield (
            "the module has a configure_gradient_clipping() of its own, but the servers clip by gradient_clip_val; "
            "leave one of the two out"
        )
    if len(strategy.lr_scheduler_configs) > 1:
        yield f"configure_optimizers() returned {len(strategy.lr_scheduler_configs)} schedulers; a job has one"
    for config in strategy.lr_scheduler_configs:
        if config.frequency != 1:
            yield f"the scheduler's frequency is {config.frequency}; a job steps it each {config.interval}"
    if not trainer.fit_loop.max_batches:
        yield "there are no training data"
