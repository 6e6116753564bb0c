"""Batches on their way to a GPU, without one: which stream copies, who waits, and what is pinned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from fake_member import Member
from scripts import HEAD
from torch.utils.data import TensorDataset

from paceline import moving
from paceline.loading import Load, make_loader
from paceline.moving import Moves, to_device
from paceline.streams import Shards, Stream


class Pair(NamedTuple):
    a: Any
    b: Any


class Moving:
    """A batch that moves itself, as a BatchEncoding does."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def to(self, device: Any, *, non_blocking: bool = False) -> Moving:
        self.asked.append((device, non_blocking))
        return self


class WithKeywords(Moving):
    def to(self, *arguments: Any, **named: Any) -> Moving:  # type: ignore[override]
        return super().to(*arguments, **named)


class Old(Moving):
    def to(self, device: Any) -> Moving:  # type: ignore[override]
        return super().to(device)


class Wrapped:
    """Its class has no to() that says what it takes."""

    def __init__(self, inside: Moving) -> None:
        self.__dict__["to"] = inside.to


@pytest.mark.parametrize(("kind", "non_blocking"), [(Moving, True), (WithKeywords, True), (Old, False)])
def test_a_batch_that_moves_itself_waits_for_nothing_if_it_can(kind: Any, non_blocking: bool) -> None:
    device, batch = torch.device("cpu"), kind()
    assert to_device({"in": [batch]}, device)["in"][0] is batch
    assert batch.asked == [(device, non_blocking)]
    to_device(Wrapped(batch), device)
    assert batch.asked[1] == (device, False)


class Card:
    """Streams of a made-up GPU, and what is done with them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.device: Any = SimpleNamespace(type="cuda")
        self.done: list[Any] = []
        card = self

        class Stream:
            def __init__(self, device: Any = None, name: str = "copies") -> None:
                self.device, self.name = card.device, name

            def synchronize(self) -> None:
                card.done.append(("wait for", self.name))

        self.make = Stream
        self.now = Stream(name="default")

        @contextlib.contextmanager
        def stream(one: Any) -> Iterator[None]:
            before, self.now = self.now, one
            yield
            self.now = before

        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "stream", stream)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.now)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, used: self.done.append(("used on", used.name)))
        plain = to_device

        def recorded(batch: Any, device: Any) -> Any:
            if ("copy on", self.now.name) not in self.done:
                self.done.append(("copy on", self.now.name))
            return plain(batch, torch.device("cpu"))

        monkeypatch.setattr(moving, "to_device", recorded)

    def move(self, moves: Moves, batch: Any) -> list[Any]:
        self.done.clear()
        moves.move(batch)
        return list(self.done)


ON_COPIES = [("copy on", "copies"), ("wait for", "copies"), ("used on", "default"), ("used on", "default")]
ON_CURRENT = [("copy on", "default")]


def test_a_program_with_a_stream_gets_batches_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    programs = card.make(name="the program's")
    moves = Moves(card.device)
    ones = torch.ones(2)
    for batch in ([ones, ones], {"x": ones, "y": (Pair(ones, 3), "text")}):
        assert card.move(moves, batch) == ON_COPIES
    assert card.now is not programs


def test_the_last_batch_keeps_its_memory_until_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of the program may still read a tensor that the program has let go of."""
    card = Card(monkeypatch)
    programs = card.make(name="the program's")
    moves, ones = Moves(card.device), torch.ones(2)
    batch = moves.move({"x": ones, "y": ones})
    held = [id(batch.pop("x")), id(batch.pop("y"))]
    assert [id(tensor) for tensor in moves._held] == held
    moves.forget()
    assert not moves._held and card.now is not programs


@pytest.mark.parametrize(
    "batch",
    [
        [torch.ones(2), Moving()],
        {"x": torch.ones(2), "there": torch.ones(2, device="meta")},
        Moving(),
        [torch.eye(2).to_sparse()],
    ],
    ids=["moves itself in part", "in part on a device", "moves itself", "sparse"],
)
def test_a_batch_whose_memory_cannot_be_told_stays_on_the_current_stream(
    monkeypatch: pytest.MonkeyPatch, batch: Any
) -> None:
    card = Card(monkeypatch)
    programs = card.make(name="the program's")
    if isinstance(batch, dict):
        monkeypatch.setattr(moving, "to_device", lambda *_: card.done.append(("copy on", card.now.name)))
    assert card.move(Moves(card.device), batch) == ON_CURRENT
    assert card.now is not programs


def test_other_programs_copy_on_the_stream_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    moves = Moves(card.device)
    assert card.move(moves, [torch.ones(2)]) == ON_CURRENT
    late = card.make(name="late")
    assert card.move(moves, [torch.ones(2)]) == ON_CURRENT
    elsewhere = card.make(name="another card's")
    elsewhere.device = None
    del late
    assert card.move(Moves(card.device), [torch.ones(2)]) == ON_CURRENT
    on_cpu = Moves(torch.device("cpu"))
    assert card.move(on_cpu, [torch.ones(2)]) == []


def test_a_job_moves_each_part_of_a_batch(tmp_path: Path) -> None:
    body = """
from paceline.moving import Moves
Moves.move = lambda self, batch: print("moved", len(batch[0])) or [2 * batch[0], batch[1]]
Moves.forget = lambda self: print("forgot")
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    print("doubled", torch.equal(x, 2 * Points().x[list(job.samples)]))
    job.step(0.0)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step(range(5), micro_batch=3)
        assert member.end() == 0
        assert member.log.splitlines() == ["moved 3", "doubled True", "moved 2", "doubled True", "forgot"]


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self + 100)  # this host may have no card


@pytest.mark.parametrize(
    ("options", "pins"), [({"pin_memory": True}, True), ({"pin_memory": False}, False), ({}, False)]
)
def test_a_batch_is_pinned_without_loader_processes_too(pinned: None, options: dict[str, Any], pins: bool) -> None:
    train_set = TensorDataset(torch.arange(8.0))
    assert make_loader(train_set, None, options).get(Load((1, 2), 0))[0].tolist() == ([101, 102] if pins else [1, 2])
    stream = Stream(Shards(["all"], lambda name: range(8)))
    drawn = make_loader(stream, None, options).get(Load((0, 1), 0))
    assert drawn.samples == 2 and bool((drawn.batch > 99).all()) == pins


def test_nothing_is_pinned_for_a_model_on_the_cpu(pinned: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    loader = make_loader(TensorDataset(torch.arange(8.0)), None, {"pin_memory": True})
    assert loader.get(Load((1, 2), 0))[0].tolist() == [1, 2]
