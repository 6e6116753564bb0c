"""A program whose loop is in a thread of its own, as behind a window or a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_member import Ended, Member
from scripts import HEAD

IN_A_THREAD = (
    HEAD
    + """
import threading

def train():
    model = Net()
    job = paceline.join(model, Points())
    for x, y in job:
        loss = loss_of(model, x, y)
        {breaks}
        loss.backward()
        job.step(loss)

def fail():
    raise ValueError("not the job's")

other = threading.Thread(target=fail)
other.start()
other.join()
thread = threading.Thread(target=train)
thread.start()
thread.join()
print("saved")
"""
)


@pytest.mark.parametrize("failed", [True, False])
def test_the_program_goes_on_behind_it_only_if_the_job_is_done(tmp_path: Path, failed: bool) -> None:
    """Python ignores a SystemExit of a thread."""
    with Member(tmp_path, IN_A_THREAD.replace("{breaks}", "")) as member:
        member.begin()
        member.step([1, 2, 3])
        assert member.end(failed=failed, why="the run was stopped") == int(failed), member.log
    assert ("saved" in member.log) != failed
    line = "paceline: this program ends before the job is done: the run was stopped"
    assert (line in member.log.splitlines()) == failed


def test_an_exception_in_it_is_said(tmp_path: Path) -> None:
    with Member(tmp_path, IN_A_THREAD.replace("{breaks}", "raise ValueError('in the loop')")) as member:
        member.begin()
        member.order([1, 2, 3])
        error = member.receive("error")
        assert error["text"] == "ValueError: in the loop" and error["where"].startswith("train.py:")
        with pytest.raises(Ended):
            member.receive()
