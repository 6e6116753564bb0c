"""Stages of a pipeline that this process computes: forward and backward passes over micro-batches."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from .absent_weights import places_of
from .binding import check_trainable, dense, has_own_memory
from .channel import Message
from .checkpointed_norms import CheckpointedNorms
from .cuts import Cuts, Loss
from .errors import PacelineError
from .inventory import PARAMETER, STATISTIC, Inventory
from .loading import Load
from .measures import finite, number, weight_of
from .measures import metrics as checked
from .memories import Memories
from .memory_short import Computing, is_out_of_memory, out_of_memory, set_free
from .micro_batches import Part, cut, scaled_at_end
from .moving import to_device
from .seeding import seed_step
from .stage_forward import Ended, StageForward
from .stage_message import read_message, write_message
from .stubs import StubUsed

PASSES = ("forward", "backward", "forward_backward")
KINDS = ("stage", *PASSES, "finish", "leave")


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
    message: Message
    parts: list[Part]
    own: list[int]  # entries that it writes
    passing: StageForward
    views: dict[int, torch.Tensor]  # for each entry, the place where the servers find the gradient or the statistic
    statistics: dict[int, torch.Tensor]  # for each entry, the values of this stage
    passes: dict[int, _Pass] = field(default_factory=dict)
    computed: set[int] = field(default_factory=set)  # micro-batches; other devices of the stage compute others
    sums: dict[int, torch.Tensor] = field(default_factory=dict)  # for each entry, the gradient so far
    metrics: dict[str, float] = field(default_factory=dict)
    known: dict[str, float] = field(default_factory=dict)  # the share that each metric is of
    weights: dict[int, float] = field(default_factory=dict)  # weights of micro-batches, if the program gives them any
    loss: float = 0.0  # mean of the micro-batches, if they have weights; in the last stage

    scaled_at_end: bool = False  # the sums are those of gradients without their shares

    def share(self, micro: int) -> float:
        """The share of a micro-batch. With weights, the sums are divided by all of them at the end."""
        if len(self.parts) == 1:
            return 1.0
        return self.weights.get(micro, self.share_of_samples(micro))

    def share_of_samples(self, micro: int) -> float:
        return len(self.parts[micro]) / len(self.message["samples"])

    @property
    def weight(self) -> float:
        return sum(self.weights.values())


class Stages:
    def __init__(
        self,
        model: Any,
        inventory: Inventory,
        memories: Memories,
        loss: Loss,
        cuts: Cuts,
        get: Callable[[Load], Any],
        bind: Callable[[Message, set[int]], None],
        device: torch.device,
        recuts: bool = False,
    ) -> None:
        self._model = model
        self._inventory = inventory
        self._memories = memories
        self._loss = loss
        self._cuts = cuts
        self._get = get
        self._bind = bind
        self._device = device
        self._recuts = recuts
        modules = {one for block in cuts.seams.blocks for one in block.module.modules()}
        self._outside = [place for place in places_of(inventory.model, inventory) if not place.is_in(modules)]
        self._norms = CheckpointedNorms(inventory, cuts)
        self._collecting: tuple[_Stage, int] | None = None
        self._collects_early = _collected_early(inventory, cuts, self._collect_one)
        self._parameters = [entry.tensor for entry in inventory.entries if entry.kind == PARAMETER]
        self._stages: dict[int, _Stage] = {}
        self._out_of_memory: dict[int, Message] = {}  # the answer of each stage that was given up
        self.computing: Computing | None = None

    def serve(self, message: Message) -> Message | None:
        """The answer; None if the message wants none."""
        name = int(message["stage"])
        if message["type"] in ("stage", "leave"):
            self._out_of_memory.pop(name, None)
        if name in self._out_of_memory:  # the message was under way
            return self._out_of_memory[name]
        try:
            return self._served(message)
        except Exception as error:
            if not self._recuts or self.computing is None or not is_out_of_memory(error):
                raise
            said = out_of_memory(error, self.computing)
        self._out_of_memory[name] = said
        self._give_up(name)
        return said

    def _give_up(self, name: int) -> None:
        self._stages.pop(name, None)
        self.computing = None
        set_free(self._parameters, self._device)

    def _served(self, message: Message) -> Message | None:
        kind, name = message["type"], int(message["stage"])
        if kind == "stage":
            self._stages[name] = self._started(message)
            return {"type": "done"}
        if kind == "leave":
            self._stages.pop(name, None)
            if not self._stages:  # a stage may leave in the middle of an iteration
                self.computing = None
            return None
        stage = self._stages.get(name)
        if stage is None:
            raise PacelineError(f"Paceline sent {kind!r} to stage {name}, which has not begun")
        if kind in PASSES:
            return self._passed(stage, kind, int(message["micro"]), message["bytes"])
        self.computing = None
        return self._finished(stage)

    def _passed(self, stage: _Stage, kind: str, micro: int, size: int | None) -> Message:
        self.computing = Computing(stage.begin, stage.end, len(stage.parts[micro]), len(stage.parts))
        if kind == "backward":
            return self._backward(stage, micro, size)
        forward = self._forward(stage, micro, size)
        if kind == "forward":
            return forward
        return {**forward, **self._backward(stage, micro, None)}

    def _started(self, message: Message) -> _Stage:
        begin, end = (int(unit) for unit in message["units"])
        units = self._cuts.units[begin:end]
        self._stages.pop(int(message["stage"]), None)
        weights = self._cuts.weights(begin, end)
        parts = cut(tuple(int(index) for index in message["samples"]), message["micro_batch"])
        self.computing = Computing(begin, end, len(parts[0]), len(parts))
        self._bind(message, weights.union(*(self._cuts.weights(one.begin, one.end) for one in self._stages.values())))
        own = sorted(index for unit in units for index in unit.tensors)
        return _Stage(
            begin=begin,
            end=end,
            message=message,
            parts=parts,
            scaled_at_end=scaled_at_end(parts, [self._inventory.entries[index].dtype for index in own]),
            own=own,
            passing=StageForward(
                self._cuts.seams,
                units[0].first,
                units[-1].last,
                device=self._device,
                absent=[place for place in self._outside if place.number not in weights],
            ),
            views=self._views(message, set(own)),
            statistics={
                index: entry.tensor.detach().clone()
                for index, entry in enumerate(self._inventory.entries)
                if entry.kind == STATISTIC
            },
        )

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
        load = Load(part, int(stage.message["augment_seed"]), int(stage.message.get("epoch", 0)))
        batch = to_device(self._get(load), self._device)
        received = self._read(stage, size)
        seed_step(seed, self._device, self._cuts.seams.others_draw)
        loss = None
        forward = stage.passing.begin_with(received, seed)
        try:
            with self._own_statistics(stage), self._norms.counting(), forward:
                result = self._loss(self._model, batch)
            value, metrics, *weight = result if isinstance(result, tuple) else (result, None)
            outputs = [value]
            loss = number(value, "the loss")
            self._weigh(stage, micro, weight[0] if weight else None)
            if stage.weights.get(micro) == 0 and not math.isfinite(loss):  # a mean of nothing
                loss = 0.0
            stage.loss += stage.share(micro) * loss
            self._measured(stage, stage.share(micro), checked(metrics))
        except Ended as ended:
            outputs = ended.tensors
            # The pass ends before the program's own wait for a CUDA stream that may still compute these.
            self._memories.settle()
        except StubUsed as used:
            raise PacelineError(
                f"{used}, but not for the first two samples, which showed where the model can be cut; let the first "
                'samples take each branch of the model, or write parallel = "uneven-data"'
            ) from None
        stage.passes[micro] = _Pass(received, outputs)
        stage.computed.add(micro)
        if loss is not None:
            return {"type": "passed", "bytes": 0, "loss": finite(loss)}
        return {"type": "passed", "bytes": self._write(stage, outputs)}

    @staticmethod
    def _weigh(stage: _Stage, micro: int, weight: Any) -> None:
        if stage.computed and (weight is None) != (not stage.weights):
            raise PacelineError(
                "some micro-batches of this batch have a weight and others have none; return a weight for each"
            )
        if weight is not None:
            stage.weights[micro] = weight_of(weight)

    def _backward(self, stage: _Stage, micro: int, size: int | None) -> Message:
        done = stage.passes.pop(micro)
        entries = self._inventory.entries
        arrived = self._read(stage, size)
        is_last = stage.end == len(self._cuts.units)
        # The parameters that this stage or one before it shares with the stages behind this one.
        shared = [index for index, units in self._cuts.shared.items() if units[0] < stage.end <= units[-1]]
        roots, gradients = list(done.outputs), list(arrived[: len(done.outputs)])
        if is_last:
            gradients = [torch.ones_like(done.outputs[0])]
        roots += [entries[index].tensor for index in shared]
        gradients += arrived[len(done.outputs) : len(roots)]
        for weight in arrived[len(roots) :]:  # the last stage's word goes from stage to stage
            stage.weights[micro] = float(weight)
        pairs = [
            (root, gradient)
            for root, gradient in zip(roots, gradients)
            if gradient is not None and root.requires_grad
        ]
        for parameter in self._parameters:
            parameter.grad = None
        seed = int(stage.message["seed"]) + micro
        with stage.passing.begin_with(done.received, seed).recompute():
            if pairs:
                self._collecting = (stage, micro)
                try:
                    torch.autograd.backward([root for root, _ in pairs], [gradient for _, gradient in pairs])
                finally:
                    self._collecting = None
        del arrived, roots, gradients, pairs  # gradients of shared weights are as large as the weights
        self._collect(stage, micro)
        if stage.begin == 0:
            self._memories.settle()  # the worker measures the pass, and nothing else here waits for a GPU
            return {"type": "passed", "bytes": 0}
        before = [index for index, units in self._cuts.shared.items() if units[0] < stage.begin <= units[-1]]
        sent = [leaf.grad for leaf in done.received] + [dense(entries[index].tensor.grad) for index in before]
        if micro in stage.weights:
            sent.append(torch.tensor(stage.weights[micro], dtype=torch.float64, device="cpu"))
        return {"type": "passed", "bytes": self._write(stage, sent)}

    def _collect(self, stage: _Stage, micro: int) -> None:
        for index in stage.own:
            if self._inventory.entries[index].kind == PARAMETER and index not in self._collects_early:
                self._add(stage, micro, index, self._inventory.entries[index].tensor)

    def _collect_one(self, index: int, parameter: torch.Tensor) -> None:
        """A backward pass calls this for each gradient that it has, so it never holds all of them."""
        if self._collecting is not None:
            self._add(*self._collecting, index, parameter)

    @torch.no_grad()
    def _add(self, stage: _Stage, micro: int, index: int, parameter: torch.Tensor) -> None:
        """Adds up as MicroBatches does it, in the same order: the sum has the same bits."""
        gradient = dense(parameter.grad)
        if gradient is None:
            return
        if stage.weights.get(micro) == 0:  # a mean of nothing may be NaN, and so may its gradient
            parameter.grad = None
            return
        # In its own memory: there may be no room for another one of the largest gradient.
        part = gradient.detach() if has_own_memory(gradient) else gradient.detach().clone()
        if stage.weights or not stage.scaled_at_end:
            part.mul_(stage.share(micro))
        if index in stage.sums:
            stage.sums[index].add_(part)
        elif parameter.dtype == torch.float32 and parameter.device.type == "cpu":
            # The sum lies at once in the place that needs it in the end.
            stage.sums[index] = stage.views[index].copy_(part)
        else:
            stage.sums[index] = part
        parameter.grad = None

    def _finished(self, stage: _Stage) -> Message:
        self._inventory.check_unchanged()
        check_trainable(self._inventory)
        if stage.weights and len(stage.computed) < len(stage.parts):
            raise PacelineError(
                "several devices share a stage of this pipeline, which weighs micro-batches by their samples; return "
                "the loss and its metrics alone, or let one device compute each stage"
            )
        weight = stage.weight if len(stage.parts) > 1 else 0
        with torch.no_grad():
            for index, view in stage.views.items():
                if index in stage.sums:
                    if weight:
                        stage.sums[index].div_(weight)
                    if stage.sums[index] is not view:
                        view.copy_(stage.sums[index])
                    if stage.scaled_at_end and not stage.weights and len(stage.parts) > 1:
                        view.mul_(stage.share(0))
                elif index not in stage.statistics:
                    view.zero_()
                else:
                    self._inventory.entries[index].way.write(stage.statistics[index], view)
                    if len(stage.computed) < len(stage.parts):  # the devices of the stage add up their parts
                        view.mul_(sum(stage.share_of_samples(micro) for micro in stage.computed))
        stage.sums.clear()
        stage.passes.clear()
        answer: Message = {"type": "finished", "metrics": stage.metrics}
        if stage.weights and stage.end == len(self._cuts.units):
            answer["weight"] = stage.weight
            answer["loss"] = finite(stage.loss / (weight or 1.0))
        return answer

    @contextlib.contextmanager
    def _own_statistics(self, stage: _Stage) -> Iterator[None]:
        """The model has this stage's statistics during its forward pass, as tensors that no later pass changes.

        An earlier micro-batch's backward pass may still need the tensors that its forward pass has written.
        """
        entries = [(self._inventory.entries[index], index) for index in stage.statistics]
        before = [entry.tensor for entry, _ in entries]
        own = [stage.statistics[index].clone() for _, index in entries]
        for (entry, _), tensor in zip(entries, own):
            entry.module._buffers[entry.key] = tensor
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
            if stage.known[name] == 0:
                continue
            stage.metrics[name] = (before * stage.metrics.get(name, 0.0) + share * value) / stage.known[name]

    def _read(self, stage: _Stage, size: int | None) -> list[Any]:
        if size is None:
            return []
        return read_message(self._memories.file(int(stage.message["in"])), size, self._device)

    def _write(self, stage: _Stage, tensors: list[Any]) -> int:
        return write_message(self._memories.file(int(stage.message["out"])), tensors)


def _collected_early(inventory: Inventory, cuts: Cuts, collect: Callable[[int, torch.Tensor], None]) -> set[int]:
    """Calls collect(entry, parameter) whenever a backward pass has a parameter's gradient. The entries.

    Parameters whose gradient other stages want are none of them.
    """
    early = set()
    for index, entry in enumerate(inventory.entries):
        hook: Any = getattr(entry.tensor, "register_post_accumulate_grad_hook", None)  # PyTorch 2.1
        if entry.kind == PARAMETER and index not in cuts.shared and hook is not None:
            hook(lambda parameter, index=index: collect(index, parameter))
            early.add(index)
    return early
