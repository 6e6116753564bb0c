"""The parts of shared memory that a GPU's driver gets to know."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_member import Member
from gpu import STAND_IN
from scripts import HEAD
from strict_driver import Driver, Stream

from paceline import device_binding
from paceline.device_binding import CudaTransfers
from paceline.file_memory import FileMemory

PAGE = mmap.PAGESIZE


class Gone:
    """Memories without this one."""

    def __init__(self, gone: FileMemory) -> None:
        self._gone = gone

    def has(self, memory: Any) -> bool:
        return memory is not self._gone


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(device_binding, "_driver", lambda: made)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    return made


def memory_of(folder: Path, number: int, pages: int) -> FileMemory:
    file = folder / str(number)
    file.write_bytes(bytes(pages * PAGE))
    return FileMemory(number, str(file), pages * PAGE, True, number, near=False)


def test_a_version_of_the_weights_is_registered_when_it_is_first_used(tmp_path: Path, driver: Driver) -> None:
    """A board has room for many versions, and few of them are ever made."""
    transfers = CudaTransfers(torch.device("cuda", 0))
    board, gradient = memory_of(tmp_path, 0, 31), memory_of(tmp_path, 1, 4)
    begin = board.view(0, 1, torch.uint8).data_ptr()
    count = (3 * PAGE - 100) // 4  # floats of a version, whose buffer has 3 pages
    for version in (0, 1, 0, 1):
        transfers.register(board, board.view((1 + 3 * version) * PAGE, count, torch.float32))
    transfers.register(gradient, gradient.view(PAGE, 10, torch.float32))
    at = gradient.view(PAGE, 1, torch.uint8).data_ptr()
    assert driver.known == {
        begin + PAGE: (3 * PAGE, 0),
        begin + 4 * PAGE: (3 * PAGE, 0),
        at: (PAGE, 0),
    }
    assert driver.registered == 3
    transfers.forget(Gone(board))  # type: ignore[arg-type]
    assert set(driver.known) == {at}
    transfers.close()
    assert not driver.known


def test_parts_that_share_a_page_are_registered_as_one(
    tmp_path: Path, driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    """Narrow tensors lie behind the others, and a copy may not go over the end of a registration."""
    transfers = CudaTransfers(torch.device("cuda", 0))
    board = memory_of(tmp_path, 0, 8)
    half = PAGE // 2
    begin = board.view(0, 1, torch.uint8).data_ptr()
    for _ in range(2):
        transfers.register(board, board.view(3 * PAGE + half, PAGE, torch.uint8))
        transfers.register(board, board.view(PAGE, 2 * PAGE + half, torch.uint8))
        transfers.register(board, board.view(5 * PAGE, PAGE, torch.uint8))  # beside them
    assert driver.known == {begin + PAGE: (4 * PAGE, 0), begin + 5 * PAGE: (PAGE, 0)}
    assert driver.registered == 3
    assert not capfd.readouterr().err


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_copy_crosses_the_end_of_a_registered_part(tmp_path: Path, dtype: str) -> None:
    """The table is a constant behind the weights, whose last page has a part of it. Narrow weights lie behind it."""
    body = f"""
sys.path.insert(0, {str(Path(__file__).parent)!r})
import strict_driver
strict_driver.install()
model = Net().{"float" if dtype == "float32" else dtype}()
model.register_buffer("table", torch.arange(5000, dtype=torch.int32))
job = paceline.join(model, Points())
for x, y in job:
    print("table", int(model.table.sum()))
    loss = loss_of(model, x.to(torch.{dtype}), y)
    loss.backward()
    job.step(loss)
"""
    with Member(tmp_path, HEAD + body, environment=STAND_IN, narrow=True) as member:
        weights, _ = member.begin()
        member.tensor(weights, "table").view(torch.int32).add_(1)
        member.map(2, write=False).floats.copy_(weights.floats)
        for number in (0, 2):
            member.step(range(4), weights=member.board(number))
        assert member.end() == 0, member.log
        lines = member.log.splitlines()
        assert lines.count(f"table {sum(range(1, 5001))}") == 2, member.log
        copies = [line for line in lines if line.startswith("copied")]
        assert len(copies) > 4 and set(copies) == {"copied 1"}, copies
