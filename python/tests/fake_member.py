"""A worker as a program sees it, in Python: starts a script, and says and hears what docs/program.md has."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from card import DRIVER_VARIABLE, Card
from starter import starter

PACKAGE = Path(__file__).resolve().parent.parent
ALIGNMENT = 16  # floats
SIZES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


class Ended(Exception):
    """The program's end of the socket is gone."""


class Memory:
    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.bytes = size
        self.fd = os.memfd_create(f"memory{number}", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.floats = torch.frombuffer(self.map, dtype=torch.float32)

    def message(self, write: bool) -> dict[str, Any]:
        path = f"/proc/{os.getpid()}/fd/{self.fd}"
        return {"type": "map", "memory": self.number, "path": path, "bytes": self.bytes, "write": write}

    def close(self) -> None:
        os.close(self.fd)


class Member:
    def __init__(
        self,
        folder: Path,
        script: str,
        role: str = "worker",
        settings: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        arguments: Sequence[str] = (),
        preload: str = "torch",
        narrow: bool = False,  # leading parameters of bfloat16 are bfloat16 in memory, too
        **start: Any,
    ) -> None:
        self.folder = folder
        self.takes_narrow = narrow
        self.narrow = 0  # floats before this are narrow
        self.role = role
        self.script = folder / "train.py"
        self.script.write_text(textwrap.dedent(script))
        library = (environment or {}).get(DRIVER_VARIABLE)
        self.card = None if library is None else Card(library)  # has the memories
        self._start(arguments, environment or {}, preload)
        hello = {"type": "start", "protocol": 1, "role": role, "name": "w0", "devices": 1, "seed": 1}
        self.send({**hello, "settings": settings or {}, **start})
        self.tensors: list[dict[str, Any]] = []
        self.offsets: list[int] = []
        self.floats = 0
        self.memories: dict[int, Any] = {}

    def _start(self, arguments: Sequence[str], environment: dict[str, str], preload: str) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        environment = {"PYTHONPATH": str(PACKAGE), "PACELINE_DEVICE": "cpu", **environment}
        self.log_path = self.folder / "log.txt"
        with open(self.log_path, "w") as log:
            self.process = starter(preload).start(
                str(self.script), arguments, str(self.folder), environment, theirs.fileno(), log.fileno()
            )
        theirs.close()
        self._buffer = b""

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    # Messages.

    def send(self, message: dict[str, Any]) -> None:
        if self.card is not None:
            self.card.settle()
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, kind: str | None = None, seconds: float = 60) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            poll = select.poll()  # select() knows no descriptor above 1023
            poll.register(self.socket, select.POLLIN)
            if not poll.poll(1000 * max(0.0, until - time.monotonic())):
                raise self._stuck(f"nothing within {seconds} s")
            try:
                chunk = self.socket.recv(1 << 20)
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise Ended(self.log)
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        if kind is not None:
            assert message["type"] == kind, f"{message}; its log:\n{self.log}"
        return message

    def wait(self, seconds: float = 60) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._stuck(f"still running after {seconds} s") from None

    def _stuck(self, what: str) -> TimeoutError:
        # faulthandler says where.
        os.kill(self.process.pid, signal.SIGABRT)
        time.sleep(1)
        return TimeoutError(f"{what}; its log:\n{self.log}")

    def close(self) -> None:
        self.socket.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for memory in self.memories.values():
            memory.close()
        self.memories.clear()
        if self.card is not None:
            self.card.close()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # A job's beginning.

    def take_model(self) -> dict[str, Any]:
        model = self.receive("model")
        self.tensors = [{"kind": "parameter", "dtype": "float32", **tensor} for tensor in model["tensors"]]
        at = 0
        for tensor in self.tensors:
            self.offsets.append(at)
            at += -(-self.floats_of(tensor) // ALIGNMENT) * ALIGNMENT
        self.floats = at
        layout = {"type": "layout", "offsets": self.offsets, "floats": self.floats}
        if self.takes_narrow and model.get("bfloat16"):
            self.narrow = self.offsets[self.first_wide()] if self.first_wide() < len(self.offsets) else at
            layout["narrow"] = self.narrow
        self.send(layout)
        return model

    def first_wide(self) -> int:
        types = [(tensor["kind"], tensor["dtype"]) for tensor in self.tensors]
        return next((i for i, one in enumerate(types) if one != ("parameter", "bfloat16")), len(types))

    def runs(self, number: int, narrow_at: int) -> list[list[int]]:
        """The places of all tensors in a memory, in which the narrow ones begin at byte `narrow_at`."""
        if self.narrow == 0:
            return [[0, number, 0]]
        wide = self.first_wide()
        return [[0, number, narrow_at], *([wide, number, 4 * self.narrow] for _ in range(wide < len(self.offsets)))]

    def board(self, number: int) -> list[list[int]]:
        return self.runs(number, 4 * self.floats)

    def publish(self, weights: Any) -> None:
        """The narrow weights in a memory are its floats, rounded."""
        weights.floats[self.floats :].view(torch.bfloat16)[: self.narrow].copy_(weights.floats[: self.narrow])

    @staticmethod
    def floats_of(tensor: dict[str, Any]) -> int:
        count = int(torch.Size(tensor["shape"]).numel())
        if tensor["kind"] == "constant":
            return -(-count * SIZES.get(tensor["dtype"], 4) // 4)
        return count

    def map(self, number: int, write: bool, size: int = 0) -> Any:
        size = size or max(4, self.floats * 4 + self.narrow * 2)
        memory = Memory(number, size) if self.card is None else self.card.memory(number, size)
        old = self.memories.get(number)
        if old is not None:
            old.close()
        self.memories[number] = memory
        self.send(memory.message(write))
        return memory

    def begin(self) -> tuple[Any, Any]:
        """Weights as the program has them at first, and memory for gradients."""
        self.take_model()
        weights, gradients = self.map(0, write=True), self.map(1, write=True)
        # Initial weights are float32, and so they are not as far apart as narrow ones.
        to = [[i, 0, 4 * offset] for i, offset in enumerate(self.offsets)] if self.narrow else [[0, 0, 0]]
        self.send({"type": "initial", "to": to})
        self.receive("done")
        self.publish(weights)
        self.send({"type": "unmap", "memory": 0})
        self.send(weights.message(write=False))
        return weights, gradients

    def step(self, samples: Sequence[int], **more: Any) -> dict[str, Any]:
        self.order(samples, **more)
        return self.receive("stepped")

    def order(self, samples: Sequence[int], **more: Any) -> None:
        step = {"epoch": 0, "seed": 7, "augment_seed": 9, "micro_batch": None}
        places = {"weights": self.board(0), "gradients": self.runs(1, 0)}
        self.send({"type": "step", "samples": list(samples), **step, **places, **more})

    def say_end(self, failed: bool = False, why: str = "the job is done", first: bool | None = None) -> None:
        if not failed and self.role == "worker" and 0 in self.memories:
            self.send({"type": "last", "weights": self.board(0)})
        self.send({"type": "end", "why": why, "failed": failed, **({} if first is None else {"first": first})})

    def end(self, failed: bool = False, why: str = "the job is done", first: bool | None = None) -> int:
        self.say_end(failed, why, first)
        return self.wait()

    # Places of tensors.

    def index(self, name: str) -> int:
        return [tensor["name"] for tensor in self.tensors].index(name)

    def tensor(self, memory: Any, name: str) -> torch.Tensor:
        index = self.index(name)
        shape = self.tensors[index]["shape"]
        count = int(torch.Size(shape).numel())
        return memory.floats[self.offsets[index] : self.offsets[index] + count].view(shape)

    def gradient(self, memory: Any, name: str) -> torch.Tensor:
        """In the type that it has in memory."""
        index = self.index(name)
        begin, shape = self.offsets[index], self.tensors[index]["shape"]
        if begin >= self.narrow:
            return self.tensor(memory, name)
        return memory.floats.view(torch.bfloat16)[begin : begin + int(torch.Size(shape).numel())].view(shape)

    def state(self, memory: Any) -> dict[str, torch.Tensor]:
        """All that are floats there."""
        floats = [t["name"] for t in self.tensors if t["kind"] != "constant" or t["dtype"] == "float32"]
        return {name: self.tensor(memory, name).clone() for name in floats}
