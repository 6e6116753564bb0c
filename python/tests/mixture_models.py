"""Models whose blocks have experts: with losses of their own, or with branches that few samples take."""

from __future__ import annotations

from typing import Any

import torch
from stage_models import SAMPLES, SMALL, Case, _cross_entropy, _labelled, _language
from torch import nn
from torch.nn import functional as F


def mixtral(router_logits: bool = False) -> Case:
    """Gets the router logits of each block, if it wants them for its loss, by a hook and not as a block's output."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **SMALL,
        num_hidden_layers=3,
        num_local_experts=4,
        output_router_logits=router_logits,
    )
    return _language(MixtralForCausalLM(config))


class _Routed(nn.Module):
    def __init__(self, losses: list[torch.Tensor], is_routed: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.router = nn.Linear(6, 2)
        self._losses = losses if is_routed else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        routes = self.router(x)
        if self._losses is not None:
            self._losses.append(routes.square().mean())
        return torch.tanh(self.linear(x)) * routes.mean(dim=1, keepdim=True)


class _Mixture(nn.Module):
    def __init__(self, routed: tuple[int, ...]) -> None:
        super().__init__()
        self.losses: list[torch.Tensor] = []
        self.blocks = nn.ModuleList(_Routed(self.losses, number in routed) for number in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.losses.clear()
        for block in self.blocks:
            x = block(x)
        return x


def mixture(*routed: int) -> Case:
    """These blocks put losses of their own into a list. The loss reads all parameters besides, outside the blocks."""

    def loss(model: Any, batch: Any) -> Any:
        inputs, labels = batch
        value = F.cross_entropy(model(inputs), labels) + sum(model.losses)
        return value + 0.01 * sum(one.square().sum() for one in model.parameters())

    return _Mixture(routed), _labelled(6), loss


class _Expert(nn.Module):
    """Only rows with a positive first number get to the expert."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.expert = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, marks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tanh(self.linear(x))
        if marks.any():
            x = x + marks[:, None] * self.expert(x)
        return x, marks


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.embed_marked = nn.Linear(6, 6), nn.Linear(6, 6)
        self.blocks = nn.ModuleList(_Expert() for _ in range(3))
        self.head, self.head_marked = nn.Linear(6, 5), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        marks = (x[:, 0] > 0).float()
        is_marked = bool(marks.any())
        x = self.embed_marked(x) if is_marked else self.embed(x)
        for block in self.blocks:
            x, marks = block(x, marks)
        return self.head_marked(x) if is_marked else self.head(x)


def branches() -> Case:
    """Has an expert in each block, and a head and an embedding, that the first two samples do not use."""
    data = _labelled(6)
    data.tensors[0][:2, 0] = -1
    data.tensors[0][2:, 0] = torch.arange(SAMPLES - 2) % 2
    return _Branches(), data, _cross_entropy
