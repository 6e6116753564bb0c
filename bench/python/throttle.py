"""Holds a device to a third of a processor: its processes are stopped for two thirds of each 60 ms.

It is what a quota of the kernel's does, where the bench may set none, and the same means for all that train.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

PERIOD_S = 0.06
SHARE = 1 / 3


def hold_me_back(folder: Path, pids: list[int]) -> None:
    """For the device: says which processes it consists of."""
    ready = folder / "held-back.new"
    ready.write_text(" ".join(str(pid) for pid in pids))
    ready.rename(folder / "held-back")


class Throttle:
    """For the bench: does it until the processes are gone or close() is called."""

    def __init__(self, folder: Path) -> None:
        self._asked = folder / "held-back"
        self._over = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._asked.exists():
            if self._over.wait(0.01):
                return
        processes = [os.pidfd_open(int(pid)) for pid in self._asked.read_text().split()]
        try:
            while not self._over.is_set():
                for number, seconds in (
                    (signal.SIGSTOP, PERIOD_S * (1 - SHARE)),
                    (signal.SIGCONT, PERIOD_S * SHARE),
                ):
                    self._send(processes, number)
                    time.sleep(seconds)
                self.rounds += 1
        except ProcessLookupError:
            pass  # the training is over
        finally:
            for process in processes:
                try:
                    signal.pidfd_send_signal(process, signal.SIGCONT)
                except ProcessLookupError:
                    pass
                os.close(process)

    @staticmethod
    def _send(processes: list[int], number: signal.Signals) -> None:
        for process in processes:
            signal.pidfd_send_signal(process, number)
