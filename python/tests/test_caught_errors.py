"""A program that catches the exception that has ended its part of the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_member import Member
from scripts import HEAD

CATCHING = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    try:
        loss = loss_of(model, x, y)
        loss.backward()
        job.step(loss)
    except {caught}:
        print("caught", flush=True)
print("after the loop")
"""


@pytest.mark.parametrize(("raised", "caught"), [("ValueError", "Exception"), ("KeyboardInterrupt", "BaseException")])
def test_a_loop_that_goes_on_after_an_exception_has_not_done_the_job(
    tmp_path: Path, raised: str, caught: str
) -> None:
    """The lines behind the loop, which save the model, do not run."""
    head = HEAD.replace(
        "        return self.x", f"        if index == 9:\n            raise {raised}\n        return self.x"
    )
    with Member(tmp_path, head + CATCHING.format(caught=caught)) as member:
        member.begin()
        member.step([1, 2, 3])
        member.order([8, 9])
        error = member.receive("error")
        assert error["text"].startswith(raised if caught == "Exception" else "the loop over the job went on after")
        assert member.wait() == 1
        assert "caught" in member.log and "after the loop" not in member.log


def test_a_job_that_failed_ends_the_program_whatever_else_fails_then(tmp_path: Path) -> None:
    body = CATCHING.format(caught="Exception").replace("for x", "job._frozen.finish = lambda: 1 / 0\nfor x")
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step([1, 2, 3])
        assert member.end(failed=True) == 1
        assert "this program ends before the job is done" in member.log and "after the loop" not in member.log
