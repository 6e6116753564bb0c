"""Mistakes that a person can fix, each in one line."""

import contextlib
from typing import Callable


class PacelineError(RuntimeError):
    """A mistake in the program or in how it was started. Its text is one line."""


def name_sample(error: BaseException, name: Callable[[], str]) -> None:
    """Has this error of the program's own say at which sample it happened, in its line and its traceback."""
    if isinstance(error, PacelineError) or hasattr(error, "paceline_sample"):
        return
    with contextlib.suppress(Exception):  # the error itself is what counts
        error.paceline_sample = sample = name()  # type: ignore[attr-defined]
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"at {sample}")


def give_hint(error: BaseException, hint: str) -> None:
    """Has the line about this error of the program's own end with a way out."""
    with contextlib.suppress(Exception):
        error.paceline_hint = hint  # type: ignore[attr-defined]


def kind_of(value: object) -> str:
    """In a sentence: "list", "the class SGD"."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
