"""The blocks of a model: the modules between which it can be cut into stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from torch import nn

from .errors import PacelineError

Asked = Union[str, "list[str]", "tuple[str, ...]", None]


@dataclass
class Block:
    name: str  # "model.layers.3"
    number: int  # among the blocks, as the model lists them; it fixes what the block draws at random
    module: nn.Module


def find_blocks(model: nn.Module, asked: Asked = None) -> list[Block]:
    """The children of the lists that `asked` names; without it, of the longest list. Empty if there is no list."""
    lists = _asked(model, asked) if asked is not None else _longest(model)
    named = [(f"{name}.{key}" if name else key, child) for name, one in lists for key, child in one.named_children()]
    return [Block(name, number, module) for number, (name, module) in enumerate(named)]


def _asked(model: nn.Module, asked: Asked) -> list[tuple[str, nn.Module]]:
    modules = dict(model.named_modules())
    names = [asked] if isinstance(asked, str) else list(asked or ())
    found: list[tuple[str, nn.Module]] = []
    for name in names:
        module = modules.get(name)
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) == 0:
            have = ", ".join(repr(other) for other, one in modules.items() if _is_list(one)) or "none"
            raise PacelineError(
                f"blocks = {name!r} is not the name of a ModuleList or Sequential of the model; it has {have}"
            )
        found.append((name, module))
    return found


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential)) and len(module) > 1


def _longest(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """All outermost lists of one class of children that have most children together, or a longer Sequential."""
    by_class: dict[type, list[tuple[str, nn.Module]]] = {}
    mixed: list[tuple[str, nn.Module]] = []
    inside: list[str] = []  # prefixes of names in lists whose children are of one class
    for name, module in model.named_modules():
        if not _is_list(module) or any(name.startswith(prefix) for prefix in inside):
            continue
        classes = {type(child) for child in module.children()}
        if len(classes) == 1:
            by_class.setdefault(classes.pop(), []).append((name, module))
            inside.append(f"{name}." if name else "")
        elif isinstance(module, nn.Sequential):
            mixed.append((name, module))
    candidates = [*by_class.values(), *([one] for one in mixed)]
    return max(candidates, key=_children, default=[])


def _children(lists: list[tuple[str, nn.Module]]) -> int:
    return sum(len(list(module.children())) for _, module in lists)
