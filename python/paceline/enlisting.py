"""The part of join() inside a worker: it describes the model, and makes the job."""

from __future__ import annotations

import faulthandler
import os
import sys
from typing import TYPE_CHECKING, Any, Callable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .allocator import keep_freed_memory
from .binding import Binding
from .binding_by_memory import BindingByMemory
from .card_memory import free_memory_in_turn, own_card_memory
from .channel import Message
from .cuts import CannotCut, Cuts, find_cuts, libraries
from .device_binding import DeviceBinding
from .device_memory import card_that_shares, driver
from .devices import VARIABLE, count_at_first, evaluates_elsewhere, is_stand_in, number_of_gpu
from .errors import PacelineError
from .evaluation import takes_model
from .failures import where_in
from .freezing import Freezing
from .frozen import Frozen
from .host_binding import HostBinding
from .inventory import PARAMETER, Inventory, take_inventory
from .job import Job
from .loading import Drawn, Load, make_loader
from .memories import CUDA, Memories
from .memory_short import ending_without_memory
from .moving import to_device
from .optimizer_guard import OptimizerGuard
from .optimizer_state import OptimizerState, read_state
from .optimizers import not_given, read_optimizer
from .peft_names import peft_names
from .reporting import reporter
from .resident_binding import ResidentBinding
from .schedules import length_of, read_schedule
from .session import Session
from .streams import Stream
from .streams.host_source import job_on_host
from .streams.stream import UNKNOWN_EPOCH
from .train_sets import check_train_set, digest_of, prefetched
from .unit_weights import unit_messages
from .wishes import Wishes
from .write_watch import WriteWatch

if TYPE_CHECKING:
    from .team import Team

# A job's own defaults.
DEFAULT_BATCH = 32
DEFAULT_EPOCHS = 1
# The largest batch in a job file. A batch that is larger than the training set takes all of it, however large it is.
_MOST_BATCH = 1 << 20


def _prepare_process() -> None:
    # A crash should leave the Python stack in the log, which is this descriptor. A program may have replaced
    # sys.stderr by another object.
    faulthandler.enable(2)
    keep_freed_memory()
    reporter.watch()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def enlist(session: Session, model: nn.Module, train_set: Any, wishes: Wishes) -> Job:
    _prepare_process()
    samples = check_train_set(train_set)
    if isinstance(train_set, Stream):
        _check_stream(train_set, _epochs(session, wishes), _batch(session, wishes), wishes)
    if wishes.evaluate is not None:
        takes_model(wishes.evaluate)
    device = _made_current(_place(session, model, wishes))
    inventory = take_inventory(model, session.stages)
    memories = Memories(len(inventory.entries), device)
    may_write = _weights_of(session, wishes) == "copy"
    # A follower gets its leader's values.
    frozen = Frozen(inventory.frozen, may_write or session.role == "follower")
    if session.initial_weights:
        frozen.load(session.initial_weights, session.run_folder)
    if session.role == "worker" and session.run_folder:
        frozen.keep(session.run_folder, session.keep_frozen, first=session.on_host == 0)
    # A follower describes only the model to its leader, without any settings.
    message = None
    if session.role != "follower":
        message = _model_message(session, inventory, frozen, train_set, samples, wishes)
    inventory.after_backward.append(_freezing(session, inventory, wishes, lambda: job.epoch).check)
    cuts = None
    if session.stages and message is not None and session.role != "evaluator":
        try:
            cuts = _cuts_of(model, train_set, inventory, samples, wishes)
            message.update(units=unit_messages(inventory, cuts), libraries=libraries())
            if session.profile > 0 and not session.beside:
                from .profiling import profile

                message["profile"] = profile(
                    *_to_measure(session, model, train_set, inventory, samples, wishes, cuts, device)
                )
        except CannotCut as why:
            message["uncut"] = str(why)
    job = Job(
        session=session,
        model=model,
        inventory=inventory,
        memories=memories,
        binding=_make_binding(session, inventory, memories, device, wishes),
        make_loader=lambda: make_loader(
            train_set,
            wishes.collate_fn,
            wishes.loader,
            session.seed,
            _epochs(session, wishes),
            job_on_host(session.host_folder, session.run),
            wishes.processes != 1 or cuts is not None,
        ),
        evaluate=wishes.evaluate,
        guard=_guard(session, samples, wishes),
        watch=WriteWatch([*inventory.entries, *inventory.frozen], may_write),
        frozen=frozen,
        device=device,
        team=_make_team(session, inventory, frozen, device, wishes),
        loss=wishes.loss,
        cuts=cuts,
    )
    if message is not None:
        session.channel.write(message)
    if session.role == "probe":
        if session.beside and cuts is not None:
            from .profiling import compute_beside

            compute_beside(
                *_to_measure(session, model, train_set, inventory, samples, wishes, cuts, device), job.is_over
            )
        job.wait_for_end()
    return job


def _freezing(session: Session, inventory: Inventory, wishes: Wishes, epoch: Callable[[], int]) -> Freezing:
    # A stage lacks weights, and with weights of a file each process has other ones at join().
    compares = session.role in ("worker", "follower") and not session.stages and not session.initial_weights
    return Freezing(inventory, wishes.optimizer, epoch if compares else None)


def _check_stream(stream: Stream, epochs: float, batch: float, wishes: Wishes) -> None:
    if stream.varies and wishes.processes != 1:
        raise PacelineError(
            "a batch of this stream may have fewer samples than were leased, and the processes of a worker share "
            "whole batches; leave processes= out, and name more devices"
        )
    if stream.open_end and epochs < 1:
        raise PacelineError(
            f"nobody knows how many samples {epochs:g} epochs of this stream have before it was read to its end; "
            "give the stream records="
        )
    if stream.open_end and batch > UNKNOWN_EPOCH:
        raise PacelineError(
            f"a batch has {batch} samples, and as nobody knows how many this stream has, its batches end at each "
            f"{UNKNOWN_EPOCH}th record; give the stream records=, or write a smaller batch"
        )
    if stream.open_end and wishes.schedule is not None:
        raise PacelineError(
            "a schedule needs the number of samples of an epoch, and nobody knows this stream's; give the stream "
            "records="
        )


def _cuts_of(model: nn.Module, train_set: Any, inventory: Inventory, samples: int, wishes: Wishes) -> Cuts:
    if wishes.loss is None:
        raise CannotCut(
            "the program's own loop computes whole models; make the part of the loop that computes the loss a "
            "function loss(model, batch), and write paceline.run(model, train_set, loss) instead of the loop"
        )
    if isinstance(train_set, Stream) and train_set.varies:
        raise CannotCut(
            "a batch of this stream may have fewer samples than were leased, and stages compute whole batches; leave "
            "keep= and pack= out, and give the stream records="
        )
    if wishes.scaler is not None:
        raise CannotCut("scaler= works on whole models only; use bfloat16, which needs no scaler")
    if wishes.processes != 1:
        raise CannotCut("processes= computes whole models only; leave it out, and name more devices")
    device = next(inventory.model.parameters()).device
    if device.type not in ("cpu", "cuda"):
        raise CannotCut(f"stages compute on processors and on NVIDIA's GPUs, and this model is on {device.type}")
    probed = min(samples, 2)
    batch = to_device(_first_samples(train_set, wishes, probed), device)
    return find_cuts(model, inventory, wishes.loss, batch, probed, wishes.blocks, wishes.device)


def _first_samples(train_set: Any, wishes: Wishes, count: int) -> Any:
    return _samples_of(train_set, wishes)(count)


def _samples_of(train_set: Any, wishes: Wishes) -> Callable[[int], Any]:
    """A function that returns a batch of the first samples, so many."""
    loader = make_loader(train_set, wishes.collate_fn, {})

    def get(count: int) -> Any:
        batch = loader.get(Load(tuple(range(count)), 0))
        return batch.batch if isinstance(batch, Drawn) else batch

    return get


def _to_measure(
    session: Session,
    model: nn.Module,
    train_set: Any,
    inventory: Inventory,
    samples: int,
    wishes: Wishes,
    cuts: Cuts,
    device: torch.device,
) -> tuple[nn.Module, Inventory, Callable[[Any, Any], Any], Cuts, Callable[[int], Any], torch.device, list[int]]:
    """The arguments of profile() and compute_beside()."""
    from .profiling import sizes_up_to

    assert wishes.loss is not None  # there would be no cuts
    sizes = sizes_up_to(session.profile, _least_share(inventory.model, 1) or 1, samples)
    return model, inventory, wishes.loss, cuts, _samples_of(train_set, wishes), device, sizes


def _place(session: Session, model: nn.Module, wishes: Wishes) -> torch.device:
    """The device that this process computes on. A whole model is moved there. A stage and a profile move parts."""
    home = next(model.parameters()).device
    if wishes.device is None:
        _check_gpu(session, model)
        return home
    if wishes.device == home:
        return home
    if session.stages and not evaluates_elsewhere(session):
        return torch.device(wishes.device) if session.role == "worker" or session.profile > 0 else home
    with ending_without_memory():
        model.to(wishes.device)
        return torch.device(wishes.device)
    raise PacelineError(
        f"the whole model has no room on {wishes.device}; "
        + (
            "leave evaluate.device out"
            if session.stages
            else "cut it into stages (docs/python.md, A model over several devices)"
        )
    )


def _check_gpu(session: Session, model: nn.Module) -> None:
    """PyTorch's own default is the first GPU. All workers would compute there, and the other GPUs idle."""
    if session.role not in ("worker", "follower") or session.stages or os.environ.get(VARIABLE):
        return
    places = {parameter.device for parameter in model.parameters()}
    if places != {torch.device("cuda", 0)}:
        return
    own = number_of_gpu(torch.cuda.device_count())
    if own != 0:
        raise PacelineError(
            f"the model is on cuda:0, which another worker has, and this worker's GPU is cuda:{own}; build the model "
            "on paceline.device(), or set PACELINE_DEVICE=cuda:0 if workers are to share that GPU"
        )


def _made_current(device: torch.device) -> torch.device:
    """Helper threads, such as the DataLoader's for pinned memory, would otherwise take memory of the first GPU."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def _weights_of(session: Session, wishes: Wishes) -> str:
    kind = wishes.weights or session.weights
    if kind not in ("view", "copy"):
        raise PacelineError(f'weights = {kind!r} is neither "view" nor "copy"')
    return kind


def _make_binding(
    session: Session, inventory: Inventory, memories: Memories, device: torch.device, wishes: Wishes
) -> BindingByMemory:
    copies = _weights_of(session, wishes) == "copy"
    spread = _is_spread(inventory, device)

    def of_files() -> Binding:
        if session.role == "follower":
            from .team import FollowersBinding

            return FollowersBinding(inventory)
        if (device.type != "cpu" or is_stand_in()) and not session.stages and not spread:
            return DeviceBinding(inventory, memories, device, may_write=copies)
        return HostBinding(inventory, memories, copies, device if session.role == "worker" else None)

    def resident() -> ResidentBinding:
        return ResidentBinding(inventory, memories, device, may_write=copies)

    return BindingByMemory(memories, of_files, resident)


def _is_spread(inventory: Inventory, device: torch.device) -> bool:
    """The program has put parameters on several devices itself, and each stays where it is."""
    return any(entry.tensor.device != device for entry in inventory.entries if entry.kind == PARAMETER)


def _make_team(
    session: Session, inventory: Inventory, frozen: Frozen, device: torch.device, wishes: Wishes
) -> Team | None:
    if not isinstance(wishes.processes, int) or wishes.processes < 1:
        raise PacelineError(f"processes = {wishes.processes!r} is not a number of processes; write 1 or more")
    if wishes.processes > 1 and _is_spread(inventory, device):
        raise PacelineError(
            "processes= computes a model on one device in each process, and the program has put this one on several; "
            "leave processes= out, and name more devices"
        )
    # torch.distributed is imported only if it is needed.
    if session.role == "follower":
        from .team import Follower

        return Follower(session, inventory, frozen, device)
    if session.role == "worker" and wishes.processes > 1:
        from .team_leader import Leader

        return Leader(session, inventory, frozen, device, wishes.processes)
    return None


def _model_message(
    session: Session, inventory: Inventory, frozen: Frozen, train_set: Any, samples: int, wishes: Wishes
) -> Message:
    message: Message = {
        "type": "model",
        "tensors": [entry.message() for entry in inventory.entries],
        "samples": samples,
        "prefetch": prefetched(wishes.loader),
        "last": True,
        "device": _in_words(wishes.device or next(inventory.model.parameters()).device),
        "where": where_in(sys._getframe()),
    }
    if inventory.has_bfloat16() and not session.stages:
        message["bfloat16"] = True
    if inventory.frozen:
        message["frozen"] = frozen.message(with_digests=session.role == "worker")
    if session.role == "probe" and (named := peft_names(inventory)) is not None:
        message["trained_names"], message["adapter_config"] = named
    if session.role == "probe" and (session.card_memory or session.stages and session.profile == 0):
        free = free_memory_in_turn(wishes.device or next(inventory.model.parameters()).device)
        if free:
            message["free_memory"] = free
    elif session.card_memory:
        own = own_card_memory(wishes.device or next(inventory.model.parameters()).device)
        if own is not None:
            message["card_memory"] = own
    card = _card_of(inventory) if wishes.processes == 1 and not session.stages else None
    if card is not None:
        cuda = driver()
        words = cuda.offers_words(inventory.entries[0].tensor.device)
        cards = count_at_first(len(cuda.cards()))
        message["memory"] = {"kind": CUDA, "device": card, "cards": cards, "words": words}
    if wishes.evaluate is None:
        message["evaluates"] = False
    if isinstance(train_set, Stream):
        message["in_order"] = True
        message["open_end"] = train_set.open_end
        message["data_order"] = [list(part) for part in train_set.data_order()]
    if inventory.aliases:
        message["aliases"] = [list(pair) for pair in inventory.aliases]
    asked = {
        "batch": wishes.batch_size and min(wishes.batch_size, max(samples, _MOST_BATCH)),
        "epochs": wishes.epochs,
        "digest": wishes.digest or digest_of(train_set),
        "least_batch": wishes.least_batch,
        "drop_last": wishes.drop_last or None,
        "least_share": _least_share(inventory.model, wishes.processes),
    }
    message.update({key: value for key, value in asked.items() if value is not None})
    state = _state_of(wishes.optimizer, inventory)
    behind = state.behind if state else {}
    optimizer = read_optimizer(wishes.optimizer, inventory, wishes.schedule is not None, wishes.clip, behind)
    if optimizer:
        message["optimizer"] = optimizer
    if state is not None and state.steps > 0:
        message["optimizer_state"] = state.message()
    elif state is not None and session.role == "probe":
        message["note"] = f"{message['where']}: {state.not_taken}"
    elif wishes.optimizer is None and session.role == "probe" and (line := not_given(inventory)):
        message["note"] = f"{message['where']}: {line}"
    # Only a probe's is read. The scheduler is stepped through the whole job for it.
    if wishes.schedule is not None and session.role == "probe":
        schedule = _schedule(session, samples, wishes)
        if schedule is not None:
            message["schedule"] = schedule
    return message


def _state_of(optimizer: Any, inventory: Inventory) -> OptimizerState | None:
    """None also if join() cannot take what it was given as an optimizer, which read_optimizer() says."""
    return read_state(optimizer, inventory) if hasattr(optimizer, "param_groups") else None


def _card_of(inventory: Inventory) -> str | None:
    """The UUID of the card that has the whole model, if weights and gradients can lie in its memory."""
    devices = {entry.tensor.device for entry in [*inventory.entries, *inventory.frozen]}
    return card_that_shares(devices.pop()) if len(devices) == 1 else None


def _least_share(model: nn.Module, processes: int) -> int | None:
    """Batch norm cannot train on one value. So no device gets a single sample, however slow it is."""
    normed = any(isinstance(module, _BatchNorm) and module.training for module in model.modules())
    return 2 * processes if normed else None


def _in_words(device: torch.device) -> str:
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


def _epochs(session: Session, wishes: Wishes) -> float:
    return float(wishes.epochs or session.settings.get("epochs") or DEFAULT_EPOCHS)


def _batch(session: Session, wishes: Wishes) -> float:
    return wishes.batch_size or session.settings.get("batch") or DEFAULT_BATCH


def _guard(session: Session, samples: int, wishes: Wishes) -> OptimizerGuard:
    per = wishes.schedule_per
    length = None if wishes.schedule is None else length_of(per, *_counts(session, samples, wishes))
    return OptimizerGuard(wishes.optimizer, wishes.scaler, wishes.schedule, per != "step", length)


def _schedule(session: Session, samples: int, wishes: Wishes) -> dict[str, Any] | None:
    counts = _counts(session, samples, wishes)
    batch = _batch(session, wishes)
    return read_schedule(wishes.optimizer, wishes.schedule, wishes.schedule_per, *counts, batch)


def _counts(session: Session, samples: int, wishes: Wishes) -> tuple[float, int, int]:
    """The job's epochs, the samples of an epoch, and those of a full commit."""
    batch = _batch(session, wishes)
    if wishes.drop_last and samples >= batch:
        samples -= int(samples % batch)
    return _epochs(session, wishes), samples, session.round(batch)
