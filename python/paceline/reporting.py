"""Reports an exception that ends the program to the worker, once."""

from __future__ import annotations

import contextlib
import sys
import threading
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
        self._thread = 0  # the one that has the job: an exception in another one ends no program
        self._hook: Any = None
        self._hook_of_threads: Any = None
        self._heard: BaseException | None = None  # the error that the worker was told of

    def watch(self) -> None:
        """From now on, what nobody catches; once more where the program has set a hook of its own since."""
        self._thread = threading.get_ident()
        if sys.excepthook is not self._hook:
            self._hook = sys.excepthook = self._in_main_thread(sys.excepthook)
        if threading.excepthook is not self._hook_of_threads:
            self._hook_of_threads = threading.excepthook = self._in_thread(threading.excepthook)

    def _in_main_thread(self, before: Any) -> Any:
        def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            self._uncaught(error, lambda: before(kind, error, trace), before is sys.__excepthook__)

        return hook

    def _in_thread(self, before: Any) -> Any:
        def hook(uncaught: Any) -> None:
            has_job = threading.get_ident() == self._thread and not isinstance(uncaught.exc_value, SystemExit)
            pythons = before is getattr(threading, "__excepthook__", before)  # Python 3.10
            self._uncaught(uncaught.exc_value if has_job else None, lambda: before(uncaught), pythons)

        return hook

    def _uncaught(self, error: BaseException | None, go_on: Callable[[], None], is_pythons: bool) -> None:
        """go_on: what was done with it before, by Python itself or by the program."""
        try:
            if error is not None:
                self.report(error)
        finally:
            # A line explains such a mistake, and the stack is this package's own.
            explained = isinstance(error, PacelineError) and self._heard is error
            if not explained or not is_pythons:
                go_on()

    def report(self, error: BaseException) -> None:
        if self.done:
            return
        failure = failure_of(error)
        way_out, failure.too_few = self.way_out(error)
        failure.text += way_out or _of_processes(error)
        if self.tell(failure):
            self._heard = error

    def job_is_over(self, way_out: Callable[[BaseException], str]) -> None:
        self.over = True
        self.way_out = lambda error: (way_out(error), None)

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


def _of_processes(error: BaseException) -> str:
    """The end of the line about an error that comes of the script's running in several processes."""
    if not isinstance(error, FileExistsError):
        return ""
    return (
        "; each process of a job starts this script, so it may be there already: os.makedirs(FOLDER, exist_ok=True)"
    )


reporter = Reporter()

with contextlib.suppress(PacelineError):  # join() says what is wrong with the descriptor
    if open_channel() is not None:
        reporter.watch()
