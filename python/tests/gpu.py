"""Helpers of the tests that run on a GPU too, if there is one."""

from __future__ import annotations

import pytest
import torch

ON_CPU = {"PACELINE_DEVICE": "cpu"}
STAND_IN = {"PACELINE_DEVICE": "stand-in"}
ON_GPU = {"PACELINE_DEVICE": "cuda"}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")


def device_of(environment: dict[str, str]) -> torch.device:
    """The device on which a program with this environment computes."""
    return torch.device("cuda" if environment["PACELINE_DEVICE"] == "cuda" else "cpu")


def agree(ours: torch.Tensor, plain: torch.Tensor) -> bool:
    """To the last bit on a CPU. On a GPU two runs of the same program may add in another order."""
    if plain.device.type == "cpu":
        return torch.equal(ours, plain)
    return torch.allclose(ours.cpu(), plain.cpu(), rtol=1e-4, atol=1e-6)
