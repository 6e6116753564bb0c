"""The places where a model can be cut into stages, found by computing one little batch.

The batch is computed on torch's meta device, where tensors have shapes and no values. If the model needs values for
that, the model itself computes it: on the process's device, or where the program has built it.
"""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch import nn

from .absent_weights import AbsentUsed, Place, places_of
from .blocks import Asked, Block, find_blocks
from .errors import PacelineError
from .flops import counted_flops
from .inventory import CONSTANT, PARAMETER, STATISTIC, Inventory
from .kept_memory import KeptMemory
from .memory_short import ending_without_memory, set_free
from .moving import to_device
from .searching import Searching
from .seeding import others_now
from .side_paths import SidePaths
from .stage_forward import Ended, Seams, StageForward
from .stubs import StubUsed
from .trees import at, replaced
from .unit_placement import UnitPlacement

Loss = Callable[[Any, Any], Any]


class CannotCut(Exception):
    """Why the model has to be computed whole, in one line."""


@dataclass
class Unit:
    """Blocks [first, last): the model can be cut before and behind them. Sizes are of one sample."""

    first: int
    last: int
    name: str
    tensors: list[int] = field(default_factory=list)  # numbers of the entries that it writes
    weights: set[int] = field(default_factory=set)  # numbers of the entries that it computes with
    message_bytes: int = 0
    extra_bytes: int = 0
    kept_bytes: int = 0
    flops: float = 0

    def message(self) -> dict[str, object]:
        return {
            "name": self.name,
            "tensors": self.tensors,
            "message_bytes": self.message_bytes,
            "extra_bytes": self.extra_bytes,
            "kept_bytes": self.kept_bytes,
            "flops": self.flops,
        }


@dataclass
class _Written:
    """Numbers of the entries that a unit alone writes to, or may."""

    parameters: set[int] = field(default_factory=set)  # parameters with a gradient
    changed: set[int] = field(default_factory=set)  # statistics
    called: set[int] = field(default_factory=set)  # statistics of modules that it calls
    again: Counter[int] = field(default_factory=Counter)  # how often its backward pass calls the module of each


@dataclass
class Cuts:
    seams: Seams
    units: list[Unit]
    # Parameters that get gradients in several units, by number of entry: these units.
    shared: dict[int, list[int]]
    # Statistics whose modules a backward pass calls again, by number of entry: how often.
    again: dict[int, int] = field(default_factory=dict)

    def weights(self, begin: int, end: int) -> set[int]:
        """The numbers of the entries that a stage of these units computes with."""
        return set().union(*(unit.weights for unit in self.units[begin:end]))


def libraries() -> str:
    """The libraries on which cuts depend, with their versions, as far as the program has imported them."""
    known = {"torch": "PyTorch", "transformers": "transformers", "lightning": "Lightning"}
    versions = {name: getattr(sys.modules.get(module), "__version__", None) for module, name in known.items()}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def find_cuts(
    model: nn.Module,
    inventory: Inventory,
    loss: Loss,
    batch: Any,
    samples: int,
    asked: Asked,
    device: torch.device | None = None,
) -> Cuts:
    """`batch` has `samples` samples. Raises CannotCut, and PacelineError if `asked` names no blocks.

    device: where the process computes, if that is not where the model is.
    """
    root = inventory.model
    if not hasattr(torch, "compile"):  # came with PyTorch 2.0, as did hooks that see keyword arguments
        raise CannotCut(f"stages need PyTorch 2.0 or later, and this is {torch.__version__}")
    if getattr(model, "_orig_mod", None) is root:
        raise CannotCut("torch.compile() was given the whole model; compile its blocks instead, each by itself")
    blocks = find_blocks(root, asked)
    for name, module in root.named_modules():
        if getattr(module, "_compiled_call_impl", None) is not None:
            raise CannotCut(
                f"{name or 'the model'} is compiled by its compile(), which hides its forward(); replace each block "
                "by torch.compile(block) instead"
            )
    if len(blocks) < 2:
        raise CannotCut("the model has no ModuleList or Sequential of two or more blocks to be cut between")
    try:
        copied = _on_meta(root)
        on_meta = [Block(one.name, one.number, copied.get_submodule(one.name)) for one in blocks]
        found = _DryRun(copied, inventory, loss, to_device(batch, torch.device("meta")), samples, on_meta).cuts()
    except (CannotCut, PacelineError):
        raise
    except Exception:
        # The program looks at values, which a meta tensor has none of.
        def compute(real: Any) -> Cuts:
            return _DryRun(root, inventory, loss, real, samples, blocks).cuts()

        found = _on_device(root, inventory, compute, batch, device) or _at_home(root, compute, batch)
    by_name = {block.name: block for block in blocks}
    found.seams.blocks = [by_name[block.name] for block in found.seams.blocks]
    return found


def _on_meta(model: nn.Module) -> nn.Module:
    memo: dict[int, Any] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        empty = torch.empty_like(tensor, device="meta")
        if isinstance(tensor, nn.Parameter):
            empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = empty
    for module in model.modules():
        trainer = module.__dict__.get("_trainer")  # Lightning's
        if trainer is not None:
            memo[id(trainer)] = trainer
    return copy.deepcopy(model, memo)


def _on_device(
    model: nn.Module, inventory: Inventory, compute: Callable[[Any], Cuts], batch: Any, device: torch.device | None
) -> Cuts | None:
    """None if the model is there already, or if the whole model has no room there."""
    if device is None or device == next(model.parameters()).device:
        return None
    found = None
    with _unchanged(model, device), ending_without_memory(), UnitPlacement(inventory, device).placed(None):
        found = compute(to_device(batch, device))
    set_free(model.parameters(), device)
    return found


def _at_home(model: nn.Module, compute: Callable[[Any], Cuts], batch: Any) -> Cuts:
    with _unchanged(model, next(model.parameters()).device):
        return compute(batch)


@contextlib.contextmanager
def _unchanged(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Puts back what a forward pass on the device changes: buffers, and the generators of random numbers."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), None if numpy is None else numpy.random.get_state()
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):  # no context on other cards
            yield
    finally:
        random.setstate(states[0])
        if numpy is not None:
            numpy.random.set_state(states[1])
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for parameter in model.parameters():
            parameter.grad = None


class _DryRun:
    def __init__(
        self, model: nn.Module, inventory: Inventory, loss: Loss, batch: Any, samples: int, blocks: list[Block]
    ) -> None:
        self._model = model
        self._inventory = inventory
        self._loss = loss
        self._batch = batch
        self._samples = samples
        self._blocks = blocks
        self._inputs: list[Any] = []  # for each block, as it is called
        self._places = places_of(model, inventory)
        self._device = next(model.parameters()).device
        parameters = dict(model.named_parameters(remove_duplicate=False))
        self._parameters = {
            index: parameters[entry.name] for index, entry in enumerate(inventory.entries) if entry.kind == PARAMETER
        }

    def _compute(self) -> Any:
        """The loss of the batch, which the program may change."""
        return self._loss(self._model, copy.deepcopy(self._batch))

    def cuts(self) -> Cuts:
        seams, trained = self._whole()
        cuts, why_not = self._possible(seams)
        if not cuts:
            raise CannotCut(why_not or "no cut between its blocks is possible")
        edges = [0, *cuts, len(seams.blocks)]
        units = [
            Unit(first, last, _name(seams.blocks[first].name, seams.blocks[last - 1].name))
            for first, last in zip(edges, edges[1:])
        ]
        try:
            written = [self._write(seams, unit) for unit in units]
        except StubUsed as used:  # torch's counter of operations uses a stub that a checkpoint gave a gradient
            raise CannotCut(f"{used}; if that is a checkpoint, write use_reentrant=False") from None
        lost = trained.difference(*(one.parameters for one in written))
        if lost:
            raise CannotCut(
                f"{self._inventory.entries[min(lost)].name} gets its gradient from what no block returns; if "
                "checkpoint(..., use_reentrant=True) is around its block, write use_reentrant=False"
            )
        again = {index: times for one in written for index, times in one.again.items()}
        return Cuts(seams, units, self._owners(units, written), again)

    def _whole(self) -> tuple[Seams, set[int]]:
        """One pass over the whole model. The blocks in the order of their calls, and what gets a gradient."""
        called: list[tuple[Block, Any, Any]] = []
        handles = []

        def record(block: Block) -> Callable[..., None]:
            def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
                called.append((block, (args, kwargs), output))

            return hook

        for block in self._blocks:
            handles.append(block.module.register_forward_hook(record(block), with_kwargs=True))
        drawn = others_now()
        try:
            value = _value(self._compute())
        finally:
            for handle in handles:
                handle.remove()
        for block in self._blocks:
            times = sum(one is block for one, _, _ in called)
            if times != 1:
                way_out = "; set layerdrop to 0 if that leaves it out" if times == 0 else ""
                raise CannotCut(
                    f"the loss of a micro-batch calls {block.name} {times} times, and cuts need one call{way_out}"
                )
        self._inputs = [arguments for _, arguments, _ in called]
        seams = Seams([block for block, _, _ in called])
        seams.others_draw = others_now() != drawn
        # Without values, whose memory would be held for the whole run.
        seams.outputs = [replaced(output, lambda _, tensor: tensor.detach().to("meta")) for _, _, output in called]
        with self._graded() as graded:
            value.backward()
        return seams, graded

    def _possible(self, seams: Seams) -> tuple[list[int], str]:
        """Each cut, tried by a stage of everything behind it. And why the first other one is not possible."""
        cuts, why_not = [], ""
        passing = SidePaths(seams, self._device)
        with passing:
            side_paths = passing.found(_value(self._compute()))
        for cut in range(1, len(seams.blocks)):
            try:
                with Searching(seams, cut, self._inputs[cut], self._device):
                    self._compute()
            except StubUsed as used:
                why_not = why_not or str(used)
                continue
            crossing = [path for path in side_paths if path[0] < cut <= path[1]]
            if crossing:
                why_not = why_not or _beside(seams, *crossing[0])
            else:
                cuts.append(cut)
        return cuts, why_not

    def _write(self, seams: Seams, unit: Unit) -> _Written:
        """A stage of this unit alone. Sets sizes."""
        inputs = [at(self._inputs[unit.first], path) for path in seams.paths.get(unit.first, [])]
        received = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        kept = KeptMemory(self._model)
        absent = self._absent(seams, unit, received)
        forward = StageForward(seams, unit.first, unit.last, received, device=self._device, absent=absent)
        with counted_flops() as flops, self._statistics(forward) as written, forward:
            with kept.counting():
                try:
                    outputs = [_value(self._compute())]
                except Ended as ended:
                    outputs = ended.tensors
                    unit.message_bytes = -(-sum(_most_bytes(one) for one in outputs) // self._samples)
            roots = [one for one in outputs if one.requires_grad]
            with forward.recompute(), self._graded() as written.parameters:
                if roots:
                    torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        unit.weights |= written.parameters
        unit.kept_bytes = -(-kept.bytes // self._samples)
        unit.flops = flops() / self._samples
        return written

    def _absent(self, seams: Seams, unit: Unit, received: list[torch.Tensor]) -> list[Place]:
        """The weights that a stage of this unit alone does without; the unit's own are the others. Tried."""
        modules = {one for block in seams.blocks[unit.first : unit.last] for one in block.module.modules()}
        unit.weights = {place.number for place in self._places if place.is_in(modules)}
        while True:
            absent = [place for place in self._places if place.number not in unit.weights]
            trying = StageForward(seams, unit.first, unit.last, received, device=self._device, absent=absent)
            try:
                with torch.no_grad(), trying:
                    self._compute()
                return absent
            except Ended:
                return absent
            except AbsentUsed as used:
                unit.weights |= used.sources

    def _owners(self, units: list[Unit], written: list[_Written]) -> dict[int, list[int]]:
        """Gives every tensor that is written to one unit: the first one that computes something with it."""
        self._hold_unused(units)
        shared: dict[int, list[int]] = {}
        for index, entry in enumerate(self._inventory.entries):
            if entry.kind == CONSTANT:
                continue
            if entry.kind == PARAMETER:
                # Later samples may take branches of the program that this batch did not take.
                writers = [number for number, unit in enumerate(units) if index in unit.weights]
            else:
                # Some change, as batch norm's, is none that torch tells of.
                changed = [number for number, one in enumerate(written) if index in one.changed]
                called = [number for number, one in enumerate(written) if index in one.called]
                writers = changed or called or [0]
            units[writers[0]].tensors.append(index)
            if entry.kind == PARAMETER and len(writers) > 1:
                shared[index] = writers
                for number in range(writers[0], writers[-1]):
                    units[number].extra_bytes += entry.count * entry.tensor.element_size()
        return shared

    def _hold_unused(self, units: list[Unit]) -> None:
        """Gives a weight that this batch has not used to the first and the last unit: later samples may use it."""
        used = set().union(*(unit.weights for unit in units))
        unused = {place.number for place in self._places} - used
        for unit in (units[0], units[-1]):
            unit.weights |= unused

    @contextlib.contextmanager
    def _graded(self) -> Iterator[set[int]]:
        """Numbers of the parameters that get a gradient meanwhile. They lose it: at once, from PyTorch 2.1 on."""
        graded: set[int] = set()

        def lose(index: int, parameter: Any) -> None:
            if parameter.grad is not None:
                graded.add(index)
                parameter.grad = None

        hooks = []
        for index, parameter in self._parameters.items():
            hook: Any = getattr(parameter, "register_post_accumulate_grad_hook", None)
            if hook is not None and parameter.requires_grad:
                hooks.append(hook(lambda one, index=index: lose(index, one)))
        try:
            yield graded
        finally:
            for hook in hooks:
                hook.remove()
            for index, parameter in self._parameters.items():
                lose(index, parameter)

    @contextlib.contextmanager
    def _statistics(self, forward: StageForward) -> Iterator[_Written]:
        """Notes which statistics change meanwhile, and those whose modules are called."""
        written = _Written()

        def call(index: int) -> None:
            if forward.recomputes:
                written.again[index] += 1
            else:
                written.called.add(index)

        before: dict[int, tuple[nn.Module, str, torch.Tensor, int]] = {}
        handles = []
        for index, entry in enumerate(self._inventory.entries):
            if entry.kind == STATISTIC:
                path, _, key = entry.name.rpartition(".")
                module = self._model.get_submodule(path)
                tensor: Any = module._buffers[key]
                before[index] = module, key, tensor, tensor._version
                handles.append(module.register_forward_pre_hook(lambda *_, index=index: call(index)))
        try:
            yield written
        finally:
            for handle in handles:
                handle.remove()
            for index, (module, key, tensor, version) in before.items():
                now = module._buffers[key]
                if now is not tensor or now._version != version:
                    written.changed.add(index)


def _value(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _most_bytes(tensor: torch.Tensor) -> int:
    """The same on every device, as both ends of a channel make room by it: autocast may be on on one of them only."""
    size = tensor.element_size()
    return tensor.numel() * (max(size, 4) if tensor.is_floating_point() else size)


def _beside(seams: Seams, block: int, user: int) -> str:
    name = "the loss" if user == len(seams.blocks) else seams.blocks[user].name
    return (
        f"{seams.blocks[block].name} gives {name} more than its output, such as router logits or a loss of its own; "
        "hand that on from block to block as a part of their outputs, or do without it (output_router_logits=False, "
        "say)"
    )


def _name(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
