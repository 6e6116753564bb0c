"""Stages of a pipeline that this process computes: forward and backward passes over micro-batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from .binding import check_trainable, dense
from .channel import Message
from .cuts import Cuts, Loss
from .errors import PacelineError
from .inventory import PARAMETER, STATISTIC, Inventory
from .loading import Load
from .measures import finite, number
from .measures import metrics as checked
from .memories import Memories
from .micro_batches import Part, cut
from .seeding import seed_step
from .stage_forward import Ended, StageForward
from .stage_message import read_message, write_message

KINDS = ("stage", "forward", "backward", "finish", "leave")


@dataclass
class _Pass:
    """A micro-batch between its forward and its backward pass."""

    received: list[torch.Tensor]
    outputs: list[torch.Tensor]


@dataclass
class _Stage:
    """An iteration of a stage of units [begin, end)."""

    begin: int
    end: int
    first: int  # the first of its blocks
    last: int
    message: Message
    parts: list[Part]
    own: list[int]  # entries that it writes
    views: dict[int, torch.Tensor]  # key: entry; the servers read its gradient or its statistic there
    statistics: dict[int, torch.Tensor]  # key: entry; the value that this stage computed
    passes: dict[int, _Pass] = field(default_factory=dict)
    computed: set[int] = field(default_factory=set)  # micro-batches; other devices of the stage compute others
    sums: dict[int, torch.Tensor] = field(default_factory=dict)  # key: entry; the sum of its gradients so far
    metrics: dict[str, float] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)  # the share of the samples that each metric is of

    def share(self, micro: int) -> float:
        return len(self.parts[micro]) / len(self.message["samples"])


class Stages:
    def __init__(
        self,
        model: Any,
        inventory: Inventory,
        memories: Memories,
        loss: Loss,
        cuts: Cuts,
        get: Callable[[Load], Any],
        bind: Callable[[Message], None],
        device: torch.device,
    ) -> None:
        self._model = model
        self._inventory = inventory
        self._memories = memories
        self._loss = loss
        self._cuts = cuts
        self._get = get
        self._bind = bind
        self._device = device
        self._stages: dict[int, _Stage] = {}

    def serve(self, message: Message) -> Message | None:
        """The answer; None if the message wants none."""
        kind, name = message["type"], int(message["stage"])
        if kind == "stage":
            self._stages[name] = self._started(message)
            return {"type": "done"}
        if kind == "leave":
            self._stages.pop(name, None)
            return None
        stage = self._stages.get(name)
        if stage is None:
            raise PacelineError(f"Paceline sent {kind!r} to stage {name}, which has not begun")
        if kind == "forward":
            return self._forward(stage, int(message["micro"]), message["bytes"])
        if kind == "backward":
            return self._backward(stage, int(message["micro"]), message["bytes"])
        return self._finished(stage)

    def _started(self, message: Message) -> _Stage:
        begin, end = (int(unit) for unit in message["units"])
        units = self._cuts.units[begin:end]
        self._bind(message)
        own = sorted(index for unit in units for index in unit.tensors)
        stage = _Stage(
            begin=begin,
            end=end,
            first=units[0].first,
            last=units[-1].last,
            message=message,
            parts=cut(tuple(int(index) for index in message["samples"]), message["micro_batch"]),
            own=own,
            views=self._views(message, set(own)),
            statistics={
                index: entry.tensor.detach().clone()
                for index, entry in enumerate(self._inventory.entries)
                if entry.kind == STATISTIC
            },
        )
        for view in stage.views.values():
            view.zero_()
        return stage

    def _views(self, message: Message, own: set[int]) -> dict[int, torch.Tensor]:
        views = {}
        for span in self._memories.spans(message["gradients"]):
            for index in own.intersection(range(span.first, span.last)):
                entry = self._inventory.entries[index]
                views[index] = self._memories.view(span, index, entry.count, torch.float32).view(entry.shape)
        return views

    def _forward(self, stage: _Stage, micro: int, size: int | None) -> Message:
        part = stage.parts[micro]
        seed = int(stage.message["seed"]) + micro
        batch = self._get(Load(part, int(stage.message["augment_seed"])))
        received = self._read(stage, size)
        seed_step(seed, self._device)
        loss = None
        forward = StageForward(self._cuts.seams, stage.first, stage.last, received, seed, self._device)
        try:
            with self._own_statistics(stage), forward:
                result = self._loss(self._model, batch)
            value, metrics, *weight = result if isinstance(result, tuple) else (result, None)
            if weight and weight[0] is not None:
                raise PacelineError(
                    "a pipeline weighs batches by their samples: return the loss and its metrics alone, or "
                    'write parallel = "data" in the job'
                )
            outputs = [value]
            loss = number(value, "the loss")
            self._measured(stage, stage.share(micro), checked(metrics))
        except Ended as ended:
            outputs = ended.tensors
        stage.passes[micro] = _Pass(received, outputs)
        stage.computed.add(micro)
        if loss is not None:
            return {"type": "passed", "bytes": 0, "loss": finite(loss)}
        return {"type": "passed", "bytes": self._write(stage, outputs)}

    def _backward(self, stage: _Stage, micro: int, size: int | None) -> Message:
        done = stage.passes.pop(micro)
        entries = self._inventory.entries
        arrived = self._read(stage, size)
        is_last = stage.end == len(self._cuts.units)
        # Gradients also come for parameters that this stage or an earlier one shares with later stages.
        shared = [index for index, units in self._cuts.shared.items() if units[0] < stage.end <= units[-1]]
        roots, gradients = list(done.outputs), list(arrived[: len(done.outputs)])
        if is_last:
            gradients = [torch.ones_like(done.outputs[0])]
        roots += [entries[index].tensor for index in shared]
        gradients += arrived[len(done.outputs) :]
        pairs = [
            (root, gradient)
            for root, gradient in zip(roots, gradients)
            if gradient is not None and root.requires_grad
        ]
        for entry in entries:
            if entry.kind == PARAMETER:
                entry.tensor.grad = None
        seed = int(stage.message["seed"]) + micro
        forward = StageForward(self._cuts.seams, stage.first, stage.last, done.received, seed, self._device)
        with forward.recompute():
            if pairs:
                torch.autograd.backward([root for root, _ in pairs], [gradient for _, gradient in pairs])
        self._collect(stage, micro)
        if stage.begin == 0:
            return {"type": "passed", "bytes": 0}
        before = [index for index, units in self._cuts.shared.items() if units[0] < stage.begin <= units[-1]]
        sent = [leaf.grad for leaf in done.received] + [dense(entries[index].tensor.grad) for index in before]
        return {"type": "passed", "bytes": self._write(stage, sent)}

    @torch.no_grad()
    def _collect(self, stage: _Stage, micro: int) -> None:
        """Adds up as MicroBatches does it, in the same order: the sum has the same bits."""
        for index in stage.own:
            entry = self._inventory.entries[index]
            gradient = dense(entry.tensor.grad) if entry.kind == PARAMETER else None
            if gradient is None:
                continue
            part = gradient.detach() * stage.share(micro) if len(stage.parts) > 1 else gradient.detach()
            if index in stage.sums:
                stage.sums[index].add_(part)
            elif entry.dtype == torch.float32:  # the sum is made in the place that the servers read
                stage.sums[index] = stage.views[index].copy_(part)
            else:
                stage.sums[index] = part
            entry.tensor.grad = None

    def _finished(self, stage: _Stage) -> Message:
        self._inventory.check_unchanged()
        check_trainable(self._inventory)
        with torch.no_grad():
            for index, view in stage.views.items():
                if index in stage.sums and stage.sums[index] is not view:
                    view.copy_(stage.sums[index])
                elif index in stage.statistics:
                    view.copy_(stage.statistics[index])
                    if len(stage.computed) < len(stage.parts):  # the devices of the stage add up their parts
                        view.mul_(sum(stage.share(micro) for micro in stage.computed))
        stage.sums.clear()
        stage.passes.clear()
        return {"type": "finished", "metrics": stage.metrics}

    @contextlib.contextmanager
    def _own_statistics(self, stage: _Stage) -> Iterator[None]:
        """The model has this stage's statistics during its forward pass, as tensors that no later pass changes.

        An earlier micro-batch's backward pass may still need the tensors that its forward pass has written.
        """
        entries = [(self._inventory.entries[index], index) for index in stage.statistics]
        before = [entry.tensor for entry, _ in entries]
        for entry, index in entries:
            entry.module._buffers[entry.key] = stage.statistics[index].clone()
        try:
            yield
        finally:
            for (entry, index), tensor in zip(entries, before):
                stage.statistics[index] = entry.tensor.detach()
                entry.module._buffers[entry.key] = tensor

    @staticmethod
    def _measured(stage: _Stage, share: float, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            before = stage.known.get(name, 0.0)
            stage.known[name] = before + share
            stage.metrics[name] = (before * stage.metrics.get(name, 0.0) + share * value) / stage.known[name]

    def _read(self, stage: _Stage, size: int | None) -> list[Any]:
        return [] if size is None else read_message(self._memories.numbered(int(stage.message["in"])), size)

    def _write(self, stage: _Stage, tensors: list[Any]) -> int:
        return write_message(self._memories.numbered(int(stage.message["out"])), tensors)
