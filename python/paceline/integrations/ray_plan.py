"""The commands of a job on a Ray cluster, as words. It needs no Ray."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import PacelineError

_ARGUMENTS = {"name": "name=", "runs_dir": "storage_path="}  # the arguments of run() for keys of the job


@dataclass(frozen=True)
class Plan:
    """The part of the commands that is the same on all hosts, for the whole run."""

    name: str
    program: str
    args: Sequence[str]
    folder: str  # the program's
    hosts: int
    devices_per_host: int | None  # None: the job file says the devices
    runs_dir: str
    shared: bool  # whether all hosts see runs_dir
    port: int
    secrets: str  # the folder for the certificates on each host
    job: str = ""  # a job file's text
    settings: Mapping[str, Any] = field(default_factory=dict)

    def words(self, rank: int, coordinator: str, resume: str | None = None, again: bool = False) -> list[str]:
        """The words of the command of one host, which adds its Python.

        resume: the run folder, for the host of rank 0, which begins a new run without it. again: it was cut short.
        """
        job = ["-"] if self.job else []
        start = job if rank > 0 else ["--new", *job] if resume is None else ["--resume", resume]
        if again:
            start.append("--again")
        place = ["--rank", str(rank), "--hosts", str(self.hosts), "--coordinator", f"{coordinator}:{self.port}"]
        return ["node", *start, *place, *(word for one in self._sets(rank) for word in ("--set", one))]

    def folder_of_host(self, rank: int) -> str:
        """The folder for the host's runs. Hosts without a shared folder may be on one machine."""
        return self.runs_dir if self.shared or self.hosts == 1 else f"{self.runs_dir}/host{rank}"

    @property
    def says_python(self) -> bool:
        """Whether the job names the program's Python."""
        return "program.python" in self.settings or _names_python(self.job)

    def _sets(self, rank: int) -> list[str]:
        program = {"run": self.program, "args": list(self.args), "directory": self.folder}
        said: dict[str, Any] = {
            "name": self.name,
            "runs_dir": self.folder_of_host(rank),
        }
        said.update({f"program.{key}": value for key, value in program.items()})
        if self.hosts > 1:
            said["network.certs"] = f"{self.secrets}/{self.name}"
            said["network.token_file"] = f"{self.secrets}/{self.name}/token"
            said["network.listen"] = f"0.0.0.0:{self.port}"
            said["cluster.shared_folder"] = self.shared
            if not self.shared and not self.job:
                said["cluster.copies"] = 2
        if self.devices_per_host is not None:
            said["device"] = [{"count": self.hosts * self.devices_per_host}]
        said.update(self.settings)
        return [f"{key}={toml(value)}" for key, value in said.items()]


def _names_python(job: str) -> bool:
    """Whether a job file has the key. A text that is no TOML is refused by the command."""
    section = ""
    for line in job.splitlines():
        if found := re.match(r"\s*\[\s*([\w.]+)\s*\]", line):
            section = found[1] + "."
        elif re.match(r"program\.python\s*=", section + line.strip()):
            return True
    return False


def check_settings(settings: Mapping[str, Any]) -> None:
    for key, argument in _ARGUMENTS.items():
        if key in settings:
            raise PacelineError(f"settings: {key!r} is an argument of run(); write {argument}")


def runs_dir(storage_path: str | os.PathLike[str] | None) -> str:
    """The folder for run folders: a path for all nodes, whose processes are in folders of their own."""
    if storage_path is None:
        return os.path.expanduser("~/ray_results/paceline")
    return os.path.abspath(os.path.expanduser(os.fspath(storage_path)))


def toml(value: Any) -> str:
    """A value as a job file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    return repr(value.item() if hasattr(value, "item") else value)  # a number of NumPy has this method
