"""Tensors in nested lists, tuples and dicts, such as the arguments of a module."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Callable

import torch

Path = tuple[Any, ...]  # the indices and keys that lead to a tensor


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, torch.Tensor]]:
    """All tensors, each with its path."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, (list, tuple)):
        for index, part in enumerate(tree):
            yield from leaves(part, (*path, index))
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield from leaves(part, (*path, key))


def replaced(tree: Any, swap: Callable[[Path, torch.Tensor], Any], path: Path = ()) -> Any:
    """A copy of the tree with swap(path, tensor) in place of each tensor."""
    if isinstance(tree, torch.Tensor):
        return swap(path, tree)
    if isinstance(tree, (list, tuple)):
        parts = [replaced(part, swap, (*path, index)) for index, part in enumerate(tree)]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if isinstance(tree, dict):
        copied = copy.copy(tree)
        for key, part in tree.items():
            copied[key] = replaced(part, swap, (*path, key))
        return copied
    return tree


def at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree
