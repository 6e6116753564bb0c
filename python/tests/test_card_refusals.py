"""A card's memory that cannot be had, or is not what was said, ends the program with one line."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from card import ON_CARD, needs_card
from fake_member import Member
from scripts import PLAIN
from test_card import error_of

from paceline.device_memory import fetch
from paceline.errors import PacelineError

pytestmark = needs_card


def refused(tmp_path: Path, change: Any) -> str:
    """The error of a program that gets a damaged message, or a damaged descriptor, and does not wait long for another."""
    impatient = "import paceline.device_memory\npaceline.device_memory.RETURN_SECONDS = 0.2\n"
    with Member(tmp_path, impatient + PLAIN, environment=ON_CARD) as member:
        member.take_model()
        assert member.card is not None
        memory = member.card.memory(0, member.floats * 4)
        message = memory.message(write=True)
        change(member.card, memory, message)
        member.send(message)
        text = error_of(member)
        memory.close()
        return text


def test_a_name_that_is_refused(tmp_path: Path) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        message["name"] = "board/none"

    assert "board/none cannot be had from" in (text := refused(tmp_path, change))
    assert text.endswith("there is no memory board/none")


def test_nobody_gives_the_memory_out(tmp_path: Path) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        message["socket"] = "@paceline-test-nobody"

    assert "cannot be had from @paceline-test-nobody: [Errno 111]" in refused(tmp_path, change)


@pytest.mark.parametrize("answer", [b"ok\n", b"", b"perhaps\n", b"x" * 5000])
def test_an_answer_that_is_none(tmp_path: Path, answer: bytes) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        card.answers[memory.name] = answer

    assert ("with 0 descriptors" if answer else "ended before it answered") in refused(tmp_path, change)


def test_a_descriptor_of_something_else(tmp_path: Path) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        other = os.memfd_create("other")
        os.dup2(other, memory.fd)
        os.close(other)

    assert "cannot be used: the CUDA driver cannot take the memory: CUDA_ERROR_INVALID_VALUE (1)" in refused(
        tmp_path, change
    )


def test_memory_of_another_size(tmp_path: Path) -> None:
    def too_large(card: Any, memory: Any, message: dict[str, Any]) -> None:
        card.sizes[memory.name] *= 2

    assert "cannot map the memory" in refused(tmp_path, too_large)

    def too_small(card: Any, memory: Any, message: dict[str, Any]) -> None:
        message["bytes"] = card.sizes[memory.name] + 1

    assert "it has 2097152 bytes, and Paceline names 2097153 of it" in refused(tmp_path, too_small)


def test_a_card_that_is_not_here(tmp_path: Path) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        message["device"] = "GPU-00000000-0000-0000-0000-000000000000"

    assert "lie on GPU-00000000-0000-0000-0000-000000000000, which this process does not see" in refused(
        tmp_path, change
    )


def test_memory_of_an_unknown_kind(tmp_path: Path) -> None:
    def change(card: Any, memory: Any, message: dict[str, Any]) -> None:
        message["kind"] = "tape"

    assert "memory of the kind 'tape'" in refused(tmp_path, change)


def test_memory_of_another_user_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"paceline-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + address)
        listener.listen()
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(PacelineError, match="board/0 cannot be had from .*: another user listens there"):
            fetch("@" + address, "board/0")
