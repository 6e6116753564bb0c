"""A model may be unable to compute on few samples. Then batches become larger, or a line says how to keep them so."""

from __future__ import annotations

from .errors import PacelineError


def behind_step(error: BaseException) -> str:
    """The end of the line about an error between job.step() and the next batch."""
    if isinstance(error, (AttributeError, TypeError)) and "NoneType" in str(error):
        return "; if that is a gradient: job.step() has sent it, and there is none behind it, so read it before"
    return ""


class SmallBatches:
    def __init__(self, before: float | None = None) -> None:
        """before: the smallest batch that the program computed, if it ran before."""
        self._least = None if before is None else int(before)  # the smallest batch that the program has computed

    def computed(self, samples: int) -> None:
        self._least = samples if self._least is None else min(self._least, samples)

    def too_few(self, samples: int, error: BaseException) -> dict[str, int] | None:
        """How many samples may do after an error in a batch of so many; None if larger batches fail, too.

        The job may start the program again with larger batches.
        """
        enough = self._enough(samples, error)
        return None if enough is None else {"enough": enough, "computed": self._least or 0}

    def _enough(self, samples: int, error: BaseException) -> int | None:
        if samples == 0 or isinstance(error, PacelineError) or not isinstance(error, Exception):
            return None
        if samples == 1 and str(error).startswith("Expected more than 1 value per channel"):
            return 2
        return None if self._least is None or samples >= self._least else min(2 * samples, self._least)

    def said(self, samples: int, error: BaseException, is_part: bool) -> tuple[str, dict[str, int] | None]:
        """way_out() and too_few(). A larger batch may leave a part that is as small."""
        return self.way_out(samples, error, is_part), None if is_part else self.too_few(samples, error)

    def way_out(self, samples: int, error: BaseException, is_part: bool = False) -> str:
        """The end of the line about an error in a batch of so many samples, or in a part of it.

        Nothing if more samples fail, too.
        """
        enough = self._enough(samples, error)
        if enough is None:
            return ""
        if is_part:  # a larger batch may leave as small a rest
            number = "1 sample" if samples == 1 else f"{samples} samples"
            return (
                f"; this micro-batch has {number}: write a micro_batch of at least {enough}, and one that leaves no "
                "smaller rest of a batch"
            )
        has = "this batch has 1 sample" if samples == 1 else f"this batch has {samples} samples"
        if self._least is None or samples >= self._least:
            return f"; {has}: give join() least_batch={enough}, or drop_last=True, and there is none so small"
        return (
            f"; {has}, and all before it had {self._least} or more: if the program cannot compute on so few, give "
            f"join() least_batch={enough}, or drop_last=True"
        )
