"""A framework's metrics, under the names that Paceline shows everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import PacelineError

_PREFIXES = ("val_", "val/", "valid_", "valid/", "eval_", "eval/")
_SHOWN = {"acc": "accuracy"}


def shown(measured: Mapping[str, Any], nothing: str) -> dict[str, Any]:
    """val_loss as loss, val_acc as accuracy. `nothing` says what to do if there is no metric."""
    found = {}
    for name, value in measured.items():
        for prefix in _PREFIXES:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                break
        found[_SHOWN.get(name, name)] = value
    if not found:
        raise PacelineError(f"validation measured nothing; {nothing}")
    return found
