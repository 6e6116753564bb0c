"""The part of a job that runs on one node of a Ray cluster: the node's `paceline node`. It needs no Ray."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..launching import find_executable
from ..parent_death import die_with
from .ray_plan import toml

_GIVEN_UP = " was given up, and the run goes on without it"
_RUN = "run: "  # how the line begins with which a host that begins or resumes a run names its folder
_EVALUATION = re.compile(rb'"kind": ?"evaluation"')
_TAIL_BYTES = 1 << 18  # the end of a file with metrics, which has several snapshots


class Place(NamedTuple):
    """The place of a host, as its node sees it."""

    port: int  # free at the moment
    folder: str  # the program's
    problem: str | None  # why no job can run here; None: one can


class Look(NamedTuple):
    """The state of a host, as its node sees it."""

    started: bool
    status: int | None  # exit status; negative: the signal that ended it; None: it runs
    said: str  # its last line
    given_up: bool
    run: str | None  # the folder of the run, if it is here
    led_by: int | None  # the number of the host that leads the run
    leader: str | None  # HOST:PORT of the run's coordinator
    metrics: list[dict[str, Any]]  # the new evaluations, and the newest snapshot
    read: int  # bytes of the file with the metrics, up to these


class Unfinished(NamedTuple):
    """A run that was cut short or stopped before its end."""

    name: str  # the folder's, which begins with the job's name and a time
    samples: int
    folder: str


class Host:
    """A host of a job. Its process dies with this one."""

    def __init__(self, program: str, folder: str, runs_dir: str, name: str) -> None:
        """runs_dir: for run folders, which may be in folders host0, host1 … there."""
        self._program, self._folder = program, _folder_of(program, folder)
        self._runs_dir, self._name = Path(os.path.expanduser(runs_dir)), name
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=20)
        self._reader: threading.Thread | None = None
        self._run: Path | None = None  # the folder that the command named

    def place(self) -> Place:
        with socket.socket() as listener:
            listener.bind(("", 0))
            port = listener.getsockname()[1]
        return Place(port, self._folder or os.getcwd(), self._problem())

    def _problem(self) -> str | None:
        if find_executable() is None:
            return (
                "the executable `paceline` is not beside this Python, in the package or in PATH; install the "
                "package there, or set PACELINE to its path"
            )
        if self._folder is None:
            return (
                f"there is no {self._program} in {os.getcwd()}; send your folder with "
                'ray.init(runtime_env={"working_dir": "."}), or put the program at the same path on all nodes'
            )
        return None

    def make_certificates(self) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            words = [_executable(), "certs", folder, "--job", self._name]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            return {file.name: file.read_bytes() for file in (Path(folder) / self._name).iterdir()}

    def start(
        self,
        words: Sequence[str],
        job: str,
        secrets: str,
        certificates: Mapping[str, bytes],
        says_python: bool = False,
    ) -> Look:
        """Starts `paceline WORDS`, with `job` as its standard input and the certificates in the folder `secrets`.

        A command that runs is killed. says_python: the words or the job name the program's Python. Otherwise it is
        this process's.
        """
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        _write_secrets(Path(secrets), certificates)
        self._lines.clear()
        self._run = None
        self._process = subprocess.Popen(
            [_executable(), *words, *([] if says_python else ["--set", f"program.python={toml(sys.executable)}"])],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A host whose actor is gone is lost, and does not stop the run.
            preexec_fn=functools.partial(die_with, os.getpid()),
        )
        assert self._process.stdin is not None and self._process.stderr is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin:
            self._process.stdin.write(job.encode())
        self._reader = threading.Thread(target=self._pass_on, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        return self.look()

    def look(self, known: str | None = None, read: int = 0) -> Look:
        """known: the run folder, if the driver knows it; read: as in the Look before, for the same folder."""
        process = self._process
        status = None if process is None else process.poll()
        if status is not None and self._reader is not None:
            self._reader.join(10)
        said = list(self._lines)
        run = self._run or (None if known is None else Path(known))
        if run is not None and not run.is_dir():
            run = None
        led_by, leader = (None, None) if run is None else _leader_of(run)
        metrics, read = ([], 0) if run is None else _new_metrics(run, read if str(run) == known else 0)
        return Look(
            started=process is not None,
            status=status,
            said=said[-1] if said else "",
            given_up=any(_GIVEN_UP in line for line in said),
            run=None if run is None else str(run),
            led_by=led_by,
            leader=leader,
            metrics=metrics,
            read=read,
        )

    def stop(self) -> None:
        """Stops the whole run, with a checkpoint; the host ends some time later."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def clean(self, secrets: str) -> None:
        shutil.rmtree(secrets, ignore_errors=True)

    def unfinished_run(self) -> Unfinished | None:
        """This job's newest run here, if it has a checkpoint and was cut short or stopped before its end."""
        for run in _newest_first([self._runs_dir, *self._runs_dir.glob("host[0-9]*")], self._name):
            if (run / "job.toml").exists() and any((run / "checkpoints").glob("v" + 12 * "[0-9]")):
                last = _last_snapshot(run)
                if last is None:
                    return Unfinished(run.name, 0, str(run))
                # total_samples is 0 until it is known. Samples may be committed, and their weights not evaluated.
                over = last["finished"] and 0 < last["total_samples"] <= last["samples"]
                return None if over else Unfinished(run.name, last["samples"], str(run))
        return None

    def export(self, run: str) -> str:
        """The folder with the weights of a run, in model.safetensors."""
        folder = Path(run) / "model"
        folder.mkdir(exist_ok=True)
        words = [_executable(), "export", run, str(folder / "model.safetensors")]
        ended = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            raise RuntimeError(ended.stderr.strip() or f"paceline export ended with status {ended.returncode}")
        return str(folder)

    def weights(self, run: str) -> bytes:
        return (Path(run) / "model" / "model.safetensors").read_bytes()

    def _pass_on(self, stream: IO[bytes]) -> None:
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            self._lines.append(text)
            if text.startswith(_RUN):
                self._run = Path(text.removeprefix(_RUN))
            print(text, file=sys.stderr, flush=True)


def _folder_of(program: str, drivers_folder: str) -> str | None:
    """The folder that a program is started in: this process's, which Ray may have filled, or the driver's."""
    for folder in (os.getcwd(), drivers_folder):
        if os.path.isfile(os.path.join(folder, program)):
            return folder
    return os.getcwd() if not program.endswith(".py") and shutil.which(program) else None


def _executable() -> str:
    found = find_executable()
    assert found is not None, "place() has checked it"
    return found


def _newest_first(folders: Sequence[Path], name: str) -> list[Path]:
    # A run folder's name has the time behind the job's name. Another job's name may begin in the same way.
    named = re.compile(re.escape(name) + r"-\d{8}T\d{6}\..*")
    runs = [run for folder in folders for run in folder.glob(f"{name}-*") if named.fullmatch(run.name)]
    return sorted(runs, key=lambda run: run.name, reverse=True)


def _new_metrics(run: Path, read: int) -> tuple[list[dict[str, Any]], int]:
    """The evaluations behind that many bytes, and the newest snapshot; and how many bytes are read now.

    A long run has millions of snapshots. Only those before an evaluation and at the end are kept.
    """
    lines: list[bytes] = []
    snapshot: bytes | None = None
    with contextlib.suppress(OSError), (run / "metrics.jsonl").open("rb") as file:
        file.seek(read)
        for line in file:
            if not line.endswith(b"\n"):
                break  # the line is being written
            read += len(line)
            if _EVALUATION.search(line):
                lines += [line] if snapshot is None else [snapshot, line]
                snapshot = None
            else:
                snapshot = line
    if snapshot is not None:
        lines.append(snapshot)
    kept: list[dict[str, Any]] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # a damaged line
            kept.append(json.loads(line))
    return kept, read


def _last_snapshot(run: Path) -> dict[str, Any] | None:
    try:
        with (run / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(ValueError):  # the last line was cut short
            said = json.loads(line)
            if isinstance(said, dict) and said.get("kind") == "snapshot":
                return said
    return None


def _leader_of(run: Path) -> tuple[int | None, str | None]:
    with contextlib.suppress(OSError, ValueError):
        host, address = (run / "leader").read_text().split()
        return int(host), address
    return None, None


def _write_secrets(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        new = folder / f".{name}-{uuid.uuid4().hex}"  # another host of this machine may write the same file
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.rename(folder / name)
