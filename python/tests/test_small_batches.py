"""An error in a micro-batch that is too small names the word that makes it larger."""

from __future__ import annotations

from pathlib import Path

from fake_member import Member
from scripts import HEAD, LOOP


def test_a_micro_batch_that_is_too_small_says_that_another_micro_batch_is_wanted(tmp_path: Path) -> None:
    body = """
def loss_of(model, x, y):
    assert len(x) >= 2, "too few"
    return F.cross_entropy(model(x), y)
job = paceline.join(model := Net(), Points())
"""
    with Member(tmp_path, HEAD + body + LOOP) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        member.order([1, 2, 3, 4, 5], micro_batch=2)
        error = member.receive("error")
    assert error["text"] == (
        "AssertionError: too few; this micro-batch has 1 sample: write a micro_batch of at least 2, and one that "
        "leaves no smaller rest of a batch"
    )
    assert "too_few" not in error
