"""Batches whose mean is over something else than samples: job.step(weight=) says over how much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Ended, Member, Memory
from gpu import ON_CPU, STAND_IN
from scripts import HEAD

# A mean over the samples that are not of class 0, as over the tokens of texts that are not padding.
MASKED = """
def make():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

def masked(model, x, y):
    return F.cross_entropy(model(x), y, ignore_index=0)
"""
JOINED = """
model = make().to(paceline.device())
job = paceline.join(model, Points(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1){arguments})
"""
LOOP = """
for x, y in job:
    loss = masked(model, x, y)
    loss.backward()
    job.step(loss, {"half": 0.5}, weight=(y != 0).sum())
"""


def points() -> Any:
    scope: dict[str, Any] = {}
    exec(HEAD + MASKED, scope)
    return scope


def agrees(member: Member, weights: Memory, gradients: Memory, samples: list[int], answer: dict[str, Any]) -> None:
    scope = points()
    model, data = scope["make"](), scope["Points"]()
    model.load_state_dict(member.state(weights))
    loss = scope["masked"](model, data.x[samples], data.y[samples])
    loss.backward()
    assert answer["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert answer["weight"] == int((data.y[samples] != 0).sum())
    assert answer["metrics"] == {"half": 0.5}
    for name, parameter in model.named_parameters():
        assert torch.allclose(member.tensor(gradients, name), parameter.grad, atol=1e-6), name


def classes() -> tuple[list[int], list[int]]:
    """Samples that the mean leaves out, and the others."""
    y = points()["Points"]().y
    return [i for i in range(64) if y[i] == 0], [i for i in range(64) if y[i] != 0]


@pytest.mark.parametrize("environment", [ON_CPU, STAND_IN])
def test_micro_batches_add_up_by_their_weights(tmp_path: Path, environment: dict[str, str]) -> None:
    out, others = classes()
    with Member(tmp_path, HEAD + MASKED + JOINED.format(arguments="") + LOOP, environment=environment) as member:
        weights, gradients = member.begin()
        for samples in ([*range(8)], [*range(10, 20)], out[:4] + others[:4], others[:4] + out[:4], [*range(3)]):
            answer = member.step(samples, micro_batch=4)
            agrees(member, weights, gradients, samples, answer)
        assert member.end() == 0, member.log


def test_processes_add_up_by_their_weights(tmp_path: Path) -> None:
    out, others = classes()
    text = HEAD + MASKED + JOINED.format(arguments=", processes=2") + LOOP
    with Member(tmp_path, text) as member:
        weights, gradients = member.begin()
        for samples in ([*range(9)], out[:4] + others[:4], others[:1]):
            agrees(member, weights, gradients, samples, member.step(samples))
        agrees(member, weights, gradients, [*range(12)], member.step([*range(12)], micro_batch=2))
        assert member.end() == 0, member.log


def test_a_batch_of_weight_0_has_a_gradient_of_0(tmp_path: Path) -> None:
    out, _ = classes()
    with Member(tmp_path, HEAD + MASKED + JOINED.format(arguments="") + LOOP) as member:
        _, gradients = member.begin()
        answer = member.step(out[:4])
        assert (answer["weight"], answer["loss"], answer["skipped"]) == (0, 0, False)
        assert not member.tensor(gradients, "0.weight").any()
        member.end()


def test_without_a_weight_the_answer_has_none(tmp_path: Path) -> None:
    loop = LOOP.replace(", weight=(y != 0).sum()", "")
    with Member(tmp_path, HEAD + MASKED + JOINED.format(arguments="") + loop) as member:
        member.begin()
        assert "weight" not in member.step(range(6), micro_batch=2)
        member.end()


@pytest.mark.parametrize(
    "weight, line",
    [
        ("-1", "weight = -1 is no weight; write a number from 0 to 1e+15, such as the batch's number of tokens"),
        ("2e15", "weight = 2e+15 is no weight; write a number from 0 to 1e+15"),
        ("float('inf')", "weight = inf is no weight; write a number from 0 to 1e+15"),
        ("y", "weight is not one number but a Tensor of shape [2]"),
        ("2 if parts.pop() else None", "give job.step() weight= for each part"),
    ],
)
def test_a_weight_that_is_none(tmp_path: Path, weight: str, line: str) -> None:
    loop = "parts = [False, True]\n" + LOOP.replace("(y != 0).sum()", weight)
    with Member(tmp_path, HEAD + MASKED + JOINED.format(arguments="") + loop) as member:
        member.begin()
        member.order(range(4), micro_batch=2)
        said = member.receive("error")
        assert line in said["text"] and said["where"].startswith("train.py:")
        with pytest.raises(Ended):
            member.receive()


@pytest.mark.parametrize(
    "first, says", [(True, "no weight= for this batch and one"), (False, "a weight= for this batch and none")]
)
def test_some_batches_with_a_weight_and_some_without_are_refused(tmp_path: Path, first: bool, says: str) -> None:
    loop = f"given = {[not first, first]}\n" + LOOP.replace("(y != 0).sum()", "2 if given.pop() else None")
    with Member(tmp_path, HEAD + MASKED + JOINED.format(arguments="") + loop) as member:
        member.begin()
        member.step(range(4))
        member.order(range(4))
        said = member.receive("error")
        assert f"job.step() was given {says} for those before" in said["text"] and said["where"].startswith(
            "train.py:"
        )
