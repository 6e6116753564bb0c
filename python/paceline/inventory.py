"""The tensors of a model, as Paceline sees them: which are trained, which are averaged, and which stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable

import torch
from torch import nn

from .errors import PacelineError, kind_of
from .saved_names import saved_names
from .statistic import Way, way_of

if TYPE_CHECKING:
    from .memories import Memories

PARAMETER = "parameter"
STATISTIC = "statistic"
CONSTANT = "constant"
FROZEN = "frozen"  # no part of what Paceline keeps

# A constant buffer of more bytes is frozen, too. A smaller one may count something, and all start with one's value.
_SMALL_BUFFER = 1024 * 1024

TYPE_NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


@dataclass
class Entry:
    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    module: nn.Module
    key: str  # under which the module has it
    is_buffer: bool
    way: Way = field(default_factory=Way)  # how a statistic goes to the mean of a commit, and comes back
    # The type of a parameter or statistic in the memory that Paceline names; bfloat16 if the layout says so.
    stored: torch.dtype = torch.float32

    @property
    def tensor(self) -> torch.Tensor:
        """The module's current tensor of this name."""
        owned = self.module._buffers if self.is_buffer else self.module._parameters
        # A scripted part keeps them in something that has no get().
        tensor = owned[self.key] if self.key in owned else None  # noqa: SIM401
        if tensor is None or tuple(tensor.shape) != self.shape:
            now = "is gone" if tensor is None else f"has the shape {list(tensor.shape)}"
            raise PacelineError(
                f"{self.name} had the shape {list(self.shape)} at join() and {now}; {self._way_out_of_change()}"
            )
        return tensor

    def _way_out_of_change(self) -> str:
        if self.is_buffer:
            return (
                "pass one batch through the model before join() if it has its last shape then; if it need not be "
                "saved, register it with register_buffer(..., persistent=False)"
            )
        return "a job's parameters cannot change, so build, prune and parametrize the whole model before join()"

    @property
    def count(self) -> int:
        return int(torch.Size(self.shape).numel())

    def message(self) -> dict[str, object]:
        return {"name": self.name, "kind": self.kind, "shape": list(self.shape), "dtype": TYPE_NAMES[self.dtype]}


@dataclass(frozen=True)
class _Buffers:
    """Names of a module's buffers."""

    full: frozenset[str]
    bare: frozenset[str]  # names of saved buffers that are None or have no elements

    @property
    def count(self) -> int:
        return len(self.full) + len(self.bare)

    @staticmethod
    def of(module: nn.Module) -> _Buffers:
        bare = (key for key, tensor in module._buffers.items() if not _has_elements(tensor))
        known = frozenset(bare) - module._non_persistent_buffers_set
        return _Buffers(frozenset(module._buffers) - known, known)


def _has_elements(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.numel() > 0


@dataclass
class Inventory:
    model: nn.Module
    entries: list[Entry]  # parameters (of whole models those of bfloat16 first), then statistics, then constants
    frozen: list[Entry]
    aliases: list[tuple[str, str]]
    after_backward: list[Callable[[], None]] = field(default_factory=list)  # raise an error

    def lay_out(self, memories: Memories) -> None:
        """Each tensor has the type that it has in memory."""
        for index, entry in enumerate(self.entries):
            entry.stored = memories.type_of(index)

    def has_bfloat16(self) -> bool:
        return any(entry.kind == PARAMETER and entry.dtype == torch.bfloat16 for entry in self.entries)

    def check_known(self) -> None:
        """Does the same as check_unchanged() without a walk through the model. A new module goes unnoticed."""
        same = all(owned.get(key) is parameter for owned, key, parameter in self._places)
        if not same or any(len(owned) != count for owned, count in self._counts):
            self.check_unchanged()
        else:
            self._check_buffers()

    def check_unchanged(self) -> None:
        """A parameter that came, went or changed its shape since join() is an error. So is a buffer that came."""
        known = self._parameters
        now = list(self.model.parameters())
        if len(now) == len(known) and all(a is b for a, b in zip(now, known)):
            for parameter, (name, shape) in zip(now, self._names):
                if parameter.shape != shape:
                    raise PacelineError(
                        f"{name} had the shape {list(shape)} at join() and has {list(parameter.shape)} now, and "
                        "a job's tensors cannot change; give it its shape before join()"
                    )
            self._check_buffers()
            return
        ids = {id(parameter) for parameter in known}
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in ids:
                raise PacelineError(f"the parameter {name} came after join(); build the whole model before")
        ids = {id(parameter) for parameter in now}
        for parameter, (name, _) in zip(known, self._names):
            if id(parameter) not in ids:
                raise PacelineError(f"the parameter {name} was removed after join(); build the model before")
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        for parameter, (before, _) in zip(known, self._names):
            if names.get(id(parameter), before) != before:
                raise PacelineError(
                    f"the parameter {before} is called {names[id(parameter)]} since join(); build, prune and "
                    "parametrize the whole model before"
                )
        raise PacelineError(
            "the order of the model's parameters changed after join(); bring its modules into their order before"
        )

    def _check_buffers(self) -> None:
        """A buffer that a module of join() has got since, or that had no elements then, would be in no export."""
        for place, (module, known) in enumerate(self._buffers):
            if len(module._buffers) == known.count and not any(
                map(_has_elements, map(module._buffers.get, known.bare))
            ):
                continue
            for key, tensor in module._buffers.items():
                if key in known.full or key in module._non_persistent_buffers_set or not _has_elements(tensor):
                    continue
                prefix = next(name for name, one in self.model.named_modules() if one is module)
                name = f"{prefix}.{key}" if prefix else key
                if key in known.bare:
                    raise PacelineError(
                        f"the buffer {name} got its first elements after join(), so it would be in no export; pass "
                        "one batch through the model before join(), or register the buffer with persistent=False"
                    )
                raise PacelineError(
                    f"the buffer {name} came after join(), so it would be in no export; "
                    "register it before join(), or with persistent=False"
                )
            self._buffers[place] = (module, _Buffers.of(module))

    def check_devices(self) -> None:
        """If a model was moved after join(), it would go on computing on its old device."""
        for entry, before in zip([*self.entries, *self.frozen], self._devices):
            now = entry.tensor.device
            if now != before:
                raise PacelineError(
                    f"{entry.name} was on {before} at join() and is on {now} now; move the model before join()"
                )

    def __post_init__(self) -> None:
        every = [*self.entries, *self.frozen]
        self.untrained = [entry for entry in every if not entry.is_buffer and entry.kind != PARAMETER]
        self._devices = [entry.tensor.device for entry in [*self.entries, *self.frozen]]
        self._parameters = list(self.model.parameters())
        self._names = [(name, parameter.shape) for name, parameter in self.model.named_parameters()]
        owners = [module._parameters for module in self.model.modules() if isinstance(module._parameters, dict)]
        self._counts = [(owned, len(owned)) for owned in owners]
        self._buffers = [
            (module, _Buffers.of(module)) for module in self.model.modules() if isinstance(module._buffers, dict)
        ]
        self._places = [(owned, key, parameter) for owned in owners for key, parameter in owned.items()]


def take_inventory(model: nn.Module, of_stages: bool = False) -> Inventory:
    """of_stages: stages compute the model. Then frozen parameters are constants that the servers keep too, so that a
    stage can let go of those that it does not need, and gets them back with another cut.
    """
    root = _plain(model)
    entries: list[Entry] = []
    aliases: list[tuple[str, str]] = []
    first_name: dict[int, str] = {}
    for prefix, module in root.named_modules(remove_duplicate=False):
        owned = [(key, tensor, False) for key, tensor in module._parameters.items()]
        skipped = module._non_persistent_buffers_set
        owned += [(key, tensor, True) for key, tensor in module._buffers.items() if key not in skipped]
        for key, tensor, is_buffer in owned:
            if tensor is None or (not torch.nn.parameter.is_lazy(tensor) and tensor.numel() == 0):
                continue
            name = f"{prefix}.{key}" if prefix else key
            if id(tensor) in first_name:
                aliases.append((name, first_name[id(tensor)]))
                continue
            first_name[id(tensor)] = name
            entry = _entry(name, module, key, tensor, is_buffer)
            if of_stages and entry.kind == FROZEN and not is_buffer:
                entry.kind = CONSTANT
            entries.append(entry)
    if not any(entry.kind == PARAMETER for entry in entries):
        raise PacelineError(
            "the model has no parameter that wants a gradient; before join(), call requires_grad_() on those to train"
        )
    _refuse_overlaps(entries)
    if not of_stages:  # which finds modules by these names
        aliases = _rename(root, entries, aliases)
    order = (PARAMETER, STATISTIC, CONSTANT)

    def place(entry: Entry) -> tuple[int, bool]:
        narrow_first = entry.kind == PARAMETER and not of_stages
        return order.index(entry.kind), narrow_first and entry.dtype != torch.bfloat16

    kept = sorted((entry for entry in entries if entry.kind != FROZEN), key=place)
    return Inventory(root, kept, [entry for entry in entries if entry.kind == FROZEN], aliases)


def _rename(root: nn.Module, entries: list[Entry], aliases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    saved = saved_names(root)
    of_each = {entry.name: saved.get((entry.tensor.data_ptr(), entry.shape), []) for entry in entries}
    names = {own: given[0] if given else own for own, given in of_each.items()}
    if len(set(names.values())) < len(names):
        return aliases
    for entry in entries:
        entry.name = names[entry.name]
    others = [(other, given[0]) for given in of_each.values() for other in given[1:]]
    return others + [(name, names[of]) for name, of in aliases if not of_each[of]]


def check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise PacelineError(
            f"join() takes a torch.nn.Module first, and not {kind_of(model)}; write join(model, train_set)"
        )


def _plain(model: nn.Module) -> nn.Module:
    """The module inside torch.compile's wrapper; a wrapper of data parallelism is refused."""
    if isinstance(model, torch.jit.ScriptModule):
        raise PacelineError("the model is a ScriptModule of torch.jit; give join() the module that it was made from")
    compiled = getattr(model, "_orig_mod", None)
    if isinstance(compiled, nn.Module):
        model = compiled
    if type(model).__name__ in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        raise PacelineError(
            f"the model is wrapped in {type(model).__name__}; give join() the model itself, "
            "for Paceline does what the wrapper does"
        )
    return model


def _entry(name: str, module: nn.Module, key: str, tensor: torch.Tensor, is_buffer: bool) -> Entry:
    if torch.nn.parameter.is_lazy(tensor):
        raise PacelineError(
            f"{name} has no shape yet, as its module is lazy; pass one batch through the model before join()"
        )
    if tensor.device.type == "meta":
        raise PacelineError(
            f"{name} has no values, as it is on the device meta; call model.to_empty(device=paceline.device()) and "
            "set its values before join()"
        )
    if tensor.dtype not in TYPE_NAMES:
        raise PacelineError(
            f"{name} is of {tensor.dtype}, which Paceline does not know; {_way_out(tensor, is_buffer)}"
        )
    embeds = isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and not is_buffer
    if embeds and tensor.requires_grad and module.max_norm is not None:
        raise PacelineError(
            f"{name} is of an {type(module).__name__} with max_norm=, which writes to its rows in each forward pass, "
            "and only the servers step weights; leave max_norm out, and scale the rows in forward(): "
            "x * max_norm / x.norm(dim=-1, keepdim=True).clamp(min=max_norm)"
        )
    if tensor.layout != torch.strided:
        raise PacelineError(f"{name} is a sparse tensor; Paceline keeps dense ones; {_way_out(tensor, is_buffer)}")
    way = way_of(module, key, tensor) if is_buffer else None
    small = is_buffer and tensor.numel() * tensor.element_size() <= _SMALL_BUFFER
    kind = CONSTANT if small else FROZEN
    if way is not None:
        kind = STATISTIC
    elif tensor.dtype.is_floating_point:
        if not is_buffer and tensor.requires_grad:
            kind = PARAMETER
        elif is_buffer and bool(torch.isfinite(tensor).all()):
            # A buffer with an infinity is a mask, and has no average.
            kind = STATISTIC
    return Entry(name, kind, tuple(tensor.shape), tensor.dtype, module, key, is_buffer, way or Way())


def _way_out(tensor: torch.Tensor, is_buffer: bool) -> str:
    if is_buffer:
        return "if it need not be saved, register it with register_buffer(..., persistent=False)"
    if tensor.is_complex():
        return "keep torch.view_as_real() of it as the parameter, and call torch.view_as_complex() in forward()"
    return "keep a dense float tensor as the parameter, and make this one of it in forward()"


def _refuse_overlaps(entries: list[Entry]) -> None:
    """Two parameters over the same memory would differ after the first step."""
    ranges = []
    for entry in entries:
        tensor = entry.tensor
        if tensor.numel() == 0 or tensor.device.type == "meta":
            continue
        begin = tensor.data_ptr()
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        ranges.append((begin, begin + (reach + 1) * tensor.element_size(), entry.name))
    ranges.sort()
    for (_, end, name), (begin, _, other) in zip(ranges, ranges[1:]):
        if begin < end:
            raise PacelineError(
                f"{name} and {other} are two tensors over the same memory; "
                "use one nn.Parameter for both, and Paceline keeps them tied"
            )
