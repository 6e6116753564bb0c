"""A part that a model may have, with inputs to train it on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn


@dataclass
class Part:
    kind: str  # a row of the table in docs/python.md
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
    before: Callable[[nn.Module], object] = lambda module: None  # the program calls it before join()
    refused: str = ""  # the beginning of the way out that its line names; empty if it trains


def positional(*inputs: Any) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: (inputs, {})


def random_rows(*shape: int, seed: int = 7) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labelled_words(words: torch.Tensor) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: ((words,), {"labels": words})


def labelled_picture(size: int) -> Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]:
    return lambda: ((), {"pixel_values": random_rows(4, 3, size, size), "labels": torch.tensor([0, 1, 0, 1])})


def pass_one_batch(part: Part) -> Callable[[nn.Module], object]:
    def pass_through(module: nn.Module) -> object:
        inputs, named = part.inputs()
        return module(*inputs, **named)

    return pass_through
