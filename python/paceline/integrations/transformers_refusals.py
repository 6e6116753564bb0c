"""Settings of a transformers Trainer that a job does not support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transformers import EarlyStoppingCallback

from ..cuts import CannotCut
from ..errors import PacelineError
from ..streams import Stream

SEARCH = (
    "hyperparameter_search() trains many models, and a program works for one job; start a job for each trial, with "
    "paceline.integrations.ray.run() in a trial of Ray Tune, or with a loop over `paceline run`"
)
LIBRARIES = ("paceline.", "transformers.", "trl.")  # a class of another module is the person's own


def refuse(trainer: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises what the Trainer's arguments amount to; `arguments` and `named` are train()'s."""
    for why in _of_trainer(trainer, arguments, named):
        raise PacelineError(why)


# Methods that PacelineTraining calls on the class behind it, for the job.
_BEHIND = ("create_scheduler", "create_optimizer", "get_train_dataloader")


_BOTH = "create_optimizer_and_scheduler"


def refuse_overrides(trainer: Any, training: type) -> None:
    """Raises an error if a class before PacelineTraining, which is `training`, has one of these methods."""
    classes = type(trainer).__mro__
    for one in classes:
        if _BOTH in one.__dict__ and not one.__module__.startswith("transformers."):
            raise PacelineError(
                f"{one.__name__} overrides {_BOTH}(), which the job does not call; give the Trainer "
                "optimizers=(optimizer, scheduler), or override create_optimizer() and create_scheduler() in a class "
                "behind PacelineTraining"
            )
    for one in classes[: classes.index(training)]:
        for method in _BEHIND:
            if method in one.__dict__:
                raise PacelineError(
                    f"{one.__name__} overrides {method}(), and the job would not call it there; {_behind(one)}"
                )


def own_training_step(trainer: type) -> str:
    """Returns the line for a training_step() of the person's own that hides the job's."""
    return (
        f"{trainer.__name__} has a training_step() that does not call super().training_step(), so the job does not "
        f"know the loss; {_behind(trainer)}"
    )


def _behind(one: type) -> str:
    return (
        f"put your overrides in a class of Trainer's, class Own(Trainer), and write class {one.__name__}"
        "(PacelineTraining, Own)"
    )


def refuse_to_cut(trainer: Any) -> None:
    """Raises why a job cannot compute a part of this Trainer's training step."""
    for one in type(trainer).__mro__:
        if "training_step" in one.__dict__ and not one.__module__.startswith(LIBRARIES):
            raise CannotCut(
                f"{one.__name__} has a training_step() of its own, which computes the backward pass, too; override "
                "compute_loss() instead"
            )


def _of_trainer(trainer: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterator[str]:
    args = trainer.args
    if any(arguments) or any(named.get(name) for name in ("resume_from_checkpoint", "trial")):
        yield "train(resume_from_checkpoint=...): a job goes on with `paceline train --resume RUN`"
    if args.gradient_accumulation_steps != 1:
        yield (
            f"gradient_accumulation_steps={args.gradient_accumulation_steps}: a step of a job is one batch; make "
            "per_device_train_batch_size larger, and write micro_batch in the job file if it does not fit in memory"
        )
    sampling = getattr(args, "train_sampling_strategy", "random")  # older versions of transformers have the other one
    if sampling == "sequential" and not isinstance(trainer.train_dataset, Stream):
        yield (
            "train_sampling_strategy='sequential': the job shuffles each epoch by its seed; leave it out, or give "
            "the Trainer a paceline.streams.Stream with shuffle=0, which keeps the order of its files"
        )
    elif sampling not in ("random", "sequential"):
        yield f"train_sampling_strategy={sampling!r}: the job draws each batch; leave it out"
    if getattr(args, "group_by_length", False):
        yield "group_by_length=True: the job draws each batch; leave it out"
    if args.max_steps > 0:
        yield f"max_steps={args.max_steps}: a job lasts a number of epochs; give num_train_epochs, like 1.5"
    if args.fp16:
        yield "fp16=True: the Trainer's loss scaler steps the optimizer; use bf16=True"
    elif trainer.accelerator.mixed_precision == "fp16":
        yield (
            "ACCELERATE_MIXED_PRECISION=fp16 in the environment: the Trainer's loss scaler steps the optimizer; "
            "write ACCELERATE_MIXED_PRECISION=bf16"
        )
    if args.accelerator_config.split_batches:
        yield (
            "accelerator_config: split_batches=True, but the batch of the Trainer is that of one worker; leave it "
            "out, and divide per_device_train_batch_size by the number of devices (paceline.device_count())"
        )
    if getattr(args, "enable_jit_checkpoint", False):
        yield (
            "enable_jit_checkpoint=True: a worker has no weights to save, and the job writes a checkpoint when its "
            "command gets SIGTERM; leave it out"
        )
    if args.fp16_full_eval or args.bf16_full_eval:
        yield "fp16_full_eval, bf16_full_eval: they convert weights in memory that others read; leave them out"
    if args.n_gpu > 1:
        yield (
            f"this process sees {args.n_gpu} GPUs, and the Trainer would use them all; import "
            "paceline.integrations.transformers before anything that asks for a GPU"
        )
    if args.load_best_model_at_end:
        yield "load_best_model_at_end=True: the job's checkpoints are in its run folder"
    if args.push_to_hub:
        yield "push_to_hub=True: a worker has no weights to save until the job is over; push them afterwards"
    if args.auto_find_batch_size:
        yield "auto_find_batch_size=True: a job's batch is fixed; write micro_batch in the job file"
    if trainer.model_init is not None:
        yield "model_init=: a job trains one model; give the Trainer model="
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        yield "DeepSpeed and FSDP spread and step the weights themselves; leave them out"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, EarlyStoppingCallback):
            yield (
                "EarlyStoppingCallback would stop one worker and not the job; set evaluate.stop_at_target in the "
                "job file"
            )
