"""Things that an interrupt or an error has stopped half-way can be done again."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.streams.ahead import Ahead
from paceline.streams.disk_cache import DiskCache
from paceline.streams.kept_places import KeptPlaces
from paceline.tensor_file import TensorFile, TensorFileWriter


def test_a_file_of_tensors_that_was_about_to_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "frozen")
    writer = TensorFileWriter(path, [("w", torch.arange(4.0))])
    put = writer._waiting.put

    def interrupted(piece: torch.Tensor | None) -> None:
        if piece is None:
            monkeypatch.undo()
            raise KeyboardInterrupt
        put(piece)

    monkeypatch.setattr(writer._waiting, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.finish()
    again = threading.Thread(target=writer.finish, daemon=True)
    again.start()
    again.join(30)
    assert not again.is_alive()
    assert torch.equal(TensorFile(path).view("w", torch.float32), torch.arange(4.0))


def test_a_thread_that_could_not_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: queue.Queue[str] = queue.Queue()

    class Remote:
        def using(self, address: str, use: Any) -> None:
            copied.put(address)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ahead, remote = Ahead(), Remote()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError):
            ahead.fetch(remote, ["a"])  # type: ignore[arg-type]
    ahead.fetch(remote, ["a"])  # type: ignore[arg-type]
    assert copied.get(timeout=30) == "a"


def test_lengths_that_were_about_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path))
    KeptPlaces("run").keep_length("shard", "0 shard", 7)
    places = KeptPlaces("run")

    def interrupted(cache: DiskCache, key: str) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as now:
        now.setattr(DiskCache, "own", interrupted)
        with pytest.raises(KeyboardInterrupt):
            places.length("shard")
    assert places.length("shard") == 7
