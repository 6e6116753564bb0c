"""What `./dev bench program` trains: models in plain torch.nn, and made-up samples for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

VOCABULARY, CONTEXT = 256, 64


class Block(nn.Module):
    """Of a residual network: two convolutions and what goes past them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.past: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.past = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(inner)) + self.past(x))


def residual(widths: list[int], blocks: int) -> nn.Module:
    """For images of 32 × 32 pixels: ResNet-20 has three widths of three blocks, ResNet-18 four of two."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    inputs = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            layers.append(Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Transformer(nn.Module):
    """Eight layers of width 512: 25 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 512)
        self.places = nn.Parameter(torch.zeros(CONTEXT, 512))
        layer = nn.TransformerEncoderLayer(512, 8, 2048, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
        self.head = nn.Linear(512, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ahead = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        scores: torch.Tensor = self.head(self.layers(self.tokens(x) + self.places, ahead))
        return scores.transpose(1, 2)


class Made(Dataset):  # type: ignore[type-arg]
    """As many samples as are asked for, of a few hundred that differ."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor, length: int) -> None:
        self._inputs, self._targets, self._length = inputs, targets, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._inputs[index % len(self._inputs)], self._targets[index % len(self._inputs)]


@dataclass(frozen=True)
class Subject:
    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of a sample; () for a text
    batch: int
    block: int  # iterations that are measured at a time: a second or so
    adam: bool = False

    def samples(self, length: int) -> Made:
        if not self.shape:
            text = torch.randint(0, VOCABULARY, (256, CONTEXT + 1))
            return Made(text[:, :-1], text[:, 1:], length)
        return Made(torch.randn(256, *self.shape), torch.randint(0, 10, (256,)), length)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        if self.adam:
            return torch.optim.AdamW(model.parameters(), lr=1e-4)
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


SUBJECTS = {
    "mlp": Subject("MLP, 5 k parameters", perceptron, (64,), 32, 500),
    "resnet20": Subject("ResNet-20, 0.27 M", lambda: residual([16, 32, 64], 3), (3, 32, 32), 16, 15),
    "resnet18": Subject("ResNet-18, 11 M", lambda: residual([64, 128, 256, 512], 2), (3, 32, 32), 16, 2),
    "transformer": Subject("transformer, 25 M", Transformer, (), 4, 2, adam=True),
}
