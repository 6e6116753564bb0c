"""Answers of actors of a Ray cluster, and lines for people. Faults of the cluster become one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError, RuntimeEnvSetupError

from ..errors import PacelineError

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def answers(calls: Sequence[Any], limit_s: float, hint: str = "") -> list[Any]:
    """The answers to these calls, the first of which is host 0's. PacelineError if one does not come in time.

    hint: the end of that line.
    """
    try:
        return list(ray.get(list(calls), timeout=limit_s))
    except GetTimeoutError:
        late = [rank for rank, call in enumerate(calls) if not ray.wait([call], timeout=0)[0]]
        hosts = ", ".join(map(str, late)) or "0"
        raise PacelineError(
            f"Ray's process on the node of host {hosts} has not answered within {limit_s:g} s; look at `ray status` "
            f"and at the logs in /tmp/ray on that node{hint}"
        ) from None
    except RayError as error:
        raise PacelineError(line_of(error)) from None


def say(line: str) -> None:
    print(f"paceline: {line}", file=sys.stderr, flush=True)


def line_of(error: BaseException) -> str:
    """The error in one line."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    lines = _COLOUR.sub("", str(cause)).strip().splitlines() or [type(error).__name__]
    # A traceback ends with the error, and an actor's end with its cause.
    line = lines[-1].strip()
    if isinstance(error, RuntimeEnvSetupError):
        line = f"{lines[0]} {line}" if len(lines) > 1 else line
    return line.removeprefix("paceline: ")
