"""Lines of a program behind its loop: which process writes there, and what an error says."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_member import Member
from scripts import HEAD, LOOP

BEHIND = (
    HEAD
    + """
model = Net()
job = paceline.join(model, Points(), evaluate=lambda: 1.0)
print("first at the start:", job.is_first)
"""
    + LOOP
    + """
print("first at the end:", job.is_first, loss.item())
"""
)


@pytest.mark.parametrize(("name", "first"), [("w0", None), ("w0", True), ("w0", False), ("w1", True), ("w1", False)])
def test_one_of_the_workers_that_are_left_writes(tmp_path: Path, name: str, first: bool | None) -> None:
    """w0 may be lost."""
    with Member(tmp_path, BEHIND, name=name, devices=2) as member:
        member.begin()
        member.step([1, 2, 3])
        assert member.end(first=first) == 0, member.log
    assert f"first at the start: {name == 'w0'}" in member.log
    assert f"first at the end: {name == 'w0' if first is None else first} " in member.log


def test_the_evaluator_writes_nothing(tmp_path: Path) -> None:
    script = BEHIND.replace(", loss.item()", "")
    with Member(tmp_path, script, role="evaluator", name="evaluator") as member:
        member.begin()
        assert member.end(first=False) == 0, member.log
    assert "first at the start: False" in member.log and "first at the end: False" in member.log


@pytest.mark.parametrize(
    ("role", "loop"),
    [
        ("evaluator", "the evaluator runs these lines too, and its loop has no batches"),
        ("worker", "this worker's loop had no batches"),
    ],
)
def test_a_name_that_the_loop_did_not_set(tmp_path: Path, role: str, loop: str) -> None:
    with Member(tmp_path, BEHIND, role=role) as member:
        member.begin()
        member.say_end(first=False)
        if role == "worker":
            member.receive("done")
        assert member.receive("error")["text"] == (
            f"NameError: name 'loss' is not defined; {loop}: write `if job.is_first:` before them, or give the name a "
            "value before the loop"
        )


def test_another_name_is_not_the_loops_fault(tmp_path: Path) -> None:
    with Member(tmp_path, BEHIND.replace("loss.item()", "los.item()")) as member:
        member.begin()
        member.step([1, 2, 3])
        member.say_end()
        member.receive("done")
        assert member.receive("error")["text"].startswith("NameError: name 'los' is not defined")
        assert "no batches" not in member.log
