"""Numbers of an optimizer that are not finite."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from paceline.errors import PacelineError
from paceline.inventory import take_inventory
from paceline.optimizers import read_optimizer


def read(make: Any, clip: float | None = None) -> dict[str, Any]:
    net = torch.nn.Linear(2, 2)
    return read_optimizer(make(net.parameters()), take_inventory(net), scheduled=False, clip=clip)


def test_an_infinite_norm_clips_nothing() -> None:
    found = read(lambda p: torch.optim.SGD(p, lr=0.5), clip=math.inf)
    assert "clip" not in found
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("clip", [math.nan, -math.inf, 0.0])
def test_other_norms_are_refused(clip: float) -> None:
    with pytest.raises(PacelineError, match="is not the largest norm"):
        read(lambda p: torch.optim.SGD(p, lr=0.5), clip=clip)


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda p: torch.optim.SGD(p, lr=math.inf), "lr is inf"),
        (lambda p: torch.optim.SGD(p, lr=math.nan), "lr is nan"),
        (lambda p: torch.optim.Adam(p, eps=math.inf), "eps is inf"),
        (lambda p: torch.optim.SGD([{"params": p, "weight_decay": math.nan}], lr=0.1), "weight_decay is nan"),
    ],
)
def test_a_number_that_is_not_finite_is_named(make: Any, name: str) -> None:
    with pytest.raises(PacelineError, match=f"whose {name}; write a finite number"):
        read(make)
