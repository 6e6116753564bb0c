"""The information that Paceline gave this process at its start."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from ._version import PROTOCOL, __version__
from .channel import Channel, open_channel
from .errors import PacelineError


@dataclass
class Session:
    channel: Channel
    role: str  # "worker", "evaluator", "probe" or "follower"
    name: str  # "w0"
    devices: int
    seed: int
    weights: str = "view"  # unless the program says otherwise
    settings: dict[str, Any] = field(default_factory=dict)
    stages: bool = False  # the job has stages
    recuts: bool = False  # other stages may come later: one without memory says so
    card_memory: bool = False  # the free memory of this process's card is to be said
    on_host: int = 0  # the number among the devices of this host
    initial_weights: str = ""  # the file whose values frozen tensors have
    run_folder: str = ""  # if this process knows it
    run: str = ""  # the run's name, the same when it is resumed
    host_folder: str = ""  # a run has it to itself on this host, until the job's next run
    keep_frozen: bool = True  # the values of frozen tensors, in the run's folder
    beside: bool = False  # a probe computes until its end, while another one measures
    first: bool | None = None  # whether it is the first of the workers left; known once the job is over
    profile: int = 0  # a probe measures micro-batches of up to so many samples; 0: none
    # These are a follower's: a further process of a worker (team.py).
    rank: int = 0
    processes: int = 1
    leader: int = 0  # number of the process that started it
    meeting: str = ""

    @property
    def number(self) -> int:
        """The number in the name: 0 for w0."""
        digits = "".join(c for c in self.name if c.isdigit())
        return int(digits) if digits else 0

    @property
    def is_first(self) -> bool:
        """One process of the job writes what is written once: w0, or at the end the first of those that are left."""
        return self.role == "worker" and (self.number == 0 if self.first is None else self.first)

    def round(self, batch: float) -> int:
        """The samples of one batch of each replica, if a device that is a replica has this batch."""
        return int(self.settings.get("round") or round(batch * self.devices))


_session: Session | None = None


def session() -> Session | None:
    """None in a process that no worker started."""
    global _session
    if _session is None:
        channel = open_channel()
        if channel is not None:
            _session = _read_start(channel)
    return _session


def _path(said: Any) -> str:
    """The worker says paths in UTF-8. In a locale of another charset Python would look for other bytes."""
    return os.fsdecode(str(said or "").encode("utf-8", "surrogateescape"))


def _read_start(channel: Channel) -> Session:
    start = channel.read()
    if start is None or start["type"] == "end":
        raise SystemExit(0)
    if start["type"] != "start":
        raise PacelineError(f"Paceline's first message is {start['type']!r}, not 'start'")
    protocol = start.get("protocol")
    if protocol != PROTOCOL:
        raise PacelineError(
            f"Paceline speaks version {protocol} of the protocol, and the Python package {__version__} speaks "
            f"{PROTOCOL}; install the package of the same release",
        )
    version = start.get("version", __version__)
    if version != __version__:
        raise PacelineError(
            f"the executable `paceline` is {version}, and the Python package is {__version__}; install the package "
            "of the same release"
        )
    frozen = dict(start.get("frozen") or {})
    return Session(
        channel=channel,
        role=str(start.get("role", "worker")),
        name=str(start.get("name", "w0")),
        devices=int(start.get("devices", 1)),
        seed=int(start.get("seed", 0)),
        weights=str(start.get("weights") or "view"),
        settings=dict(start.get("settings") or {}),
        stages=bool(start.get("stages", False)),
        recuts=bool(start.get("recuts", False)),
        card_memory=bool(start.get("card_memory", False)),
        on_host=int(start.get("on_host", 0)),
        initial_weights=_path(start.get("initial_weights")),
        run_folder=_path(frozen.get("folder")),
        run=str(start.get("run") or ""),
        host_folder=_path(start.get("host_folder")),
        keep_frozen=bool(frozen.get("keep", True)),
        profile=int(start.get("profile", 0)),
        beside=bool(start.get("beside", False)),
        rank=int(start.get("rank", 0)),
        processes=int(start.get("processes", 1)),
        leader=int(start.get("leader", 0)),
        meeting=str(start.get("meeting", "")),
    )
