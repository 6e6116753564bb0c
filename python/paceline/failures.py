"""An exception in the program, as a line for the person who started the job."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from dataclasses import dataclass
from types import FrameType, TracebackType

from .errors import PacelineError

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
_MOST_TEXT = 1000
_MOST_NAME = 500


@dataclass
class Failure:
    text: str  # one line
    where: str  # FILE:LINE
    too_few: dict[str, int] | None = None  # SmallBatches.too_few()

    def message(self) -> dict[str, object]:
        said: dict[str, object] = {"type": "error", "text": self.text, "where": self.where}
        return said if self.too_few is None else said | {"too_few": self.too_few}


def failure_of(error: BaseException) -> Failure:
    carried = getattr(error, "paceline_failure", None)  # from the process in which it happened
    if isinstance(carried, Failure):
        return carried
    return Failure(_text(error), where_of(error.__traceback__))


def _text(error: BaseException) -> str:
    said = " ".join(str(error).split())
    if not isinstance(error, PacelineError):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    sample = getattr(error, "paceline_sample", "")  # errors.name_sample()
    hint = getattr(error, "paceline_hint", "")  # errors.give_hint()
    return said[:_MOST_TEXT] + (f", at {sample[-_MOST_NAME:]}" if sample else "") + (f"; {hint}" if hint else "")


def where_of(trace: TracebackType | None) -> str:
    """The user's own innermost line: of the exception's frames, then of those that called them."""
    raised = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    return _first_of_users(raised[::-1]) or where_in(sys._getframe()) or (_place(*raised[-1]) if raised else "")


def where_in(frame: FrameType | None) -> str:
    """The same, of a frame and its callers."""
    return _first_of_users([(caller.f_code.co_filename, line) for caller, line in traceback.walk_stack(frame)])


def _first_of_users(frames: list[tuple[str, int]]) -> str:
    return next((_place(name, line) for name, line in frames if _is_users(name)), "")


def _is_users(name: str) -> bool:
    path = os.path.abspath(name)
    if name.startswith("<") or path.startswith((_PACKAGE, _LIBRARY)):
        return False
    return not any(part in ("site-packages", "dist-packages") for part in path.split(os.sep))


def _place(name: str, line: int) -> str:
    here = os.getcwd() + os.sep
    return f"{name[len(here) :] if name.startswith(here) else name}:{line}"
