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
_PYTHON = "program.python"


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
    leader: str | None  # HOST:PORT of the run's coordinator
    metrics: list[dict[str, Any]]  # new ones


class Host:
    """A host of a job. Its process dies with this one."""

    def __init__(self, program: str, folder: str, runs_dir: str, name: str) -> None:
        self._program, self._folder = program, _folder_of(program, folder)
        self._runs_dir, self._name = Path(os.path.expanduser(runs_dir)), name
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=20)
        self._reader: threading.Thread | None = None
        self._run: Path | None = None  # the folder that the command named
        self._read: dict[Path, int] = {}  # bytes of each file of metrics

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
        run: str | None = None,
    ) -> Look:
        """Starts `paceline WORDS`, with `job` as its standard input and the certificates in the folder `secrets`.

        run: as in look(). Returns the metrics from before the start.
        """
        before = self.look(run)
        _write_secrets(Path(secrets), certificates)
        self._runs_dir.mkdir(parents=True, exist_ok=True)
        self._lines.clear()
        if not any(word.startswith(_PYTHON + "=") for word in words):
            words = [*words, "--set", f"{_PYTHON}={toml(sys.executable)}"]
        self._process = subprocess.Popen(
            [_executable(), *words],
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
        return before._replace(started=True, status=None, said="", given_up=False)

    def look(self, name: str | None = None) -> Look:
        """name: the run folder's, if it is known; all hosts use the same one."""
        process = self._process
        status = None if process is None else process.poll()
        if status is not None and self._reader is not None:
            self._reader.join(10)
        said = list(self._lines)
        run = self._run_named(name)
        return Look(
            started=process is not None,
            status=status,
            said=said[-1] if said else "",
            given_up=any(_GIVEN_UP in line for line in said),
            run=None if run is None else str(run),
            leader=None if run is None else _leader_of(run),
            metrics=[] if run is None else self._new_metrics(run),
        )

    def stop(self) -> None:
        """Stops the whole run, with a checkpoint; the host ends some time later."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def clean(self, secrets: str) -> None:
        shutil.rmtree(secrets, ignore_errors=True)

    def unfinished_run(self) -> str | None:
        """The newest run of this job here that has a checkpoint, and was cut short or stopped before its end."""
        for run in _newest_first(self._runs_dir, self._name):
            if (run / "job.toml").exists() and any((run / "checkpoints").glob("v" + 12 * "[0-9]")):
                last = _snapshots(run)[-1:]
                # total_samples is 0 until it is known. Samples may be committed, and their weights not evaluated.
                over = last and last[0]["finished"] and 0 < last[0]["total_samples"] <= last[0]["samples"]
                return None if over else str(run)
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

    def _run_named(self, name: str | None) -> Path | None:
        """The run's folder here. Without a name it is not known before the command says it."""
        for run in (self._run, None if name is None else self._runs_dir / name):
            if run is not None and run.is_dir():
                return run
        return None

    def _new_metrics(self, run: Path) -> list[dict[str, Any]]:
        file = run / "metrics.jsonl"
        try:
            with file.open("rb") as opened:
                opened.seek(self._read.get(file, 0))
                whole = opened.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        if whole:
            self._read[file] = self._read.get(file, 0) + len(whole) + 1
        return [json.loads(line) for line in whole.splitlines()]

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


def _newest_first(runs_dir: Path, name: str) -> list[Path]:
    # A run folder's name has the time behind the job's name. Another job's name may begin in the same way.
    named = re.compile(re.escape(name) + r"-\d{8}T\d{6}\..*")
    return sorted((run for run in runs_dir.glob(f"{name}-*") if named.fullmatch(run.name)), reverse=True)


def _snapshots(run: Path) -> list[dict[str, Any]]:
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return []
    said = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last line was cut short
            said.append(json.loads(line))
    return [one for one in said if one["kind"] == "snapshot"]


def _leader_of(run: Path) -> str | None:
    try:
        words = (run / "leader").read_text().split()
    except OSError:
        return None
    return words[1] if len(words) == 2 else None


def _write_secrets(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        new = folder / f".{name}-{uuid.uuid4().hex}"  # another host of this machine may write the same file
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.rename(folder / name)
