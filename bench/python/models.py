"""Models in plain torch.nn for `./dev bench program`, and made-up samples for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

VOCABULARY = 256


class Block(nn.Module):
    """A block of a residual network: two convolutions and a shortcut."""

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
    """Each layer has 12 × width² parameters."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(context, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        ahead = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("ahead", ahead, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(self.tokens(x) + self.places, self.ahead, is_causal=True))
        return scores.transpose(1, 2)


class Made(Dataset):  # type: ignore[type-arg]
    """`length` samples, which repeat a few hundred different ones."""

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
    shape: tuple[int, ...]  # shape of a sample; only the length of a text
    batch: int
    block: int  # iterations that are measured at a time: a second or so
    adam: bool = False
    text: bool = False

    def samples(self, length: int) -> Made:
        if self.text:
            text = torch.randint(0, VOCABULARY, (256, self.shape[0] + 1))
            return Made(text[:, :-1], text[:, 1:], length)
        return Made(torch.randn(256, *self.shape), torch.randint(0, 10, (256,)), length)

    def optimizer(self, model: nn.Module, fused: bool = False) -> torch.optim.Optimizer:
        if self.adam:
            return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=fused)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


SUBJECTS = {
    "mlp": Subject("MLP, 5 k parameters", perceptron, (64,), 32, 500),
    "resnet20": Subject("ResNet-20, 0.27 M", lambda: residual([16, 32, 64], 3), (3, 32, 32), 16, 15),
    "resnet18": Subject("ResNet-18, 11 M", lambda: residual([64, 128, 256, 512], 2), (3, 32, 32), 16, 2),
    "transformer": Subject("transformer, 25 M", lambda: Transformer(8, 512, 8, 64), (64,), 4, 2, adam=True, text=True),
}

# With batches that keep a large GPU busy, in bfloat16.
GPU_SUBJECTS = {
    "resnet18": Subject("ResNet-18, 11 M, batch 256", lambda: residual([64, 128, 256, 512], 2), (3, 32, 32), 256, 40),
    "transformer": Subject(
        "transformer, 25 M, batch 64 × 256", lambda: Transformer(8, 512, 8, 256), (256,), 64, 30, adam=True, text=True
    ),
    "large": Subject(
        "transformer, 85 M, batch 32 × 512", lambda: Transformer(12, 768, 12, 512), (512,), 32, 10, adam=True, text=True
    ),
    # Plain PyTorch steps the bfloat16 themselves, and Paceline float32 masters.
    "large-bfloat16": Subject(
        "transformer of bfloat16, 85 M, batch 32 × 512",
        lambda: Transformer(12, 768, 12, 512).to(torch.bfloat16),
        (512,),
        32,
        10,
        adam=True,
        text=True,
    ),
}


def subjects(gpu: bool) -> dict[str, Subject]:
    return GPU_SUBJECTS if gpu else SUBJECTS
