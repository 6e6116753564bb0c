"""A worker of several processes, each with a GPU of its own: they compute each batch together.

The first process, the leader, is the worker's program as ever. The others, its followers, run the same script. The
leader tells them of each step over a socket, in the words of docs/program.md. Weights and gradients go through
torch.distributed.

No process begins a collective before all have said that they are here. If a process fails before that, its message
or its end shows it, and no process waits for it in vain.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .binding import Runs, dense
from .channel import Message
from .devices import instances
from .errors import PacelineError
from .frozen import Frozen
from .inventory import CONSTANT, PARAMETER, STATISTIC, Entry, Inventory
from .measures import finite
from .micro_batches import MicroBatches
from .parent_death import die_with
from .session import Session

Part = tuple[int, ...]


def part_of(samples: Sequence[int], rank: int, processes: int) -> Part:
    """Nearly equal parts; where there are not enough samples the last ones are empty."""
    size, more = divmod(len(samples), processes)
    begin = rank * size + min(rank, more)
    return tuple(int(index) for index in samples[begin : begin + size + (rank < more)])


class Team(ABC):
    """The requests of a job to the processes of its worker."""

    def __init__(self, inventory: Inventory, frozen: Frozen, device: torch.device, rank: int, processes: int) -> None:
        self._entries = inventory.entries
        self._frozen = inventory.frozen
        self._digests = frozen.digests
        self._spread: set[str] = set()  # frozen tensors that were not the same in all processes
        self._device = device
        self._rank = rank
        self._processes = processes
        self._connected = False
        self._constants_spread = False

    @abstractmethod
    def share(self, step: Message) -> Part:
        """A step begins: the samples of this process."""

    @abstractmethod
    def own_part(self, samples: Part) -> Part:
        """This process's samples of a batch that is expected."""

    @abstractmethod
    def expect(self, batches: list[Any]) -> None:
        """Batches that will probably come."""

    @abstractmethod
    def share_last(self, message: Message) -> None:
        """The leader has the job's last weights."""

    @abstractmethod
    def spread_weights(self) -> None:
        """All have the leader's weights from now on."""

    @abstractmethod
    def average(self, micro: MicroBatches) -> bool:
        """Gradients, statistics, loss and metrics are the batch's from now on. True if anybody skips it."""

    @abstractmethod
    def end(self, message: Message) -> None:
        """The job is over."""

    # The collectives.

    def _gpu(self) -> str | None:
        """Its name in all processes, whichever of the host's GPUs each can see."""
        if self._device.type != "cuda" or instances(os.environ):  # NCCL connects no MIG instances
            return None
        known = torch.cuda.get_device_properties(self._device)
        return str(getattr(known, "uuid", self._device))  # PyTorch before 2.4 says no UUID

    def _connect(self, meeting: str, backend: str) -> None:
        if dist.is_initialized():
            raise PacelineError(
                "the program has started torch.distributed by itself; join(processes=...) does that, leave it out"
            )
        # All processes are on this host.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = dist.FileStore(meeting, self._processes)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=self._rank, world_size=self._processes)
        self._connected = True

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            dist.destroy_process_group()

    @torch.no_grad()
    def _broadcast_weights(self) -> None:
        """Tensors of one type at a time. Constants are spread once, as everybody's start."""
        by_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for entry in self._entries:
            if entry.kind != CONSTANT or not self._constants_spread:
                by_type.setdefault(entry.dtype, []).append(entry.tensor.detach())
        self._constants_spread = True
        for tensors in by_type.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors]).to(self._device)
            dist.broadcast(flat.view(torch.uint8), 0)
            if self._rank > 0:
                for tensor, part in _parts(flat, tensors):
                    tensor.copy_(part)
        for entry in self._frozen:
            if entry.name in self._spread:
                held = entry.tensor.detach()
                whole = held.to(self._device, copy=False).contiguous()
                dist.broadcast(whole.reshape(-1).view(torch.uint8), 0)
                if self._rank > 0:
                    held.copy_(whole)
        self._spread.clear()

    @torch.no_grad()
    def _sum(self, share: float) -> None:
        """Means over parts of the batch become the mean over all of it."""
        for kind in (PARAMETER, STATISTIC):
            entries = [entry for entry in self._entries if entry.kind == kind]
            if not entries:
                continue
            values = [_value(entry) for entry in entries]
            flat = torch.cat([value.reshape(-1).to(self._device, torch.float32) for value in values])
            mean = _mean_of_statistics(flat, share) if kind == STATISTIC else _summed(flat.mul_(share))
            for (value, part), entry in zip(_parts(mean, values), entries):
                value.copy_(part)
                if kind == PARAMETER and entry.tensor.requires_grad:
                    _set_gradient(entry.tensor, value)


def _summed(values: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(values)
    return values


def _mean_of_statistics(own: torch.Tensor, share: float) -> torch.Tensor:
    """A number that all processes have stays: their shares need not add up to 1 in float32."""
    mean, least, most = _summed(own * share), own.clone(), own.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return torch.where(least == most, own, mean)


def _value(entry: Entry) -> torch.Tensor:
    if entry.kind == STATISTIC:
        return entry.tensor.detach()
    gradient = dense(entry.tensor.grad)
    return torch.zeros_like(entry.tensor) if gradient is None else gradient.detach()


def _set_gradient(parameter: torch.Tensor, value: torch.Tensor) -> None:
    now = parameter.grad
    if now is None or now.data_ptr() != value.data_ptr():
        parameter.grad = value


def _parts(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    split = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [(tensor, part.view(tensor.shape)) for tensor, part in zip(tensors, split)]


class Follower(Team):
    def __init__(self, session: Session, inventory: Inventory, frozen: Frozen, device: torch.device) -> None:
        super().__init__(inventory, frozen, device, session.rank, session.processes)
        self._channel = session.channel
        self._meeting = session.meeting
        die_with(session.leader)  # a collective would wait for a leader that was killed

    def share(self, step: Message) -> Part:
        self._meet_first()
        return self.own_part(tuple(step["samples"]))

    def share_last(self, message: Message) -> None:
        self._meet_first()

    def _meet_first(self) -> None:
        if self._connected:
            return
        own = [entry.message() for entry in [*self._entries, *self._frozen]]
        answer = self._meet({"tensors": own, "frozen": self._digests(), "gpu": self._gpu()})
        self._spread = set(answer["spread"])
        self._connect(self._meeting, str(answer["backend"]))

    def own_part(self, samples: Part) -> Part:
        return samples

    def expect(self, batches: list[Any]) -> None:
        pass

    def spread_weights(self) -> None:
        self._meet({})
        self._broadcast_weights()

    def average(self, micro: MicroBatches) -> bool:
        said = {
            "loss": finite(float(micro.loss)),
            "metrics": micro.metrics,
            "skipped": micro.skipped,
            "weight": micro.weight,
        }
        answer = self._meet(said)
        self._sum(float(answer["share"]))
        return bool(answer["skipped"])

    def end(self, message: Message) -> None:
        self._disconnect()

    def _meet(self, said: Message) -> Message:
        self._channel.write({"type": "here", **said})
        answer = self._channel.read()
        if answer is None or answer["type"] != "go":
            raise SystemExit("paceline: the first process of this worker has ended")
        return answer


class FollowersBinding:
    """A follower's model has memory of its own."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def bind(self, weights: Runs) -> None:
        pass

    def before(self, gradients: Runs) -> None:
        pass

    def hand_out(self) -> None:
        for entry in self._inventory.entries:
            if entry.kind == PARAMETER:
                entry.tensor.grad = None

    def finish(self) -> bool:
        self._inventory.check_unchanged()
        self.hand_out()
        return False

    def shared_at(self, address: int) -> str | None:
        return None

    def forget(self) -> None:
        pass

    def release(self) -> None:
        pass
