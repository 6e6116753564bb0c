"""The weights that each unit of a model computes with, in numbers and in bytes, for those who plan its stages."""

from __future__ import annotations

from typing import Any

from .absent_weights import places_of
from .cuts import Cuts
from .inventory import PARAMETER, Inventory

_BYTES = ("parameter_bytes", "frozen_bytes", "tied_bytes", "tied_to")


def unit_messages(inventory: Inventory, cuts: Cuts) -> list[dict[str, object]]:
    """The `units` of a model message."""
    return [
        {**unit.message(), **{key: weights[key] for key in _BYTES}}
        for unit, weights in zip(cuts.units, weights_of_units(inventory, cuts))
    ]


def weights_of_units(inventory: Inventory, cuts: Cuts) -> list[dict[str, Any]]:
    """The parameters of each unit. One that several compute with is the first one's, and tied in the others."""
    places = {place.number: place for place in places_of(inventory.model, inventory)}
    owners = {
        number: next((index for index, unit in enumerate(cuts.units) if number in unit.weights), 0)
        for number in places
    }
    found = []
    for index, unit in enumerate(cuts.units):
        own = [number for number, owner in owners.items() if owner == index]
        tied = [number for number in sorted(unit.weights) if owners.get(number, index) < index]
        trained = [number for number in own if inventory.entries[number].kind == PARAMETER]
        weights = {number: places[number].weight for number in [*own, *tied]}
        counts = {number: weights[number].numel() for number in own}
        sizes = {number: one.numel() * one.element_size() for number, one in weights.items()}
        found.append(
            {
                "parameters": sum(counts.values()),
                "trained": sum(counts[number] for number in trained),
                "parameter_bytes": sum(sizes[number] for number in own),
                "frozen_bytes": sum(sizes[number] for number in own if number not in trained),
                "tied_bytes": sum(sizes[number] for number in tied),
                "tied_to": min((owners[number] for number in tied), default=None),
            }
        )
    return found
