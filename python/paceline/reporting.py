"""Reports an exception that ends the program to the worker, once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Callable

from .channel import open_channel
from .errors import PacelineError
from .failures import Failure, failure_of


class Reporter:
    def __init__(self) -> None:
        self.done = False  # there is nothing more to report
        self.over = False  # the job is; what the program does now is its own work
        # Returns the end of the line, which says what a person may write instead, and SmallBatches.too_few().
        self.way_out: Callable[[BaseException], tuple[str, dict[str, int] | None]] = lambda _: ("", None)
        self._hook: Any = None
        self._heard: BaseException | None = None  # the error that the worker was told of

    def watch(self) -> None:
        """From now on, what nobody catches; once more where the program has set a hook of its own since."""
        if sys.excepthook is self._hook:
            return
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            try:
                self.report(error)
            finally:
                # A line explains such a mistake, and the stack is this package's own.
                explained = isinstance(error, PacelineError) and self._heard is error
                if not explained or before is not sys.__excepthook__:
                    before(kind, error, trace)

        self._hook = sys.excepthook = hook

    def report(self, error: BaseException) -> None:
        if self.done:
            return
        failure = failure_of(error)
        way_out, failure.too_few = self.way_out(error)
        failure.text += way_out
        if self.tell(failure):
            self._heard = error

    def job_is_over(self) -> None:
        self.over = True
        self.way_out = lambda _: ("", None)

    def tell(self, failure: Failure) -> bool:
        """Returns whether the worker still listens."""
        self.done = True
        with contextlib.suppress(PacelineError):  # join() says what is wrong with the descriptor
            channel = open_channel()
            return channel is not None and channel.write(failure.message())
        return False

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """An exception that leaves this block is reported, and goes on as usual."""
        try:
            yield
        except Exception as error:
            self.report(error)
            raise


reporter = Reporter()

with contextlib.suppress(PacelineError):  # join() says what is wrong with the descriptor
    if open_channel() is not None:
        reporter.watch()
