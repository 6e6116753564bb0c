"""Jobs with the real executable, which PACELINE names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from fake_member import PACKAGE

PACELINE = os.environ.get("PACELINE", "")
needs_paceline = pytest.mark.skipif(not PACELINE, reason="PACELINE does not name the executable")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}


def paceline(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PACELINE, *words], cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )


def run_words(folder: Path, program: str, devices: int, more: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The command that trains this program."""
    (folder / "train.py").write_text(textwrap.dedent(program))
    words = ["run", "train.py", "--python", sys.executable, "--devices", str(devices), *more]
    return words + (["--", *arguments] if arguments else [])


def train(
    folder: Path, program: str, devices: int, more: Sequence[str] = (), arguments: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return paceline(folder, *run_words(folder, program, devices, more, arguments))


def only_run(folder: Path) -> Path:
    [run] = (folder / "runs").iterdir()
    return run


def trained(
    folder: Path, program: str, devices: int, more: Sequence[str] = (), arguments: Sequence[str] = ()
) -> Path:
    """The folder of a run that ended well."""
    ended = train(folder, program, devices, more, arguments)
    assert ended.returncode == 0, ended.stderr
    return only_run(folder)


def replay(folder: Path, run: Path) -> None:
    replayed = paceline(folder, "replay", str(run))
    assert replayed.returncode == 0, replayed.stderr


def exported(folder: Path, run: Path) -> dict[str, torch.Tensor]:
    ended = paceline(folder, "export", str(run), "model.safetensors")
    assert ended.returncode == 0, ended.stderr
    return read_safetensors(folder / "model.safetensors")


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header.pop("__metadata__").get("format", "pt") == "pt"  # a checkpoint does not say it
    types = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + size + begin : 8 + size + end])
        tensors[name] = torch.frombuffer(raw, dtype=types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def killed_after_checkpoints(folder: Path, words: list[str]) -> Path:
    """A run of `paceline` with these words, which was killed once it had begun its second checkpoint."""
    with open(folder / "log", "w") as log:
        run = subprocess.Popen([PACELINE, *words], cwd=folder, env=environment(), stdout=log, stderr=log)
    deadline = time.monotonic() + 240
    while len(list(folder.glob("runs/*/checkpoints/*"))) < 2:
        assert run.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.02)
    run.kill()
    run.wait()
    return only_run(folder)
