"""Steps of a whole model that are given up for want of memory, in a job that may cut the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .channel import Message
from .memory_short import Computing, is_out_of_memory, out_of_memory


class GivenUp:
    """units: those of the model; 0 if the job cannot cut it, and then no step is given up."""

    def __init__(self, units: int) -> None:
        self._units = units
        self.micro_batch = 0  # the size of micro-batches of the step in hand; 0: no step is in hand
        self._answer: Message | None = None

    def __bool__(self) -> bool:
        """Whether the step in hand is given up, and Paceline has not been told."""
        return self._answer is not None

    def take_answer(self) -> Message:
        assert self._answer is not None
        answer, self._answer = self._answer, None
        self.micro_batch = 0
        return answer

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Around a part of a step. If it has no memory, the block ends, and nothing holds what the block had."""
        try:
            yield
        except Exception as error:
            if not self._units or not self.micro_batch or not is_out_of_memory(error):
                raise
            self._answer = out_of_memory(error, Computing(0, self._units, self.micro_batch))
