"""The turns of the processes of a job on one host."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from paceline.integrations import host_turn
from paceline.integrations.host_turn import HostTurn


def take_and_fork(folder: Path, here: int) -> None:
    turn = HostTurn()
    turn.take(str(folder), "to do this")
    if os.fork() == 0:
        signal.pause()
    os.write(here, b"x")
    signal.pause()


def test_a_process_that_dies_gives_its_turn_and_its_forks_do_not_keep_it(tmp_path: Path) -> None:
    ready, here = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            take_and_fork(tmp_path, here)
        finally:
            os._exit(1)
    try:
        assert os.read(ready, 1) == b"x"
        turn, taken = HostTurn(), threading.Event()
        threading.Thread(target=lambda: (turn.take(str(tmp_path), "to do this"), taken.set()), daemon=True).start()
        assert not taken.wait(0.5)
        os.kill(child, signal.SIGKILL)
        assert taken.wait(60)
        turn.give()
    finally:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_who_waits_long_says_for_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(host_turn, "_QUIET_SECONDS", 0)
    first, second = HostTurn(), HostTurn()
    first.take(str(tmp_path), "to do this")
    threading.Thread(target=lambda: (time.sleep(0.5), first.give()), daemon=True).start()
    second.take(str(tmp_path), "to do this")
    second.give()
    assert "waits for another one of the job on this host to do this\n" in capsys.readouterr().err
    HostTurn().take("", "to do this")  # without a folder of the run nobody waits
