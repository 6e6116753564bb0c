"""join(): this process becomes a worker of a job."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable

from .errors import PacelineError
from .launching import in_child_process, in_childs_own_work, launch
from .reporting import reporter
from .session import session
from .wishes import AS_THE_JOB_SAYS, Wishes

if TYPE_CHECKING:
    import torch

    from .job import Job


def join(
    model: torch.nn.Module,
    train_set: Any,
    *,
    optimizer: Any = None,
    schedule: Any = None,
    schedule_per: str | None = None,
    evaluate: Callable[..., Any] | None = None,
    batch_size: int | None = AS_THE_JOB_SAYS,
    epochs: float | None = None,
    clip: float | None = None,
    scaler: Any = None,
    weights: str | None = None,
    collate_fn: Callable[..., Any] | None = None,
    digest: str | None = None,
    processes: int = 1,
    _loss: Callable[[Any, Any], Any] | None = None,
    _blocks: Any = None,
    _device: Any = None,
    least_batch: int | None = None,
    drop_last: bool = False,
    **loader: Any,
) -> Job:
    """Return the job that this process works for. Iterate over it, and call its step() once for each batch.

    optimizer, schedule: a torch.optim optimizer and scheduler. They are read here and stepped by the servers;
        schedule_per says whether the scheduler counts "epoch"s, the default, or "step"s.
    evaluate: evaluate(model) or evaluate(), which returns the loss or a dict of numbers.
    clip: the largest norm of the averaged gradient.
    scaler: a GradScaler; step() then unscales the gradient and updates it.
    weights: "view", the default, or "copy", which lets the program write to its weights.
    digest: a text that is the same on all machines that have the same data.
    processes: how many processes, each with a GPU of its own, compute each batch of this worker together.
    least_batch: the fewest samples of a batch, for a model that cannot compute on fewer. The last batch of an epoch
        takes some of the one before it, and no share of uneven data is smaller.
    drop_last: each epoch leaves out the samples that do not fill a batch.
    Further arguments are a DataLoader's: num_workers, prefetch_factor, pin_memory, ….
    """
    wishes = Wishes(
        optimizer=optimizer,
        schedule=schedule,
        schedule_per=schedule_per,
        evaluate=evaluate,
        batch_size=batch_size,
        epochs=epochs,
        clip=clip,
        scaler=scaler,
        weights=weights,
        collate_fn=collate_fn,
        digest=digest,
        processes=processes,
        loss=_loss,
        blocks=_blocks,
        device=_device,
        least_batch=least_batch,
        drop_last=drop_last,
        loader=loader,
    )
    with reporter.reported():
        return _join(model, train_set, wishes)


_joined = False


def _join(model: torch.nn.Module, train_set: Any, wishes: Wishes) -> Job:
    global _joined
    from .describing import describe
    from .enlisting import enlist
    from .inventory import check_model
    from .train_sets import check_options, check_train_set

    if in_child_process():
        raise PacelineError(
            "join() was called in a process that the program started; "
            + (
                "call it in the program itself, which `paceline run --devices N` starts once for each worker, so "
                "that multiprocessing need not"
                if in_childs_own_work()
                else 'put the program\'s own lines under `if __name__ == "__main__":`'
            )
        )
    wishes.check()
    wishes.loader = check_options(wishes.loader, inspect.signature(join).parameters, train_set)
    check_model(model)
    check_train_set(train_set)
    here = session()
    if here is None:
        launch(lambda: describe(model, train_set, wishes))
    if _joined:
        raise PacelineError(
            "join() was called twice, and a program works for one job; train the other model in a script of its own, "
            "which loads what this one saves after its loop"
        )
    _joined = True
    return enlist(here, model, train_set, wishes)


def run(
    model: torch.nn.Module,
    train_set: Any,
    loss: Callable[[Any, Any], Any],
    evaluate: Callable[..., Any] | None = None,
    *,
    blocks: str | list[str] | None = None,
    device: Any = None,
    **arguments: Any,
) -> Job:
    """The whole loop, for a program that needs no loop of its own. A job may cut its model into stages.

    loss(model, batch) returns the loss, or the loss and a dict of metrics, or these and the weight of the batch
    (see step()). Other arguments are join()'s.
    blocks: the name of the ModuleList or Sequential between whose modules the model may be cut, or several names;
        without it, the longest one.
    device: where to compute, for example paceline.device(), if that is not where the model is. The model is moved
        there. A stage moves only the weights that it computes with, so a model may be larger than its GPU: build it
        on the CPU, where it is again when the job is over.
    """
    job = join(model, train_set, evaluate=evaluate, _loss=loss, _blocks=blocks, _device=device, **arguments)
    scaler = arguments.get("scaler")
    for batch in job:
        with job.may_be_given_up():
            value, metrics, weight = _computed(job, model, batch, loss, scaler)
            job.step(value, metrics, weight=weight)
    return job


def _computed(
    job: Job, model: torch.nn.Module, batch: Any, loss: Callable[[Any, Any], Any], scaler: Any
) -> tuple[Any, Any, Any]:
    """The loss, its metrics and its weight. A pass without memory leaves nothing behind in the loop of run()."""
    with job.block_seeds():
        result = loss(model, batch)
        value, metrics, weight = (*result, None, None)[:3] if isinstance(result, tuple) else (result, None, None)
        (value if scaler is None else scaler.scale(value)).backward()
    return value, metrics, weight
