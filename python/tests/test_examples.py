"""The examples, on the project's data where it is there: a few steps each, and what they do to the loss."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fake_member import PACKAGE, Member

EXAMPLES = PACKAGE.parent / "examples" / "python"
DATA = next(
    (
        path
        for path in (PACKAGE.parent / "../shared/data", Path(os.environ.get("PACELINE_DATA", "/nonexistent")))
        if path.exists()
    ),
    None,
)

pytestmark = pytest.mark.skipif(DATA is None, reason="the project's data is not at ../shared/data")


def start(folder: Path, name: str, arguments: list[str], role: str = "worker") -> Member:
    return Member(folder, (EXAMPLES / name).read_text(), role=role, arguments=arguments, settings={"epochs": 1})


def follow(member: Member, rate: float, steps: int, batch: int) -> tuple[list[float], dict[str, Any]]:
    weights, gradients = member.begin()
    losses = []
    for step in range(steps):
        losses.append(member.step([step * batch + i for i in range(batch)])["loss"])
        for tensor in member.tensors:
            if tensor["kind"] == "parameter":
                value = member.tensor(weights, tensor["name"])
                value.sub_(rate * member.tensor(gradients, tensor["name"]))
            elif tensor["kind"] == "statistic":
                member.tensor(weights, tensor["name"]).copy_(member.tensor(gradients, tensor["name"]))
    member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
    return losses, member.receive("evaluated", seconds=120)["metrics"]


@pytest.mark.parametrize(
    "name, rate, steps, better",
    [("mnist.py", 0.1, 15, 2.1), ("cifar10.py", 0.1, 10, 2.3), ("char_transformer.py", 0.3, 6, 5.0)],
)
def test_an_example(tmp_path: Path, name: str, rate: float, steps: int, better: float) -> None:
    assert DATA is not None
    with start(tmp_path, name, ["--data", str(DATA.resolve())]) as member:
        losses, measured = follow(member, rate, steps, 32)
        assert losses[-1] < losses[0] and measured["loss"] < better * 1.2
        assert member.end() == 0, member.log


def test_the_worker_in_numpy(tmp_path: Path) -> None:
    assert DATA is not None
    text = (EXAMPLES / "numpy_worker.py").read_text()
    assert len(text.splitlines()) < 60 and "paceline" not in text.split('"""')[2].lower().replace(
        "paceline_program_fd", ""
    )
    with start(tmp_path, "numpy_worker.py", [str(DATA.resolve())]) as member:
        losses, measured = follow(member, 0.5, 60, 64)
        assert losses[0] == pytest.approx(2.3026, abs=1e-3) and losses[-1] < 1
        assert measured["accuracy"] > 0.8
        assert member.end() == 0, member.log
