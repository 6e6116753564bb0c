"""Lines of a program around its loop: which process writes there, and what an error says."""

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


def train_one_batch(member: Member) -> None:
    """The whole job: the program is behind its loop then."""
    member.begin()
    member.step([1, 2, 3])
    member.say_end()
    member.receive("done")


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
        train_one_batch(member)
        assert member.receive("error")["text"].startswith("NameError: name 'los' is not defined")
        assert "no batches" not in member.log


def test_a_loop_that_counts_steps_ends_with_a_line(tmp_path: Path) -> None:
    steps = "for _ in range(1_000_001):\n" + "\n".join("    " + line for line in LOOP.splitlines()) + "\n"
    with Member(tmp_path, BEHIND.replace(LOOP, steps)) as member:
        train_one_batch(member)
        assert member.receive("error")["text"] == (
            "the program asks for batches again and again, and the job is over; let the loop over the job be the only "
            "one, and give join() epochs= in place of a number of steps"
        )
        assert member.wait() == 1
        assert member.log.count("this loop has nothing to do") == 1 and "first at the end" not in member.log


def test_batches_that_are_asked_for_one_by_one_behind_the_end(tmp_path: Path) -> None:
    with Member(tmp_path, BEHIND + "next(iter(job))") as member:
        train_one_batch(member)
        assert member.receive("error")["text"] == (
            "StopIteration; if these were the job's batches: the job is over, so write `for batch in job:`, which ends "
            "with it"
        )


@pytest.mark.parametrize("place", ["before join()", "behind the loop"])
def test_a_folder_that_another_process_has_made(tmp_path: Path, place: str) -> None:
    (tmp_path / "out").mkdir()
    make = "import os; os.makedirs('out')\n"
    with Member(tmp_path, HEAD + make if place == "before join()" else BEHIND + make) as member:
        if place != "before join()":
            train_one_batch(member)
        assert member.receive("error")["text"] == (
            "FileExistsError: [Errno 17] File exists: 'out'; each process of a job starts this script, so it may be "
            "there already: os.makedirs(FOLDER, exist_ok=True)"
        )
