"""The batches that will probably come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .channel import Message
from .loading import Load
from .micro_batches import cut

if TYPE_CHECKING:
    from .team import Team


class Expected:
    """loader: loads them early; None: this process loads none. team: the other processes of the worker."""

    def __init__(self, loader: Any, team: Team | None) -> None:
        self._loader = loader
        self._team = team
        self._loads: list[list[Load]] = []  # for each batch

    def take(self, message: Message, micro_batch: int | None) -> None:
        """message: `expect`. micro_batch: the size of the parts of a batch; None: it is computed at once."""
        if self._loader is not None:
            dropped = message.get("dropped")
            before = [] if dropped is None else self._loads[int(dropped) :]
            self._loads = before + [self._loads_of(batch, micro_batch) for batch in message["batches"]]
            self._loader.expect([load for loads in self._loads for load in loads])
        if self._team is not None:
            self._team.expect(message["batches"])

    def _loads_of(self, batch: Message, micro_batch: int | None) -> list[Load]:
        samples = tuple(int(index) for index in batch["samples"])
        if self._team is not None:
            samples = self._team.own_part(samples)
        parts = cut(samples, micro_batch)
        return [Load(part, int(batch["augment_seed"]), int(batch.get("epoch", 0))) for part in parts]
