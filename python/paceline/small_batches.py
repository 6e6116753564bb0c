"""A model may not be able to compute on few samples, and people then need the word that keeps batches larger."""

from __future__ import annotations

from .errors import PacelineError


class SmallBatches:
    def __init__(self) -> None:
        self._least: int | None = None  # the smallest batch that the program has computed

    def computed(self, samples: int) -> None:
        self._least = samples if self._least is None else min(self._least, samples)

    def way_out(self, samples: int, error: BaseException) -> str:
        """The end of the line about an error in a batch of so many samples: nothing if larger batches fail too."""
        if samples == 0 or isinstance(error, PacelineError):
            return ""
        has = "this batch has 1 sample" if samples == 1 else f"this batch has {samples} samples"
        if str(error).startswith("Expected more than 1 value per channel"):
            return f"; {has}: give join() least_batch=2, or drop_last=True, and there is none so small"
        if self._least is None or samples >= self._least:
            return ""
        return (
            f"; {has}, and all before it had {self._least} or more: if the program cannot compute on so few, give "
            f"join() least_batch={min(2 * samples, self._least)}, or drop_last=True"
        )
