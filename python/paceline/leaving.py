"""A program that leaves its loop or ends before the job does, or loops on behind its end: a line says so."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Iterator
from typing import Any, Callable, NoReturn

from .errors import PacelineError
from .failures import Failure, where_of
from .launching import leave_at_once
from .reporting import reporter

_GRACE_S = 2.0
# A loop without end comes to this within seconds, and a loop over epochs never does.
_MOST_LOOPS_BEHIND_END = 1_000_000


class Leaving:
    def __init__(self) -> None:
        self._failure = Failure("the program ended without a loop over the job; write `for batch in job:`", "")
        self._left_by = 0  # the thread that had the loop
        self._loops_behind_end = 0
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

    def no_batches(self) -> Iterator[Any]:
        """The batches of a loop behind the job's end.

        Raises an error for a program that begins such loops without end.
        """
        self._loops_behind_end += 1
        if self._loops_behind_end == 1:
            print(
                "paceline: this loop has nothing to do, as the job is over. One loop trains all epochs of the job: "
                "leave the loop over epochs out, and give join() epochs=. A function behind it that wants batches of "
                "the training set (update_bn()) needs a DataLoader of your own",
                file=sys.stderr,
                flush=True,
            )
        if self._loops_behind_end >= _MOST_LOOPS_BEHIND_END:
            raise PacelineError(
                "the program asks for batches again and again, and the job is over; let the loop over the job be the "
                "only one, and give join() epochs= in place of a number of steps"
            )
        return iter(())

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


def behind_the_loop(role: str, had_batches: bool) -> Callable[[BaseException], str]:
    """The end of the line about an error behind the loop of this process."""
    loop = "the evaluator runs these lines too, and its loop has" if role == "evaluator" else "this worker's loop had"
    unset = f"; {loop} no batches: write `if job.is_first:` before them, or give the name a value before the loop"
    ended = "; if these were the job's batches: the job is over, so write `for batch in job:`, which ends with it"

    def way_out(error: BaseException) -> str:
        if isinstance(error, StopIteration):
            return ended
        return unset if isinstance(error, NameError) and not had_batches else ""

    return way_out


def _in_hand(thread: int) -> Exception | None:
    """The exception that this thread handles now: its `finally` or `with` may take long."""
    all_of_them: Any = getattr(sys, "_current_exceptions", dict)()  # Python 3.10
    error = all_of_them.get(thread)
    if isinstance(error, tuple):  # until Python 3.12
        error = error[1]
    return error if isinstance(error, Exception) else None
