"""Losses and metrics in a form for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from .errors import PacelineError

_MOST_METRICS = 100
_MOST_NAME = 100
_MOST_WEIGHT = 1e15  # the coordinator takes no more
_EXAMPLE = '{"f1": value}'


def number(value: Any, what: str) -> float:
    """The value of a Python number, or of a tensor or array of one element."""
    item = getattr(value, "item", None)
    try:
        return float(item() if callable(item) else value)
    except (TypeError, ValueError, RuntimeError):
        raise PacelineError(
            f"{what} is not one number but {_describe(value)}; give one, for example a tensor's mean()"
        ) from None


def _is_scalar(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex()


def scalar(value: Any, device: torch.device | None, what: str = "the loss") -> float | torch.Tensor:
    """Does the same as number(), but a tensor on this device stays there, so that nobody waits for it."""
    if _is_scalar(value) and value.device == device:
        tensor: torch.Tensor = value.detach().double().reshape(())
        return tensor
    return number(value, what)


def weight_of(value: Any) -> float:
    weight = number(value, "weight")
    if not 0 <= weight <= _MOST_WEIGHT:
        raise PacelineError(
            f"weight = {weight:g} is no weight; write a number from 0 to {_MOST_WEIGHT:g}, such as the batch's "
            "number of tokens"
        )
    return weight


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"a {type(value).__name__} of shape {list(shape)}"


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 1 <= len(name.encode()) <= _MOST_NAME


def metrics(values: Mapping[str, Any] | None) -> dict[str, float]:
    """The values that are finite; JSON knows no others."""
    return {name: value for name, value in measured(values).items() if value is not None}


def measured(values: Mapping[str, Any] | None) -> dict[str, float | None]:
    """All of them, with None for one that is not finite."""
    return {name: finite(number(value, _said(name))) for name, value in _named(values).items()}


def metrics_on(values: Mapping[str, Any] | None, device: torch.device | None) -> dict[str, float | torch.Tensor]:
    """Does the same as metrics(), but tensors on this device stay there, finite or not."""
    found = {name: scalar(value, device, _said(name)) for name, value in _named(values).items()}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor) or math.isfinite(value)}


def _said(name: str) -> str:
    return f"the metric {name!r}"


def _named(values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise PacelineError(f"metrics are a dict of numbers and not {_describe(values)}; write a dict: {_EXAMPLE}")
    if len(values) > _MOST_METRICS:
        raise PacelineError(f"{len(values)} metrics are more than {_MOST_METRICS}; leave some out")
    for name in values:
        if not _is_name(name):
            raise PacelineError(
                f"{name!r:.120} is no name for a metric; write a text of 1 to {_MOST_NAME} bytes, as in {_EXAMPLE}"
            )
    return values
