"""Steps whose program does not wait for its GPU: a page of words says when a step may begin, and when it is done."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from card import ON_CARD, ON_GPUS_CARD, STAND_IN, needs_card
from fake_member import Member, Memory
from scripts import HEAD
from test_card import check_gradients

from paceline import device_memory
from paceline.measures import metrics_on, scalar
from paceline.step_page import Words

BODY = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    more = {}
    if len(job.samples) == 5:
        more = {"metrics": {"twice": 2 * loss, "three": 3.0}}
    elif job.samples[0] >= 32:
        odd = x.new_tensor(float("nan") if 32 in job.samples else 3.0)
        more = {"metrics": {"first": x[0, 0], "odd": odd, "none": 0 * odd / 0, "plain": float(job.samples[0])}}
    elif len(job.samples) == 6:
        more = {"skipped": True}
    job.step(loss, **more)
"""
PAGE = 9  # the number of its memory
BEGUN, ROW, DONE, VALUES = 0, 8, 64, 128
LOOKED_AT = 4  # first steps, for which the program waits to see whether anybody wrote to its weights

GPU = pytest.param(ON_GPUS_CARD, marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"), id="gpu")


class Page:
    def __init__(self, member: Member, number: int) -> None:
        self._member = member
        self._memory = Memory(PAGE, 4096)
        self.number = number - 1  # the number of the last step
        member.send(self._memory.message(write=True))

    def word(self, at: int) -> int:
        return int.from_bytes(self._memory.map[at : at + 4], "little")

    def order(self, samples: range, rows: list[int] | None = None, **more: Any) -> int:
        self.number = (self.number + 1) % 2**32
        page: dict[str, Any] = {"memory": PAGE, "number": self.number}
        if rows is not None:
            page["rows"], more["weights"] = rows, []
        self._member.order(samples, page=page, **more)
        return self.number

    def let_begin(self, number: int, row: int) -> None:
        self._memory.map[ROW : ROW + 8] = row.to_bytes(8, "little")
        self._memory.map[BEGUN : BEGUN + 4] = number.to_bytes(4, "little")

    def value(self, number: int, slot: int) -> float:
        """The value of this step, once it is done."""
        until = time.monotonic() + 60
        while self.word(DONE) != number:
            assert time.monotonic() < until, self._member.log
            time.sleep(1e-4)
        at = VALUES + 8 * slot
        return float(memoryview(self._memory.map[at : at + 8]).cast("d")[0])


def body(test: str) -> str:
    """A program that weighs one batch has to weigh all of them."""
    return BODY.replace("more = {}\n", 'more = {"weight": 11.0}\n') if "weights" in test else BODY


@pytest.fixture(params=[pytest.param(ON_CARD, id="stand-in", marks=needs_card), GPU])
def member(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Member]:
    with Member(tmp_path, HEAD + body(request.node.originalname), environment=request.param) as member:
        weights, _ = member.begin()
        for number in (2, 3):
            member.map(number, write=False).floats.copy_(weights.floats * (1.25 + number))
        for _ in range(LOOKED_AT):
            assert "later" not in member.step(range(4))
        yield member
        assert member.end() == 0, member.log


def loss_at(member: Member, row: int, samples: range) -> float:
    """The loss of a step for which the program waits."""
    return float(member.step(samples, weights=[[0, row, 0]])["loss"])


@pytest.mark.parametrize("row", [0, 1])
def test_a_step_that_is_begun_early_waits_for_its_weights(member: Member, row: int) -> None:
    page, samples = Page(member, 1), range(4)
    number = page.order(samples, rows=[3, 2])
    board = member.memories[[3, 2][row]]
    board.floats.mul_(1.5)  # in time, as the step may not begin yet
    member.card.settle()
    page.let_begin(number, row)
    said = member.receive("stepped")
    loss = page.value(number, said["later"]["loss"])
    assert math.isfinite(page.value(number, 0))
    check_gradients(member, member.memories[1], member.state(board), list(samples))
    assert loss == loss_at(member, board.number, samples)


def test_the_next_step_is_issued_before_this_one_may_begin(member: Member) -> None:
    page, numbers = Page(member, 1), []
    for step in range(5):
        numbers.append(page.order(range(step, step + 4), rows=[2, 3]))
    for step, number in enumerate(numbers):
        page.let_begin(number, step % 2)
        said = member.receive("stepped")
        loss = page.value(number, said["later"]["loss"])
        check_gradients(
            member, member.memories[1], member.state(member.memories[2 + step % 2]), [*range(step, step + 4)]
        )
        assert math.isfinite(loss)


def test_a_step_that_may_begin_at_once_has_words_too(member: Member) -> None:
    page = Page(member, 1)
    number = page.order(range(4))
    said = member.receive("stepped")
    assert page.value(number, said["later"]["loss"]) == loss_at(member, 0, range(4))


def test_numbers_begin_again_after_the_last(member: Member) -> None:
    page = Page(member, 2**32 - 2)
    page.let_begin(2**32 - 3, 0)
    for _ in range(4):
        number = page.order(range(4), rows=[2, 3])
        page.let_begin(number, 1)
        assert math.isfinite(page.value(number, member.receive("stepped")["later"]["loss"]))
    assert number == 1


def test_metrics_come_along(member: Member) -> None:
    page, samples = Page(member, 1), range(5)
    number = page.order(samples)
    said = member.receive("stepped")
    loss = page.value(number, said["later"]["loss"])
    assert said["metrics"] == {"three": 3.0} and page.value(number, said["later"]["metrics"]["twice"]) == 2 * loss


def test_weights_of_batches_come_along(member: Member) -> None:
    page = Page(member, 1)
    page.order(range(7))
    assert member.receive("stepped")["weight"] == 11.0


def test_numbers_on_another_device_are_read_at_once() -> None:
    """The page takes those of its own device in one tensor."""
    here, there = torch.device("meta"), torch.device("cpu")
    page: Any = SimpleNamespace(device=here)
    words = Words(page, 1, ())
    metrics = {"here": torch.ones((), device=here), "there": torch.ones((), device=there), "plain": 2.0}
    assert words.take(metrics_on(metrics, here)) == {"there": 1.0, "plain": 2.0}
    loss = torch.ones((), device=here)
    assert words.places(scalar(loss, here)) == {"later": {"loss": 2, "metrics": {"here": 1}}}
    read = scalar(torch.ones(1, device=there), here)
    assert isinstance(read, float) and read == 1.0
    torch.stack(words.values)


@needs_card
def test_words_are_for_the_stream_of_the_models_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's default stream is 0 on each card, so another card's would be taken in another card's context."""
    cuda = device_memory.Driver(STAND_IN)
    call, seen = cuda.call, []

    def current() -> int | None:
        context = ctypes.c_void_p()
        call("say its context", "cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def recorded(what: str, function: str, *arguments: Any) -> None:
        if function.startswith("cuStream"):
            seen.append((function, current(), arguments[0].value))
        else:
            call(what, function, *arguments)

    monkeypatch.setattr(cuda, "call", recorded)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    with cuda.on(0):
        first = current()
        with cuda.on(1):
            second = current()
        device = torch.device("cuda", 1)
        cuda.wait_for_word(device, 4096, 1)
        cuda.write_word(device, 4096, 1)
        assert current() == first
    assert first != second
    assert seen == [("cuStreamWaitValue32_v2", second, None), ("cuStreamWriteValue32_v2", second, None)]


def test_a_skipped_step_leaves_zeros(member: Member) -> None:
    page = Page(member, 1)
    member.memories[1].floats.fill_(7)
    number = page.order(range(6))
    assert member.receive("stepped")["skipped"] is True and math.isfinite(page.value(number, 0))
    state = member.state(member.memories[0])
    for name, tensor in member.state(member.memories[1]).items():
        kind = member.tensors[member.index(name)]["kind"]
        assert torch.equal(tensor, torch.zeros_like(tensor) if kind == "parameter" else state[name]), name


def test_a_gradient_that_is_not_finite_shows_in_its_sum(member: Member) -> None:
    page = Page(member, 1)
    member.tensor(member.memories[3], "first.weight")[0, 0] = math.nan
    number = page.order(range(4), rows=[2, 3])
    page.let_begin(number, 1)
    member.receive("stepped")
    assert not math.isfinite(page.value(number, 0))
    said = member.step(range(4), weights=[[0, 3, 0]])
    assert said["not_finite"] in [tensor["name"] for tensor in member.tensors]


@pytest.mark.parametrize("micro_batch", [2, 3, 4])
def test_micro_batches_have_the_loss_of_a_step_that_is_waited_for(member: Member, micro_batch: int) -> None:
    page = Page(member, 1)
    waited = member.step(range(12), micro_batch=micro_batch)
    expected = member.memories[1].floats.clone()
    number = page.order(range(12), micro_batch=micro_batch)
    loss = page.value(number, member.receive("stepped")["later"]["loss"])
    assert loss == waited["loss"] and torch.equal(member.memories[1].floats, expected)


@pytest.mark.parametrize(("micro_batch", "first"), [(8, 33), (4, 32)])
def test_metrics_of_micro_batches_come_along(member: Member, micro_batch: int, first: int) -> None:
    page, samples = Page(member, 1), range(first, first + 8)
    waited = member.step(samples, micro_batch=micro_batch)["metrics"]
    assert set(waited) == {"first", "odd", "plain"}
    number = page.order(samples, micro_batch=micro_batch)
    said = member.receive("stepped")
    assert math.isfinite(page.value(number, 0))
    assert said["metrics"] == {"plain": waited["plain"]}
    later = {name: page.value(number, at) for name, at in said["later"]["metrics"].items()}
    assert later.pop("first") == pytest.approx(waited["first"]) and later.pop("odd") == waited["odd"] == 3.0
    assert math.isnan(later.pop("none")) and not later


def test_boards_that_the_gpu_cannot_choose_among_are_waited_for(member: Member) -> None:
    page = Page(member, 1)
    far = member.card.memory(4, 4 * member.floats + (4 << 20))  # a size that no board has
    far.floats[: member.floats] = 1.5 * member.memories[3].floats[: member.floats]
    member.memories[4] = far
    member.send(far.message(write=False))
    for row, board in enumerate((2, 4)):
        number = page.order(range(4), rows=[2, 4])
        page.let_begin(number, row)
        said = member.receive("stepped")
        assert page.value(number, said["later"]["loss"]) == loss_at(member, board, range(4))


@needs_card
@pytest.mark.parametrize("then", ["a step that waits", "the end"])
def test_a_write_to_a_frozen_weight_is_found_when_the_program_waits_next(tmp_path: Path, then: str) -> None:
    body = BODY.replace("Net()\n", "Net()\nmodel.first.requires_grad_(False)\n", 1)
    write = "    if len(job.samples) == 8:\n        model.first.bias.data.add_(1)\n"
    with Member(tmp_path, HEAD + body.replace("    loss =", write + "    loss =", 1), environment=ON_CARD) as member:
        member.begin()
        for _ in range(LOOKED_AT):
            member.step(range(4))
        page = Page(member, 1)
        for _ in range(2):  # each step looks at one of two frozen tensors
            number = page.order(range(8))
            member.receive("stepped")
            assert math.isfinite(page.value(number, 0))
        if then == "the end":
            member.send({"type": "last", "weights": member.board(0)})
        else:
            member.order(range(4))
        assert "wrote to the weight first.bias" in member.receive("error")["text"]
        assert member.wait() == 1


@needs_card
def test_a_page_that_is_not_mapped_is_refused(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + BODY, environment=ON_CARD) as member:
        member.begin()
        member.order(range(4), page={"memory": 5, "number": 1})
        assert "names the page 5, which it has not mapped" in member.receive("error")["text"]
        assert member.wait() == 1
