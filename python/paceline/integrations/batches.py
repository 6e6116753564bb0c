"""A job in the place of a framework's data loader."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..job import Job
from ..session import session


class Batches:
    """The batches that a job leases to this worker.

    Its length is a worker's even share of an epoch, for schedules and progress bars. The real number of batches of a
    worker depends on its speed. So a framework's epoch is this many batches of this worker, and training ends
    when the job says so.
    """

    def __init__(self, samples: int, batch_size: int, drop_last: bool = False) -> None:
        here = session()
        if drop_last and samples >= batch_size:
            samples -= samples % batch_size
        self._share = math.ceil(samples / (here.round(batch_size) if here else batch_size))
        self._leased: Iterator[Any] | None = None
        self._held: list[Any] = []

    def follow(self, job: Job) -> None:
        self._leased = iter(job)

    @property
    def running(self) -> bool:
        return self._leased is not None

    def is_over(self) -> bool:
        """Waits for the next batch, or for the job's end."""
        if not self._held and self._leased is not None:
            self._held = list(islice(self._leased, 1))
            if not self._held:
                self._leased = None
        return not self._held

    def __len__(self) -> int:
        return self._share

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.is_over():
            raise StopIteration
        return self._held.pop()
