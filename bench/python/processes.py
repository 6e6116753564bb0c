"""The processor time of a process and of all that come from it, to the nanosecond."""

from __future__ import annotations

import time
from pathlib import Path


def parent_of(pid: int) -> int:
    """0 for a process that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[1])


def family(root: int) -> list[int]:
    """The process and its descendants."""
    parents = {int(one.name): parent_of(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit()}
    members = [root]
    for member in members:
        members.extend(pid for pid, parent in parents.items() if parent == member)
    return members


def _clock_of(pid: int) -> int:
    # The same as clock_getcpuclockid(3): the clock of all threads, including those that have ended.
    return (~pid << 3) | 2


def processor_seconds(pids: list[int]) -> dict[int, float]:
    return {pid: time.clock_gettime(_clock_of(pid)) for pid in pids}


def spent(before: dict[int, float], after: dict[int, float]) -> float:
    gone = before.keys() - after.keys()
    if gone:
        raise SystemExit(f"bench: process {min(gone)} ended while it was measured")
    return sum(seconds - before.get(pid, 0) for pid, seconds in after.items())
