"""Answers of actors of a Ray cluster. Faults of the cluster become one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from ..errors import PacelineError


def answers(calls: Sequence[Any], limit_s: float) -> list[Any]:
    """The answers to these calls, the first of which is host 0's. PacelineError if one does not come in time."""
    try:
        return list(ray.get(list(calls), timeout=limit_s))
    except GetTimeoutError:
        late = [rank for rank, call in enumerate(calls) if not ray.wait([call], timeout=0)[0]]
        hosts = ", ".join(map(str, late)) or "a host"
        raise PacelineError(
            f"Ray has started no process on the node of host {hosts} that answers within {limit_s:g} s; look at "
            "`ray status` and at the logs in /tmp/ray on that node, or set a longer start_limit_s="
        ) from None
    except RayError as error:
        raise PacelineError(line_of(error)) from None


def line_of(error: BaseException) -> str:
    """The error in one line."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    lines = str(cause).strip().splitlines() or [type(error).__name__]
    # The first line of Ray's own errors says what it is, and a task's traceback ends with the error.
    line = lines[-1] if isinstance(error, RayTaskError) else lines[0]
    return line.removeprefix("paceline: ")
