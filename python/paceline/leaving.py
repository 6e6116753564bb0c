"""A program that leaves its loop or ends before the job does, or loops on behind its end: a line says so."""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any, Callable, NoReturn

from .failures import Failure, where_of
from .launching import leave_at_once
from .reporting import reporter

_GRACE_S = 2.0


class Leaving:
    def __init__(self) -> None:
        self._failure = Failure("the program ended without a loop over the job; write `for batch in job:`", "")
        self._left_by = 0  # the thread that had the loop
        self._said_over = False
        atexit.register(self._exit)

    def left_early(self) -> None:
        """The loop is gone. If an exception ended it, it is reported within a moment, and counts instead."""
        text = (
            "the loop over the job was left before the job's end (by break, return, an exception or "
            "next(iter(job))); let it run to its end, which epochs= or evaluate.stop_at_target sets, and take "
            "samples to look at from the data set"
        )
        self._failure = Failure(text, where_of(None))
        self._left_by = threading.get_ident()
        timer = threading.Timer(_GRACE_S, self._exit)
        timer.daemon = True
        timer.start()

    def went_on(self) -> NoReturn:
        """The program caught the exception that ended its part of the job, and asks for another batch."""
        text = (
            "the loop over the job went on after an exception that had ended it: let an exception of job.step() end "
            "the program, and catch one of the data set in the data set"
        )
        if not reporter.done:
            reporter.tell(Failure(text, where_of(None)))
        end_program(text)

    def say_that_it_is_over(self) -> None:
        if not self._said_over:
            self._said_over = True
            print(
                "paceline: this loop has nothing to do, as the job is over. One loop trains all epochs of the job: "
                "leave the loop over epochs out, and give join() epochs=",
                file=sys.stderr,
                flush=True,
            )

    def say_that_weights_are_old(self) -> None:
        print(
            "paceline: the job's last weights did not come in time, so this model has those of a step before; "
            "`paceline export` writes the last ones",
            file=sys.stderr,
            flush=True,
        )

    def _exit(self) -> None:
        if reporter.done or reporter.over:
            return
        if (error := _in_hand(self._left_by)) is not None:
            reporter.report(error)
        else:
            print(f"paceline: {self._failure.text}", file=sys.stderr, flush=True)
            reporter.tell(self._failure)


def end_program(why: str) -> NoReturn:
    """Ends the program before its job is done, whichever of its threads calls this.

    Python ignores a SystemExit of another thread than the main one, which would go on and might save the model.
    """
    if threading.current_thread() is threading.main_thread():
        raise SystemExit(f"paceline: {why}")
    print(f"paceline: {why}", file=sys.stderr)
    leave_at_once(1)


def without_batches(role: str) -> Callable[[BaseException], str]:
    """The end of the line about an error behind a loop that had no batches."""
    loop = "the evaluator runs these lines too, and its loop has" if role == "evaluator" else "this worker's loop had"
    hint = f"; {loop} no batches: write `if job.is_first:` before them, or give the name a value before the loop"
    return lambda error: hint if isinstance(error, NameError) else ""


def _in_hand(thread: int) -> Exception | None:
    """The exception that this thread handles now: its `finally` or `with` may take long."""
    all_of_them: Any = getattr(sys, "_current_exceptions", dict)()  # Python 3.10
    error = all_of_them.get(thread)
    if isinstance(error, tuple):  # until Python 3.12
        error = error[1]
    return error if isinstance(error, Exception) else None
