"""./dev bench program: what an iteration costs as a worker of Paceline and in plain PyTorch.

Both sides live at the same time and take turns of a second: one trains while the other waits at a gate. So what else
the machine does meets both, and starting up is in neither. Processor time is that of all processes of a side: of
`paceline run` the coordinator, the server, the worker and the program.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

import torch

from gates import Keeper
from models import GPU_SUBJECTS, SUBJECTS, subjects
from places import HERE, environment, executable
from processes import family, processor_seconds, spent
from statistics_of import error_of, machine, table, with_error

WORKER = HERE / "program_worker.py"


@dataclass
class Side:
    """A process that trains, and what its turns took."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes]
    keeper: Keeper
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def expect(self) -> None:
        if not self.keeper.expect(self.process):
            self.fail()

    def take_turn(self) -> None:
        before, since = processor_seconds(family(self.process.pid)), time.monotonic()
        self.keeper.let_go()
        if not self.keeper.wait():
            self.fail()
        self.wall.append(time.monotonic() - since)
        self.cpu.append(spent(before, processor_seconds(family(self.process.pid))))

    def finish(self) -> dict[str, float]:
        self.keeper.let_go()
        if self.process.wait(120) != 0:
            self.fail()
        said: dict[str, float] = json.loads((self.folder / "said.json").read_text())
        return said

    def fail(self) -> NoReturn:
        raise SystemExit(f"bench: {self.name} ended early:\n{(self.folder / 'log').read_text()}")


def start(side: str, name: str, turns: int, folder: Path, gpu: bool, settings: list[str]) -> Side:
    folder.mkdir()
    own = [str(WORKER), side, name, str(turns), str(folder), "cuda" if gpu else "cpu"]
    command = [sys.executable, *own]
    if side == "paceline":
        told = [word for setting in settings for word in ("--set", setting)]
        command = [executable(), "run", "--python", sys.executable, *told, own[0], "--", *own[1:]]
    keeper = Keeper(folder)
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    return Side(side, folder, process, keeper)


@dataclass
class Measured:
    """The times of one model, in milliseconds an iteration."""

    plain_wall: list[float]  # one a turn
    wall: list[float]
    plain_cpu: list[float]
    cpu: list[float]
    package: float
    copied: int
    parameters: int

    def ratio(self, gpu: bool) -> tuple[float, float]:
        """The ratio of processor times (with a GPU: wall times) and its standard error, from neighbouring turns."""
        all_ours, all_plain = (self.wall, self.plain_wall) if gpu else (self.cpu, self.plain_cpu)
        ratio = statistics.mean(all_ours) / statistics.mean(all_plain)
        rest = [ours - ratio * plain for ours, plain in zip(all_ours, all_plain)]
        return ratio, error_of(rest) / statistics.mean(all_plain)


def measure(name: str, turns: int, gpu: bool, settings: list[str]) -> Measured:
    subject = subjects(gpu)[name]
    with tempfile.TemporaryDirectory() as temporary:
        sides = [start(side, name, turns, Path(temporary) / side, gpu, settings) for side in ("plain", "paceline")]
        try:
            for side in sides:
                side.expect()
            for turn in range(turns):
                for side in sides if turn % 2 == 0 else reversed(sides):
                    side.take_turn()
            plain, ours = sides
            plain_said, said = plain.finish(), ours.finish()
        finally:
            for side in sides:
                side.process.terminate()
                side.process.wait()
    if plain_said["outside"] != 8 * plain_said["parameters"]:
        raise SystemExit("bench: plain PyTorch's weights and gradients were not all found in its own memory")
    each_ms = 1e3 / subject.block
    return Measured(
        plain_wall=[seconds * each_ms for seconds in plain.wall],
        wall=[seconds * each_ms for seconds in ours.wall],
        plain_cpu=[seconds * each_ms for seconds in plain.cpu],
        cpu=[seconds * each_ms for seconds in ours.cpu],
        package=said["between_ms"] - plain_said["between_ms"],
        copied=int(said["outside"]),
        parameters=int(said["parameters"]),
    )


def row(name: str, one: Measured, gpu: bool) -> list[str]:
    ratio, error = one.ratio(gpu)
    return [
        subjects(gpu)[name].title,
        f"{statistics.mean(one.plain_wall):.3g}",
        f"{statistics.mean(one.wall):.3g}",
        with_error(one.plain_cpu, 2),
        with_error(one.cpu, 2),
        f"{ratio:.3f} ± {error:.3f}",
        f"{one.package:.2f}",
        f"{one.copied:,}",
    ]


HEAD = [
    "model",
    "wall, plain (ms)",
    "wall, Paceline (ms)",
    "processor, plain (ms)",
    "processor, Paceline (ms)",
    "ratio",
    "the package alone (ms)",
    "bytes copied",
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench program", description="an iteration against plain PyTorch")
    parser.add_argument("--turns", type=int, default=8, help="of each side, about a second each (8)")
    parser.add_argument("--models", help=f"some of {','.join(SUBJECTS)}; with --gpu of {','.join(GPU_SUBJECTS)}")
    parser.add_argument("--gpu", action="store_true", help="on the first GPU; the ratio is of wall times then")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of Paceline's job; you may repeat it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    gpu, known = arguments.gpu, subjects(arguments.gpu)
    names = arguments.models.split(",") if arguments.models else list(known)
    if not set(names) <= known.keys() or arguments.turns < 2:
        parser.error(f"the models are {', '.join(known)}, and turns are at least 2")
    if gpu and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here")
    executable()  # or a word that it is missing, before anything starts
    measured = {}
    for name in names:
        print(f"{known[name].title}: {arguments.turns} turns each", file=sys.stderr, flush=True)
        measured[name] = measure(name, arguments.turns, gpu, arguments.set)
    on = f"{torch.cuda.get_device_name()}; {machine()}" if gpu else machine()
    if arguments.json:
        print(json.dumps({"machine": on, "models": {name: asdict(one) for name, one in measured.items()}}))
        return
    print(table(HEAD, [row(name, one, gpu) for name, one in measured.items()]))
    print(f"\nOne iteration; {on}.")


if __name__ == "__main__":
    main()
