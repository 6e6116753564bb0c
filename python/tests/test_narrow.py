"""Narrow tensors: gradients and weights of bfloat16 in the memory that Paceline names, under each kind of binding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from card import ON_CARD, ON_GPUS_CARD, needs_card
from fake_member import Member
from gpu import ON_CPU, STAND_IN
from scripts import HEAD
from test_card import seen
from test_words import Page

MODES = [
    pytest.param(ON_CPU, id="cpu"),
    pytest.param(STAND_IN, id="device"),
    pytest.param(ON_CARD, id="card", marks=needs_card),
    pytest.param(ON_GPUS_CARD, id="gpu", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]

# The first parameter is float32, so the program's order is not that of memory.
MIXED = """
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.norm = nn.BatchNorm1d(6)
        self.first = nn.Linear(6, 9).to(torch.bfloat16)
        self.scale = nn.Parameter(torch.ones(9))
        self.unused = nn.Linear(3, 3).to(torch.bfloat16)
        self.last = nn.Linear(9, 3).to(torch.bfloat16)
    def forward(self, x):
        hidden = self.first(self.norm(x).to(torch.bfloat16)).float() * self.scale
        return self.last(hidden.to(torch.bfloat16)).float()
def make():
    return Mixed()
"""

WHOLE = """
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)).to(torch.bfloat16)
    def forward(self, x):
        return self.net(x.to(torch.bfloat16)).float()
def make():
    return Whole()
"""

LOOP = """
model = make().to(paceline.device())
job = paceline.join(model, Points())
for i, (x, y) in enumerate(job):
    torch.save({name: tensor.clone() for name, tensor in model.state_dict().items()}, f"{i}.pt")
    loss = loss_of(model, x, y)
    loss.backward()
    named = dict(model.named_parameters())
    print("storages", *(named[name].grad.untyped_storage().data_ptr() != 0 for name in named if "last" in name))
    job.step(loss, skipped=len(job.samples) == 7)
torch.save(model.state_dict(), "last.pt")
"""


def gradients_at(body: str, state: dict[str, torch.Tensor], samples: list[int]) -> Any:
    scope: dict[str, Any] = {}
    exec(HEAD + body, scope)
    model, points = scope["make"](), scope["Points"]()
    model.load_state_dict(state)
    scope["loss_of"](model, points.x[samples], points.y[samples]).backward()
    return model


def check(member: Member, body: str, number: int, weights: Any, samples: list[int], folder: Path) -> None:
    """The program had the rounded weights, and the memory has the gradient there, bit for bit."""
    state = torch.load(folder / f"{number}.pt")
    for tensor in member.tensors:
        if tensor["kind"] == "parameter":
            dtype = getattr(torch, tensor["dtype"])
            assert torch.equal(state[tensor["name"]].cpu(), member.tensor(weights, tensor["name"]).to(dtype))
    model = gradients_at(body, {name: value.cpu() for name, value in state.items()}, samples)
    for name, parameter in model.named_parameters():
        came = member.gradient(member.memories[1], name)
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert came.dtype == parameter.dtype and torch.equal(came, expected), name
    for tensor in member.tensors:
        if tensor["kind"] == "statistic":
            name = tensor["name"]
            assert torch.equal(member.tensor(member.memories[1], name), model.state_dict()[name]), name


@pytest.mark.parametrize("body", [WHOLE, MIXED], ids=["whole", "mixed"])
@pytest.mark.parametrize("environment", MODES)
def test_gradients_and_weights_are_bfloat16_in_memory(tmp_path: Path, environment: dict[str, str], body: str) -> None:
    with Member(tmp_path, HEAD + body + LOOP, environment=environment, narrow=True) as member:
        weights, gradients = member.begin()
        bfloat16 = [tensor["dtype"] == "bfloat16" for tensor in member.tensors if tensor["kind"] == "parameter"]
        assert bfloat16 == sorted(bfloat16, reverse=True) and member.narrow > 0
        generator = torch.Generator().manual_seed(2)
        for step in range(3):
            for tensor in member.tensors:
                if tensor["kind"] == "parameter":
                    master = member.tensor(weights, tensor["name"])
                    master.mul_(1 + 0.1 * torch.randn(master.shape, generator=generator).to(master.device))
            member.publish(weights)
            gradients.floats.view(torch.bfloat16)[: member.narrow] = 17
            samples = [step + i for i in range(4 + step)]
            answer = member.step(samples)
            assert not answer["skipped"] and answer.get("finite", True)
            check(member, body, step, weights, samples, tmp_path)
            padding = torch.ones(member.narrow, dtype=torch.bool)
            for name, offset in zip((tensor["name"] for tensor in member.tensors), member.offsets):
                if offset < member.narrow:
                    padding[offset : offset + member.gradient(gradients, name).numel()] = False
            assert not gradients.floats.view(torch.bfloat16)[: member.narrow].cpu()[padding].any()
        state = member.state(weights)
        assert member.end() == 0, member.log
        last = torch.load(tmp_path / "last.pt")
        for name, value in state.items():
            assert torch.equal(last[name].cpu(), value.to(last[name].dtype)), name


def test_a_model_on_the_cpu_computes_in_that_memory(tmp_path: Path) -> None:
    body = """
model = make()
job = paceline.join(model, Points())
def file_at(at):
    for line in open("/proc/self/maps"):
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= at < end:
            return line.split()[1]
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    for parameter in model.parameters():
        print("lie", file_at(parameter.data_ptr()), file_at(parameter.grad.data_ptr()))
    job.step(loss)
"""
    with Member(tmp_path, HEAD + MIXED + body, environment=ON_CPU, narrow=True) as member:
        member.begin()
        member.step(range(4))
        member.step(range(4))
        assert member.end() == 0, member.log
        lines = seen(member, "lie")
        assert len(lines) == 2 * 9 and set(lines) == {"r--s rw-s"}


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("environment", MODES[1:])
def test_a_narrow_gradient_that_is_not_finite_is_named(
    tmp_path: Path, environment: dict[str, str], value: str
) -> None:
    loop = LOOP.replace("job.step(loss", f"model.last.weight.grad[1, 2] = float('{value}'); job.step(loss")
    with Member(tmp_path, HEAD + MIXED + loop, environment=environment, narrow=True) as member:
        member.begin()
        answer = member.step(range(4))
        assert "finite" not in answer
        assert answer.get("not_finite", "last.weight") == "last.weight"
        assert member.end() == 0, member.log


@needs_card
def test_a_look_ahead_starts_from_the_float32_and_is_rounded(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + MIXED + LOOP, environment=ON_CARD, narrow=True) as member:
        weights, _ = member.begin()
        distance = member.floats * 4
        both = member.map(2, write=False, size=2 * distance + member.narrow * 2)
        direction = both.floats[member.floats : 2 * member.floats]
        both.floats[: member.floats].copy_(weights.floats[: member.floats])
        direction.copy_(torch.randn(len(direction), generator=torch.Generator().manual_seed(1)))
        reach = 0.37109375 + 2**-23
        runs = [[i, 2, 4 * offset] for i, offset in enumerate(member.offsets)]
        member.step(range(4), weights=runs, ahead={"reach": reach, "direction": distance})
        ahead = torch.load(tmp_path / "0.pt")
        for tensor, at in zip(member.tensors, member.offsets):
            if tensor["kind"] == "parameter":
                plain = member.tensor(both, tensor["name"])
                along = direction[at : at + plain.numel()].view(plain.shape)
                # numpy rounds each of the two operations
                expected = torch.from_numpy(plain.numpy() - along.numpy() * torch.tensor(reach).numpy())
                assert torch.equal(ahead[tensor["name"]], expected.to(getattr(torch, tensor["dtype"]))), tensor
        assert member.end() == 0, member.log


@needs_card
def test_a_skipped_step_leaves_narrow_zeros(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + MIXED + LOOP, environment=ON_CARD, narrow=True) as member:
        _, gradients = member.begin()
        gradients.floats.view(torch.bfloat16)[: member.narrow] = 17
        assert member.step(range(7))["skipped"]
        for tensor in member.tensors:
            if tensor["kind"] == "parameter":
                assert not member.gradient(gradients, tensor["name"]).any(), tensor["name"]
        assert member.end() == 0, member.log


@pytest.mark.parametrize("body", [WHOLE, MIXED], ids=["whole", "mixed"])
@pytest.mark.parametrize("on", [0, 1], ids=["near", "on another card"])
@needs_card
def test_a_step_that_is_begun_early_takes_both_parts_of_its_board(tmp_path: Path, on: int, body: str) -> None:
    with Member(tmp_path, HEAD + body + LOOP, environment=ON_CARD, narrow=True) as member:
        weights, _ = member.begin()
        for number in (2, 3):
            assert member.card is not None
            board = member.memories[number] = member.card.memory(number, weights.bytes, on=on)
            board.floats.copy_(weights.floats * (1.25 + number))
            member.publish(board)
            member.send(board.message(write=False))
        for number in (0, 2, 3, 0):
            member.step(range(4), weights=member.board(number))
        page = Page(member, 1)
        for number, row in ((4, 1), (5, 0)):
            asked = page.order(range(5), rows=[3, 2])
            page.let_begin(asked, row)
            said = member.receive("stepped")
            page.value(asked, said["later"]["loss"])
            check(member, body, number, member.memories[[3, 2][row]], list(range(5)), tmp_path)
        assert member.end() == 0, member.log
