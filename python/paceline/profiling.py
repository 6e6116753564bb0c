"""Measurements of a program's model on this machine: times, messages and memory of each unit for a few micro-batches.

The program's own loss function computes them. Times are those of the units within passes of the whole model; memory
and messages are those of each unit as a stage of its own. Nothing is trained.
"""

from __future__ import annotations

import contextlib
import copy
import statistics
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from .absent_weights import places_of
from .binding import dense
from .channel import Message
from .cuts import Cuts, Loss, Unit
from .errors import PacelineError
from .inventory import Inventory
from .kept_memory import KeptMemory
from .memory_short import ending_without_memory
from .moving import to_device
from .seeding import seed_step
from .stage_forward import Ended, StageForward
from .unit_clock import UnitClock
from .unit_placement import UnitPlacement
from .unit_weights import weights_of_units

_SEED = 1
# Passes of a unit for each size: at least so many, and more as long as they take less than these seconds.
_LEAST_PASSES, _MOST_PASSES, _SECONDS = 3, 40, 0.7
_MOST_SIZES = 6
# If the largest micro-batch so far has taken more seconds, no larger one is measured.
_MOST_SECONDS = 4.0


def sizes_up_to(most: int, least: int, samples: int) -> list[int]:
    """Sizes of micro-batches: the largest, its half, a quarter and so on, as times may be no line over the size."""
    most = min(max(most, least), samples)
    sizes = {max(least, most >> halved) for halved in range(_MOST_SIZES)} if least <= most else {most}
    if len(sizes) == 1:
        sizes.add(min(2 * most, samples))
    return sorted(sizes)


def profile(
    model: Any,
    inventory: Inventory,
    loss: Loss,
    cuts: Cuts,
    get: Callable[[int], Any],
    device: torch.device,
    sizes: list[int],
) -> Message:
    """The `profile` of a model message. get(n): a batch of n samples. device: where to measure; weights go there."""
    measuring = _Measuring(model, inventory, loss, cuts, get, device)
    with measuring.gradients_added_up_early():
        sizes = sizes[: measuring.measure_times(sizes)]
        measuring.measure_memory(sizes)
        whole = measuring.whole(sizes[-1])
    return {
        "model": type(inventory.model).__name__,
        "threads": torch.get_num_threads(),
        "micro_batches": sizes,
        "units": [
            {"name": unit.name, **weights, "returned_bytes": unit.extra_bytes, **vars(measured)}
            for unit, weights, measured in zip(cuts.units, weights_of_units(inventory, cuts), measuring.units)
        ],
        "whole": whole,
    }


def compute_beside(
    model: Any,
    inventory: Inventory,
    loss: Loss,
    cuts: Cuts,
    get: Callable[[int], Any],
    device: torch.device,
    sizes: list[int],
    is_over: Callable[[], bool],
) -> None:
    """Computes the largest micro-batches, as another device of this host does, while another process measures."""
    measuring = _Measuring(model, inventory, loss, cuts, get, device)
    with measuring.gradients_added_up_early(), measuring.placement.placed(None):
        stage = measuring.one_piece(sizes[-1])
        while not is_over():
            stage.compute()


@dataclass
class _Measured:
    forward_ms: list[float] = field(default_factory=list)  # for each size
    backward_ms: list[float] = field(default_factory=list)
    sent_bytes: int = 0  # to the next unit, for one sample
    # Memory from the forward to the backward pass: for each sample, and whatever their number is.
    kept_bytes: int = 0
    kept_fixed_bytes: int = 0
    # Memory that comes and goes during a micro-batch: for each sample, and whatever its size.
    working_bytes: int = 0
    working_fixed_bytes: int = 0
    peak_bytes: int | None = None  # the most memory of one micro-batch, beside the weights


@dataclass
class _Passed:
    outputs: list[torch.Tensor]
    forward_ms: float
    backward_ms: float


class _Measuring:
    def __init__(
        self,
        model: Any,
        inventory: Inventory,
        loss: Loss,
        cuts: Cuts,
        get: Callable[[int], Any],
        device: torch.device,
    ) -> None:
        self.units = [_Measured() for _ in cuts.units]
        self.computing: _Stage | None = None  # the stage whose backward pass is under way
        self.placement = UnitPlacement(inventory, device)
        self._model = model
        self._loss = loss
        self._cuts = cuts
        self._get = get
        self._device = device
        self._root = inventory.model
        self._parameters = list(inventory.model.parameters())
        modules = {one for block in cuts.seams.blocks for one in block.module.modules()}
        self._outside = [place for place in places_of(inventory.model, inventory) if not place.is_in(modules)]

    def measure_memory(self, sizes: list[int]) -> None:
        # Each unit's memory for the smallest and the largest size.
        keeps: list[list[int]] = [[] for _ in self.units]
        working: list[list[int]] = [[] for _ in self.units]
        for size in (sizes[0], sizes[-1]):
            batch = to_device(self._get(size), self._device)
            received: list[torch.Tensor] = []
            for unit, measured, kept, needs in zip(self._cuts.units, self.units, keeps, working):
                with self.placement.placed(unit.weights):
                    stage = _Stage(self, unit, batch, received)
                    kept.append(stage.kept_bytes())
                    measured.peak_bytes = _peak_bytes(stage.compute, self._device)
                    needs.append(max(0, (measured.peak_bytes or 0) - kept[-1]))
                    received = stage.compute().outputs
                if unit is not self._cuts.units[-1]:
                    measured.sent_bytes = -(-sum(_bytes(one) for one in received) // size)
        for measured, kept in zip(self.units, keeps):
            measured.kept_bytes, measured.kept_fixed_bytes = _for_each_and_fixed(sizes, kept)
        for measured, (least, most) in zip(self.units, working):
            if sizes[-1] > sizes[0]:
                measured.working_bytes = max(0, -(-(most - least) // (sizes[-1] - sizes[0])))
            measured.working_fixed_bytes = max(0, most - measured.working_bytes * sizes[-1])

    def measure_times(self, sizes: list[int]) -> int:
        """How many of the sizes it has measured: larger ones have no room, or take too long."""
        for done, size in enumerate(sizes):
            began = time.perf_counter()
            found = None
            with ending_without_memory():
                found = self._times_in_one_piece(size) or self._times_alone(size)
            if found is None and done == 0:
                raise PacelineError(
                    f"a unit of the model has no room on {self._device} with {size} samples; write a smaller "
                    "--micro-batch, measure it on a GPU that has room, or leave device= out"
                )
            if found is None:
                return done
            for measured, (forward, backward) in zip(self.units, found):
                measured.forward_ms.append(forward)
                measured.backward_ms.append(backward)
            if time.perf_counter() - began > _LEAST_PASSES * _MOST_SECONDS:
                return done + 1
        return len(sizes)

    def _times_in_one_piece(self, size: int) -> list[tuple[float, float]] | None:
        """None if the device has too little memory for the whole model, or its units' times cannot be told apart."""
        clocks: list[tuple[list[float], list[float]] | None] = []

        def compute(stage: _Stage) -> _Passed:
            clock = UnitClock(self._cuts.seams, self._cuts.units, self._device)
            passed = stage.compute(clock)
            clocks.append(clock.times())
            return passed

        known = []
        with ending_without_memory(), self.placement.placed(None):
            stage = self.one_piece(size)
            _repeated(lambda: compute(stage))
            known = [one for one in clocks[1:] if one is not None]
        if not known:
            return None
        return [
            (_typical(forward[unit] for forward, _ in known), _typical(backward[unit] for _, backward in known))
            for unit in range(len(self.units))
        ]

    def _times_alone(self, size: int) -> list[tuple[float, float]]:
        """Times of each unit as a stage of its own. Their sum is more than the time of the whole model.

        Each stage stands in for the blocks that it does not compute, and computes again what lies before them.
        """
        batch = to_device(self._get(size), self._device)
        received: list[torch.Tensor] = []
        found = []
        for unit in self._cuts.units:
            with self.placement.placed(unit.weights):
                stage = _Stage(self, unit, batch, received)
                received = stage.compute().outputs
                passes = _repeated(stage.compute, _SECONDS / len(self.units))
            found.append((_typical(one.forward_ms for one in passes), _typical(one.backward_ms for one in passes)))
        return found

    def whole(self, size: int) -> dict[str, Any] | None:
        """The same of the whole model in one piece. None if its device has too little memory for that."""
        with ending_without_memory(), self.placement.placed(None):
            stage = self.one_piece(size)
            peak = _peak_bytes(stage.compute, self._device)
            passes = _repeated(stage.compute)
            return {
                "forward_ms": _typical(one.forward_ms for one in passes),
                "backward_ms": _typical(one.backward_ms for one in passes),
                "peak_bytes": peak,
            }
        return None

    def one_piece(self, size: int) -> _Stage:
        weights = self._cuts.weights(0, len(self._cuts.units))
        unit = Unit(0, len(self._cuts.seams.blocks), "the whole model", weights=weights)
        return _Stage(self, unit, to_device(self._get(size), self._device), [])

    @contextmanager
    def gradients_added_up_early(self) -> Iterator[None]:
        """A stage adds up each gradient as soon as its backward pass has it, if PyTorch can say so (2.1)."""
        handles = []
        for index, parameter in enumerate(self._parameters):
            hook: Any = getattr(parameter, "register_post_accumulate_grad_hook", None)
            if hook is not None and parameter.requires_grad:
                handles.append(hook(lambda one, index=index: self._add_to_computing(index, one)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _add_to_computing(self, index: int, parameter: Any) -> None:
        if self.computing is not None:
            self.computing.add_up(index, parameter)


class _Stage:
    """A unit with a micro-batch that it can compute as often as wanted."""

    def __init__(self, of: _Measuring, unit: Unit, batch: Any, received: list[torch.Tensor]) -> None:
        self._of = of
        self._batch = batch
        self._received = received
        self._sums: dict[int, torch.Tensor] = {}
        self._forward = StageForward(
            of._cuts.seams,
            unit.first,
            unit.last,
            device=of._device,
            absent=[place for place in of._outside if place.number not in unit.weights],
        )

    def compute(self, clock: UnitClock | None = None, hold: Callable[[Any], Any] | None = None) -> _Passed:
        """A forward and a backward pass. The gradients are added up, as a stage does it.

        hold() is called with every tensor that a stage holds from one pass to the other, but not with its outputs.
        """
        batch = copy.deepcopy(self._batch)  # the program may change it
        received = [one.detach().clone().requires_grad_(one.requires_grad) for one in self._received]
        seed_step(_SEED, self._of._device, self._of._cuts.seams.others_draw)
        passing = self._forward.begin_with(received, _SEED)
        began = self._now()
        try:
            with passing, clock.forward() if clock else contextlib.nullcontext(), _saved(hold):
                result = self._of._loss(self._of._model, batch)
            outputs = [result[0] if isinstance(result, tuple) else result]
        except Ended as ended:
            outputs = ended.tensors
        if hold:
            for one in received:
                hold(one)
        forward = self._now() - began
        roots = [one for one in outputs if one.requires_grad]
        gradients = [torch.ones_like(root) for root in roots]
        sent = [one.detach().requires_grad_(one.requires_grad) for one in outputs]
        began = self._now()
        with clock.backward() if clock else contextlib.nullcontext():
            if roots:
                self._of.computing = self
                try:
                    with passing.begin_with(received, _SEED).recompute():
                        torch.autograd.backward(roots, gradients)
                finally:
                    self._of.computing = None  # otherwise a pass that had no memory would keep its sums
            for index, parameter in enumerate(self._of._parameters):
                self.add_up(index, parameter)
        return _Passed(sent, 1000 * forward, 1000 * (self._now() - began))

    def kept_bytes(self) -> int:
        """The memory that a stage keeps between the two passes, without its outputs: the next unit keeps those."""
        kept = KeptMemory(self._of._root)
        for output in self.compute(hold=kept.keep).outputs:
            kept.leave_out(output)
        return kept.bytes

    def _now(self) -> float:
        if self._of._device.type == "cuda":
            torch.cuda.synchronize(self._of._device)
        return time.perf_counter()

    @torch.no_grad()
    def add_up(self, index: int, parameter: Any) -> None:
        gradient = dense(parameter.grad)
        parameter.grad = None
        if gradient is None:
            return
        if index in self._sums:
            self._sums[index].add_(gradient)
        else:
            self._sums[index] = gradient


def _for_each_and_fixed(sizes: list[int], kept: list[int]) -> tuple[int, int]:
    """Bytes for each sample and of each micro-batch, with which no measured size keeps more."""
    if sizes[-1] == sizes[0]:
        return -(-kept[-1] // sizes[-1]), 0
    each = max(0, -(-(kept[-1] - kept[0]) // (sizes[-1] - sizes[0])))
    return each, max(0, kept[0] - each * sizes[0])


def _saved(hold: Callable[[Any], Any] | None) -> Any:
    """A context in which hold() is called with what autograd saves."""
    return torch.autograd.graph.saved_tensors_hooks(hold, lambda one: one) if hold else contextlib.nullcontext()


def _typical(times: Iterable[float]) -> float:
    """The median. A training takes as long as its usual passes, and the shortest one is shorter than those."""
    return statistics.median(times)


def _repeated(compute: Callable[[], _Passed], seconds: float = _SECONDS) -> list[_Passed]:
    """Several passes, after one that also prepares what later ones find."""
    compute()
    begin = time.perf_counter()
    passes: list[_Passed] = []
    while len(passes) < _LEAST_PASSES or (len(passes) < _MOST_PASSES and time.perf_counter() - begin < seconds):
        passes.append(compute())
    return passes


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _peak_bytes(compute: Callable[[], Any], device: torch.device) -> int | None:
    """The most memory that PyTorch took at a time, beside what it had before. None if it does not tell."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        compute()
        return torch.cuda.max_memory_allocated(device) - before
    with _allocations() as sizes:
        compute()
    now = most = 0
    for size in sizes:
        now += size
        most = max(most, now)
    return most or None


@contextmanager
def _allocations() -> Iterator[list[int]]:
    """Bytes of every allocation on the CPU in order, negative where memory is freed. Empty if PyTorch is silent."""
    sizes: list[int] = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        yield sizes
    try:
        events: Any = recorded.profiler.kineto_results.events()
        memory = [event for event in events if event.name() == "[memory]"]
        sizes += [event.nbytes() for event in sorted(memory, key=lambda event: event.start_ns())]
    except AttributeError:  # another version of PyTorch names them otherwise
        return
