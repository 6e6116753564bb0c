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

from gates import Keeper
from models import SUBJECTS
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


def start(side: str, name: str, turns: int, folder: Path) -> Side:
    folder.mkdir()
    own = [str(WORKER), side, name, str(turns), str(folder)]
    command = [sys.executable, *own]
    if side == "paceline":
        command = [executable(), "run", "--python", sys.executable, own[0], "--", *own[1:]]
    keeper = Keeper(folder)
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    return Side(side, folder, process, keeper)


@dataclass
class Measured:
    """Of one model, in milliseconds an iteration."""

    plain_wall: float
    wall: float
    plain_cpu: list[float]  # one a turn
    cpu: list[float]
    package: float
    copied: int
    parameters: int

    def ratio(self) -> tuple[float, float]:
        """Of processor times, and its standard error: of turns that followed each other."""
        ratio = statistics.mean(self.cpu) / statistics.mean(self.plain_cpu)
        rest = [ours - ratio * plain for ours, plain in zip(self.cpu, self.plain_cpu)]
        return ratio, error_of(rest) / statistics.mean(self.plain_cpu)


def measure(name: str, turns: int) -> Measured:
    subject = SUBJECTS[name]
    with tempfile.TemporaryDirectory() as temporary:
        sides = [start(side, name, turns, Path(temporary) / side) for side in ("plain", "paceline")]
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
        plain_wall=statistics.mean(plain.wall) * each_ms,
        wall=statistics.mean(ours.wall) * each_ms,
        plain_cpu=[seconds * each_ms for seconds in plain.cpu],
        cpu=[seconds * each_ms for seconds in ours.cpu],
        package=said["between_ms"] - plain_said["between_ms"],
        copied=int(said["outside"]),
        parameters=int(said["parameters"]),
    )


def row(name: str, one: Measured) -> list[str]:
    ratio, error = one.ratio()
    return [
        SUBJECTS[name].title,
        f"{one.plain_wall:.3g}",
        f"{one.wall:.3g}",
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
    parser.add_argument("--models", default=",".join(SUBJECTS), help="some of " + ",".join(SUBJECTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    if not set(names) <= SUBJECTS.keys() or arguments.turns < 2:
        parser.error(f"the models are {', '.join(SUBJECTS)}, and turns are at least 2")
    executable()  # or a word that it is missing, before anything starts
    measured = {}
    for name in names:
        print(f"{SUBJECTS[name].title}: {arguments.turns} turns each", file=sys.stderr, flush=True)
        measured[name] = measure(name, arguments.turns)
    if arguments.json:
        print(json.dumps({"machine": machine(), "models": {name: asdict(one) for name, one in measured.items()}}))
        return
    print(table(HEAD, [row(name, one) for name, one in measured.items()]))
    print(f"\nOne iteration; {machine()}.")


if __name__ == "__main__":
    main()
