"""A stage's stand-ins for weights that it does not hold: embeddings that only the first stage needs, say.

A stand-in has shape and type, and no values. What the program computes from it, before the stage's first block, is
a stand-in too, with the right shape. Nothing that needs its values can be computed. What draws random numbers, such
as dropout, draws them, so that later draws are those of a stage that holds the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .inventory import Inventory
from .random_draws import Drawing
from .stubs import NEED_VALUES, Scope, Stub, StubUsed, caller, without_torch_function, writes_to_first

# The questions that a shape answers.
_OF_SHAPE = {
    *("shape", "size", "ndim", "dim", "ndimension", "numel", "nelement", "element_size", "itemsize", "nbytes"),
    *("stride", "storage_offset", "is_contiguous", "is_same_size", "__len__", "__hash__"),
}
_GIVES_TENSORS = {"chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "unsafe_chunk"}
_NEED_VALUES = NEED_VALUES - _OF_SHAPE - _GIVES_TENSORS


# Operations that draw as many random numbers as their result's size says, whatever its values and strides are.
_DRAWS_BY_SIZE = {f"aten::{name}" for name in ("bernoulli", "bernoulli_", "uniform_", "rand", "rand_like")}


class AbsentUsed(StubUsed):
    """The stage needs these weights after all, by number of entry."""

    def __init__(self, sources: frozenset[int], name: str, use: str) -> None:
        super().__init__(name, use, caller())
        self.sources = sources


class Absent(Stub):
    paceline_sources: frozenset[int]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """For what has not gone through __torch_function__: compiled code, say."""
        [first, *_] = _absent((args, kwargs or {}))
        raise AbsentUsed(first.paceline_sources, first.paceline_block, str(func))

    @classmethod
    def computed(cls, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        found = list(_absent((args, kwargs)))
        first = found[0]
        sources = frozenset().union(*(one.paceline_sources for one in found))
        if name in _OF_SHAPE:
            with without_torch_function():
                return func(*args, **kwargs)
        writes = writes_to_first(name, kwargs)
        if (
            any(not one.paceline_scope.is_open for one in found)
            or name in _NEED_VALUES
            or (writes and not (args and isinstance(args[0], Stub) and "out" not in kwargs))
        ):
            raise AbsentUsed(sources, first.paceline_block, name)
        if name == "__setitem__":
            return args[0]
        try:
            with without_torch_function(), torch.no_grad():
                if name == "__iter__":
                    result = args[0].new_empty(args[0].shape, device="meta").unbind(0)
                else:
                    with Drawing() as drawing:
                        result = func(*_on_meta(args), **_on_meta(kwargs))
                    if drawing.operations - _DRAWS_BY_SIZE:
                        raise AbsentUsed(sources, first.paceline_block, name)
                    if drawing.operations:  # the program's next draw shall be the same in every stage
                        func(*_mapped(args, _ones, first.device), **_mapped(kwargs, _ones, first.device))
        except Exception as error:  # a result of a shape that depends on values
            raise AbsentUsed(sources, first.paceline_block, name) from error
        if writes:
            return args[0]

        def wrap(tensor: torch.Tensor) -> Absent:
            like = tensor.to("meta") if tensor.device.type != "meta" else tensor
            return _make(like, first.device, first.paceline_block, first.paceline_scope, sources)

        wrapped = _mapped(result, wrap)
        return iter(wrapped) if name == "__iter__" else wrapped


@dataclass
class Place:
    """A weight's place in a model: in several modules if it is tied."""

    number: int  # the number of its entry
    name: str
    weight: torch.Tensor
    owners: list[tuple[nn.Module, str]]

    def put(self, tensor: torch.Tensor) -> None:
        for module, key in self.owners:
            module._parameters[key] = tensor  # type: ignore[assignment]

    def is_in(self, modules: set[nn.Module]) -> bool:
        return any(module in modules for module, _ in self.owners)


def places_of(model: nn.Module, inventory: Inventory) -> list[Place]:
    """All weights of the inventory, in this model of the same names: buffers are none."""
    owners: dict[int, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for key, weight in module._parameters.items():
            owners.setdefault(id(weight), []).append((module, key))
    weights = dict(model.named_parameters(remove_duplicate=False))
    return [
        Place(number, entry.name, weights[entry.name], owners[id(weights[entry.name])])
        for number, entry in enumerate(inventory.entries)
        if not entry.is_buffer
    ]


def make_absent(weight: torch.Tensor, name: str, number: int, scope: Scope) -> Absent:
    return _make(weight, weight.device, f"the weight {name}", scope, frozenset((number,)))


def _make(like: torch.Tensor, device: torch.device, name: str, scope: Scope, sources: frozenset[int]) -> Absent:
    made: Absent = torch.Tensor._make_wrapper_subclass(Absent, like.shape, dtype=like.dtype, device=device)
    made.paceline_block, made.paceline_scope, made.paceline_sources = name, scope, sources
    return made


def _on_meta(tree: Any) -> Any:
    return _mapped(tree, lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta"))


def _ones(tensor: torch.Tensor) -> torch.Tensor:
    absent = isinstance(tensor, Absent)
    return torch.ones(tensor.shape, dtype=tensor.dtype, device=tensor.device) if absent else tensor


def _mapped(tree: Any, change: Any, device: Any = "meta") -> Any:
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if isinstance(tree, (list, tuple)):
        parts: Iterable[Any] = [_mapped(part, change, device) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        return {key: _mapped(part, change, device) for key, part in tree.items()}
    return device if isinstance(tree, torch.device) else tree


def _absent(tree: Any) -> Iterator[Absent]:
    if isinstance(tree, Absent):
        yield tree
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from _absent(part)
    elif isinstance(tree, (list, tuple)):
        for part in tree:
            yield from _absent(part)
