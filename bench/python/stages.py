"""./dev bench stages: one model on two devices, as stages, against other cuts and against torch.distributed.pipelining.

Every contender trains the same model of twelve blocks on two processes with one thread each. All take turns, round
after round, so what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

from places import HERE, environment, executable
from stages_program import BATCH, BLOCKS, MICRO_BATCH, SKIPPED
from statistics_of import machine, table, with_error

PROGRAM = HERE / "stages_program.py"
HALF = BLOCKS // 2


def devices(paces_ms: list[float]) -> str:
    paces = [f"pace_ms = {pace}\n" if pace else "" for pace in paces_ms]
    return "".join(f"[[device]]\nbatch = {BATCH}\n{pace}" for pace in paces)


def pipeline(names: list[str], cuts: list[int]) -> str:
    return f"[[pipeline]]\ndevices = {names}\ncuts = {cuts}\nsamples = {BATCH}\n"


def job(folder: Path, updates: int, keys: str, sections: str) -> float:
    """Samples a second."""
    program = f"[program]\nrun = {str(PROGRAM)!r}\nargs = ['job', '{updates}']\npython = {sys.executable!r}\n"
    (folder / "job.toml").write_text(f"micro_batch = {MICRO_BATCH}\n{keys}{sections}{program}")
    run([executable(), "train", "job.toml"], folder)
    [summary] = folder.glob("runs/*/summary.json")
    commits = json.loads(summary.read_text())["training"]
    (since, before, _), (until, after, _) = commits[SKIPPED - 1], commits[-1]
    return float((after - before) / (until - since))


def pipelining(folder: Path, updates: int, cut: int) -> float:
    command = [sys.executable, str(PROGRAM), "pipelining", str(updates), str(cut), str(folder)]
    other = subprocess.Popen([*command, "1"], env=environment(), cwd=folder)
    try:
        run([*command, "0"], folder)
    finally:
        other.wait(60)
    return float(json.loads((folder / "rate.json").read_text()))


def run(command: list[str], folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    if ended.returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed:\n{ended.stderr}")


def contenders(updates: int, pace_ms: float) -> dict[str, Callable[[Path], float]]:
    static, names, unequal = "parallel = 'static'\n", ["w0", "w1"], devices([pace_ms, 2 * pace_ms])
    return {
        "one device, a job without stages": lambda to: job(to, updates, "", devices([0])),
        "one device, a job with stages": lambda to: job(to, updates, static, devices([0]) + pipeline(["w0"], [])),
        "two stages, cut in the middle": lambda to: job(
            to, updates, static, devices([0, 0]) + pipeline(names, [HALF])
        ),
        "torch.distributed.pipelining (1F1B), cut in the middle": lambda to: pipelining(to, updates, HALF),
        "speeds 1 : 0.5, cut in the middle": lambda to: job(to, updates, static, unequal + pipeline(names, [HALF])),
        "speeds 1 : 0.5, cut by the planner": lambda to: job(to, updates, "parallel = 'pipeline'\n", unequal),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench stages", description="one model on two devices")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender (3)")
    parser.add_argument("--updates", type=int, default=30, help="of each run (30)")
    parser.add_argument("--pace-ms", type=float, default=0, help="the fast device's time of a batch (its double)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.updates <= SKIPPED:
        parser.error(f"rounds are at least 1, and updates more than {SKIPPED}")
    executable()
    found: dict[str, list[float]] = {}
    pace_ms = arguments.pace_ms
    for number in range(arguments.rounds):
        names = list(contenders(arguments.updates, pace_ms))
        for name in names:
            print(f"round {number + 1} of {arguments.rounds}: {name}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                rate = contenders(arguments.updates, pace_ms)[name](Path(folder))
            found.setdefault(name, []).append(rate)
            # A device keeps its pace only if it can be faster.
            pace_ms = pace_ms or 2e3 * BATCH / rate
    if arguments.json:
        print(json.dumps({"machine": machine(), "pace_ms": pace_ms, "samples_per_s": found}))
        return
    whole, _, cut, torchs, equal, planned = (statistics.mean(rates) for rates in found.values())
    print(table(["", "samples/s"], [[name, with_error(rates, 1)] for name, rates in found.items()]))
    print(
        f"\nA job with stages on one device: {statistics.mean(found['one device, a job with stages']) / whole:.3f} of "
        f"one without; two stages: {cut / torchs:.2f} of torch.distributed.pipelining; the planner's cut: "
        f"{planned / equal:.2f} of the one in the middle. {machine()}."
    )


if __name__ == "__main__":
    main()
