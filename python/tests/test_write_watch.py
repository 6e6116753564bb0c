"""Writes to weights where the memory itself forbids none: they would be lost without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fake_member import Member
from gpu import ON_CPU, ON_GPU, STAND_IN, needs_gpu
from scripts import HEAD, LOOP

WRITES = {
    "in place": "model.last.bias.data += 0; model.last.bias.add_(1)",
    "an optimizer of its own": "other.step()",
    "in its place": "model.last.bias.data = model.last.bias.data + 1",
    "an initialization": "nn.init.zeros_(model.last.bias)",
}
PAST_THE_COUNT = "model.last.bias.data.mul_(1.01)"
OTHERS = [STAND_IN, pytest.param(ON_GPU, marks=needs_gpu)]


def loop(line: str, arguments: str = "", model: str = "Net()") -> str:
    return (
        HEAD
        + f"model = {model}.to(paceline.device())\n"
        + "other = torch.optim.SGD(model.last.parameters(), lr=0.1)\n"
        + f"job = paceline.join(model, Points(), {arguments})\nfor x, y in job:\n"
        + "    loss_of(model, x.to(model.last.weight.dtype), y).backward()\n"
        + f"    with torch.no_grad():\n        {line}\n    job.step(1.0)\n"
    )


def ends_with_a_line(folder: Path, script: str, environment: dict[str, str]) -> None:
    with Member(folder, script, environment=environment) as member:
        member.begin()
        member.order([1, 2, 3])
        error = member.receive("error")
        assert "wrote to the weight last." in error["text"] and 'weights="copy"' in error["text"]
        assert error["where"].startswith("train.py:")
        assert member.wait() == 1


@pytest.mark.parametrize("environment", OTHERS)
@pytest.mark.parametrize("write", WRITES)
def test_on_another_device(tmp_path: Path, write: str, environment: dict[str, str]) -> None:
    ends_with_a_line(tmp_path, loop(WRITES[write]), environment)


@pytest.mark.parametrize("environment", OTHERS)
def test_past_the_count_of_changes(tmp_path: Path, environment: dict[str, str]) -> None:
    ends_with_a_line(tmp_path, loop(PAST_THE_COUNT), environment)


@pytest.mark.parametrize("write", WRITES)
def test_where_weights_are_copied(tmp_path: Path, write: str) -> None:
    ends_with_a_line(tmp_path, loop(WRITES[write], model="Net().to(torch.bfloat16)"), ON_CPU)


def test_what_is_put_in_the_place_of_shared_memory(tmp_path: Path) -> None:
    ends_with_a_line(tmp_path, loop(WRITES["in its place"]), ON_CPU)


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
@pytest.mark.parametrize("write", [*WRITES, "past the count"])
def test_who_asks_for_copies_may_write(tmp_path: Path, write: str, environment: dict[str, str]) -> None:
    line = WRITES.get(write, PAST_THE_COUNT)
    with Member(tmp_path, loop(line, "weights='copy'"), environment=environment) as member:
        weights, _ = member.begin()
        before = weights.floats.clone()
        member.step([1, 2, 3])
        member.step([1, 2, 3])
        assert torch.equal(weights.floats, before)
        assert member.end() == 0, member.log


# A program of contrastive learning: the second network follows the first one.
FOLLOWS = """
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.slow = Net(), Net().requires_grad_(False)
    def forward(self, x):
        return self.net(x)
model = Pair().to(paceline.device())
first = model.slow.last.bias.clone()
job = paceline.join(model, Points(), weights={weights!r})
for x, y in job:
    {before}
    loss_of(model, x, y).backward()
    job.step(1.0)
    {after}
print("followed", not torch.equal(model.slow.last.bias, first))
"""
FOLLOW = "model.slow.last.bias.data = model.slow.last.bias.data * 0.9 + model.net.last.bias.data * 0.1"


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
@pytest.mark.parametrize("when", ["before the step", "after it"])
def test_a_frozen_weight_that_follows_another(tmp_path: Path, when: str, environment: dict[str, str]) -> None:
    early = when == "before the step"
    lines = {"before": FOLLOW if early else "pass", "after": "pass" if early else FOLLOW}
    with Member(tmp_path, HEAD + FOLLOWS.format(weights="view", **lines), environment=environment) as member:
        member.begin()
        if not early:
            member.step([1, 2, 3])
        member.order([1, 2, 3])
        error = member.receive("error")
        assert "wrote to the weight slow.last.bias" in error["text"] and 'weights="copy"' in error["text"]


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
def test_a_frozen_weight_may_follow_where_weights_are_copied(tmp_path: Path, environment: dict[str, str]) -> None:
    script = HEAD + FOLLOWS.format(weights="copy", before=FOLLOW, after=FOLLOW)
    with Member(tmp_path, script, environment=environment) as member:
        member.begin()
        member.step([1, 2, 3])
        member.step([1, 2, 3])
        assert member.end() == 0, member.log
        assert "followed True" in member.log


BUFFERS = """
class Warm(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("heat", torch.ones(2))
        self.last = nn.utils.parametrizations.spectral_norm(self.last)
model = Warm().to(paceline.device())
def evaluate():
    model.heat.mul_(3)  # the evaluation's own affair
    return 1.0
job = paceline.join(model, Points(), evaluate=evaluate)
for x, y in job:
    {before}
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
    {after}
print("after the loop")
"""
LATE = {
    "in place": "model.heat.mul_(0.9)",
    "in its place": "model.heat.data = model.heat * 0.9",
    "another tensor": "model.heat = model.heat * 0.9",
}


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
@pytest.mark.parametrize("write", LATE)
def test_a_buffer_that_is_changed_after_the_step_goes_with_the_next_one(
    tmp_path: Path, write: str, environment: dict[str, str]
) -> None:
    script = HEAD + BUFFERS.format(before="pass", after=LATE[write])
    with Member(tmp_path, script, environment=environment) as member:
        _, gradients = member.begin()
        member.step([1, 2, 3])
        assert member.tensor(gradients, "heat").tolist() == [1, 1]
        member.step([1, 2, 3])
        assert member.tensor(gradients, "heat").tolist() == pytest.approx([0.9, 0.9])
        assert member.end() == 0, member.log


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
@pytest.mark.parametrize("write", LATE)
def test_a_buffer_that_is_changed_before_the_step(tmp_path: Path, write: str, environment: dict[str, str]) -> None:
    """A forward pass after the step and an evaluation between two steps change buffers that nobody misses."""
    after = "model.train(); model(x)"
    script = HEAD + BUFFERS.format(before=LATE[write], after=after)
    with Member(tmp_path, script, environment=environment) as member:
        _, gradients = member.begin()
        member.step([1, 2, 3])
        assert member.tensor(gradients, "heat").tolist() == pytest.approx([0.9, 0.9])
        member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
        member.receive("evaluated")
        member.step([1, 2, 3])
        member.step([1, 2, 3])
        assert member.tensor(gradients, "heat").tolist() == pytest.approx([0.9, 0.9])
        assert member.end() == 0, member.log
        assert "after the loop" in member.log


def test_a_buffer_that_an_evaluation_between_two_steps_changes(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + BUFFERS.format(before="pass", after="pass")) as member:
        member.begin()
        for _ in range(2):
            member.step([1, 2, 3])
            member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
            member.receive("evaluated")
        member.step([1, 2, 3])
        assert member.end() == 0, member.log


def test_a_buffer_that_was_made_in_inference_mode(tmp_path: Path) -> None:
    """PyTorch counts no changes of it."""
    before = "with torch.inference_mode(): model.heat = model.heat * 0.9"
    with Member(tmp_path, HEAD + BUFFERS.format(before=before, after="pass")) as member:
        _, gradients = member.begin()
        for _ in range(2):
            member.step([1, 2, 3])
        assert member.tensor(gradients, "heat").tolist() == pytest.approx([0.9, 0.9])
        assert member.end() == 0, member.log


# A module of the program's own, which follows what it sees, as batch norm does.
CENTERED = """
class Centered(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.probe = nn.Sequential(nn.BatchNorm1d(6), nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3)))
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                {write}
        return super().forward(x - self.mean)
model = Centered().to(paceline.device())
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
    model(x)
    model.probe(x)  # which is PyTorch's own, and in no step
print("after the loop")
"""
FORWARDS = {
    "in place": "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)",
    "another tensor": "self.mean = 0.9 * self.mean + 0.1 * x.mean(0)",
}


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
@pytest.mark.parametrize("write", FORWARDS)
def test_a_forward_pass_after_the_step_changes_what_one_in_it_changes(
    tmp_path: Path, write: str, environment: dict[str, str]
) -> None:
    with Member(tmp_path, HEAD + CENTERED.format(write=FORWARDS[write]), environment=environment) as member:
        _, gradients = member.begin()
        for _ in range(3):
            member.step([1, 2, 3])
        assert member.tensor(gradients, "mean").abs().sum() > 0
        assert member.end() == 0, member.log
        assert "after the loop" in member.log


# A recurrent model whose parameters are moved in the forward pass, which cuDNN does on a GPU.
RECURRENT = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(6, 5)
        self.last = nn.Linear(5, 3)
    def forward(self, x):
        for parameter in self.recurrent.parameters():
            parameter.data = parameter.data.clone()
        return self.last(self.recurrent(x[None])[0][0])
model = Model().to(paceline.device())
job = paceline.join(model, Points(), evaluate=lambda: model(torch.ones(1, 6)).sum())
"""


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
def test_recurrent_weights_that_are_moved_are_not_stale(tmp_path: Path, environment: dict[str, str]) -> None:
    with Member(tmp_path, HEAD + RECURRENT + LOOP, environment=environment) as member:
        weights, gradients = member.begin()
        losses = []
        for _ in range(3):
            losses.append(member.step(range(8))["loss"])
            for tensor in member.tensors:
                name = tensor["name"]
                if name.startswith("recurrent"):
                    member.tensor(weights, name).sub_(5 * member.tensor(gradients, name))
        assert losses[0] > losses[1] > losses[2], losses
        assert member.end() == 0, member.log


# Moved away and back, as somebody does to save memory while another model is measured.
MOVES = """
model = Net().to(paceline.device())
def evaluate():
    total = sum(float(p.detach().double().sum()) for p in model.parameters())
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return {"loss": 0.0, "total": total}
job = paceline.join(model, Points(), evaluate=evaluate)
"""


@pytest.mark.parametrize("environment", [ON_CPU, *OTHERS])
def test_an_evaluator_that_moves_the_model_measures_the_weights_of_now(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with Member(tmp_path, HEAD + MOVES + LOOP, role="evaluator", environment=environment) as member:
        member.take_model()
        weights = member.map(0, write=False)
        found = []
        for value in (1.0, 2.0, 3.0):
            weights.floats.fill_(value)
            member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
            found.append(member.receive("evaluated")["metrics"]["total"])
        assert found[1] == pytest.approx(2 * found[0]) and found[2] == pytest.approx(3 * found[0])
        assert member.end() == 0, member.log
