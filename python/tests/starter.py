"""Starts programs quickly: a process that has imported torch, or more, forks one for each test.

In the tests' own process that would not do, as it computes gradients itself: PyTorch's engine does not survive a
fork then.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence


class Started:
    """A process of the starter's, as subprocess.Popen has it."""

    def __init__(self, starter: Starter, pid: int) -> None:
        self.pid = pid
        self._starter = starter
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._ask(0)

    def wait(self, seconds: float = 60) -> int:
        code = self._ask(seconds)
        if code is None:
            raise subprocess.TimeoutExpired("a program", seconds)
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _ask(self, seconds: float) -> int | None:
        if self._code is None:
            self._code = self._starter.ask({"wait": self.pid, "seconds": seconds}, [])["code"]
        return self._code


class Starter:
    def __init__(self, preload: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), preload], pass_fds=[theirs.fileno()], env=environment
        )
        theirs.close()
        atexit.register(self._socket.close)

    def start(
        self, script: str, arguments: Sequence[str], folder: str, environment: dict[str, str], program: int, log: int
    ) -> Started:
        request = {"start": script, "arguments": list(arguments), "folder": folder, "environment": environment}
        return Started(self, self.ask(request, [program, log])["pid"])

    def ask(self, request: dict, fds: list[int]) -> dict:
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        return json.loads(self._socket.recv(1 << 16))


_starters: dict[str, Starter] = {}


def starter(preload: str = "torch") -> Starter:
    """`preload`: what its programs have imported already."""
    if preload not in _starters:
        _starters[preload] = Starter(preload)
    return _starters[preload]


def _serve(asked: socket.socket, preload: str) -> None:
    import numpy  # noqa: F401

    importlib.import_module(preload)

    codes: dict[int, int] = {}
    while True:
        text, fds, _, _ = socket.recv_fds(asked, 1 << 16, 2)
        if not text:
            return
        request = json.loads(text)
        if "wait" in request:
            asked.send(json.dumps({"code": _wait(request["wait"], request["seconds"], codes)}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            asked.close()
            _become(request, fds)
        for fd in fds:
            os.close(fd)
        asked.send(json.dumps({"pid": pid}).encode())


def _wait(pid: int, seconds: float, codes: dict[int, int]) -> int | None:
    until = time.monotonic() + seconds
    while pid not in codes:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            codes[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() >= until:
            return None
        else:
            time.sleep(0.005)
    return codes[pid]


def _become(request: dict, fds: list[int]) -> None:
    program, log = fds
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["environment"])
    os.environ["PACELINE_PROGRAM_FD"] = str(program)
    os.chdir(request["folder"])
    sys.argv = [request["start"], *request["arguments"]]
    sys.path[0] = request["folder"]
    sys.path.insert(1, request["environment"]["PYTHONPATH"])
    code: object = 0
    try:
        runpy.run_path(request["start"], run_name="__main__")
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0))  # type: ignore[call-overload]


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
