"""A program that ends, or leaves its loop, before the job does: its worker hears why."""

from __future__ import annotations

import atexit
import sys
import threading
from types import TracebackType
from typing import Callable

from .errors import PacelineError
from .failures import Failure, where_of

_GRACE_S = 2.0


class Leaving:
    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._report = report
        self._done = False
        self._error: PacelineError = PacelineError(
            "the program ended without a loop over the job; write `for batch in job:`"
        )
        self._before = sys.excepthook
        sys.excepthook = self._uncaught
        atexit.register(self._exit)

    def ended(self) -> None:
        """There is nothing more to report."""
        self._done = True

    def left_early(self) -> None:
        """The loop is gone. If an exception ended it, that comes up within a moment and is what counts."""
        if self._done:
            return
        text = "the loop over the job was left before the job's end (by break, return or an exception)"
        self._error = PacelineError(text)
        self._error.paceline_failure = Failure(text, where_of(None), "")  # type: ignore[attr-defined]
        timer = threading.Timer(_GRACE_S, self._exit)
        timer.daemon = True
        timer.start()

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            if not self._done:
                self._report(error)
        finally:
            self._before(kind, error, trace)

    def _exit(self) -> None:
        if not self._done:
            print(f"paceline: {self._error}", file=sys.stderr, flush=True)
            self._report(self._error)
