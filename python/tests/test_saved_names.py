"""The names of tensors in an export: those of the model's own state_dict()."""

from __future__ import annotations

from typing import Any

from torch import nn

from paceline.inventory import take_inventory


class Wrapped(nn.Module):
    """Has one model twice, and its names in the state dict, as Lightning's Fabric wraps one."""

    def __init__(self) -> None:
        super().__init__()
        first, last = nn.Linear(4, 4), nn.Linear(4, 4)
        last.weight = first.weight
        self.passes = self.whole = nn.Sequential(first, last)

    def state_dict(self, *words: Any, **named: Any) -> Any:
        return self.whole.state_dict(*words, **named)


def test_further_names_of_a_tensor_are_the_models_own_too() -> None:
    inventory = take_inventory(Wrapped())
    assert [entry.name for entry in inventory.entries] == ["0.weight", "0.bias", "1.bias"]
    assert inventory.aliases == [("1.weight", "0.weight")]
    plain = take_inventory(Wrapped().whole)
    assert plain.aliases == [("1.weight", "0.weight")]
