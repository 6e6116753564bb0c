"""The commands of a job on a Ray cluster, as words. It needs no Ray."""

from __future__ import annotations

import json
import os
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

    def words(self, rank: int, coordinator: str, resume: str | None = None) -> list[str]:
        """The words of the command of one host, which adds its Python.

        resume: the run folder, for the host of rank 0.
        """
        resumed = resume is not None and rank == 0
        start = ["--resume", str(resume)] if resumed else ["-"] if self.job else []
        place = ["--rank", str(rank), "--hosts", str(self.hosts), "--coordinator", f"{coordinator}:{self.port}"]
        return ["node", *start, *place, *(word for one in self._sets(rank) for word in ("--set", one))]

    @staticmethod
    def folder_of_host(runs_dir: str, shared: bool, hosts: int, rank: int) -> str:
        """The folder for the host's runs. Hosts without a shared folder may be on one machine."""
        return runs_dir if shared or hosts == 1 else f"{runs_dir}/host{rank}"

    def _sets(self, rank: int) -> list[str]:
        program = {"run": self.program, "args": list(self.args), "directory": self.folder}
        said: dict[str, Any] = {
            "name": self.name,
            "runs_dir": self.folder_of_host(self.runs_dir, self.shared, self.hosts, rank),
        }
        said.update({f"program.{key}": value for key, value in program.items()})
        if self.hosts > 1:
            said["network.certs"] = f"{self.secrets}/{self.name}"
            said["network.listen"] = f"0.0.0.0:{self.port}"
            said["cluster.shared_folder"] = self.shared
            if not self.shared and not self.job:
                said["cluster.copies"] = 2
        if self.devices_per_host is not None:
            said["device"] = [{"count": self.hosts * self.devices_per_host}]
        said.update(self.settings)
        return [f"{key}={toml(value)}" for key, value in said.items()]


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
