"""./dev bench start: how long Paceline takes to start, and what memory its processes need.

First commands that compute nothing: the median of several starts, and the most memory that one has. Then live
trainings with more and more workers on this host: seconds from the command to the first update of the weights, and
the memory of all processes then. Memory that processes share is counted once ("proportional set size").
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOB = """name = "start"
epochs = 100
batch = 8
[model]
name = "gpt-byte"
width = {width}
layers = 2
heads = 4
context = 64
[data]
source = "headers"
train_samples = 8000
test_samples = 400
[[device]]
count = {workers}
"""
SCENARIO = "iterations = 10\n[[device]]\ncount = 2\n"
LOOK_S = 0.005
PATIENCE_S = 300.0


def command(words: list[str | Path], repeats: int) -> tuple[float, float]:
    """The median of its seconds, and the most megabytes that it had."""
    seconds, megabytes = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - began)
        megabytes.append(used.ru_maxrss / 1024)
        if status != 0:
            raise SystemExit(f"start: {' '.join(map(str, words))} failed")
    return statistics.median(seconds), max(megabytes)


def commits(runs: Path) -> int:
    for journal in runs.glob("*/journal.sqlite"):
        try:
            with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
                return int(database.execute("SELECT count(*) FROM commits").fetchone()[0])
        except sqlite3.Error:
            return 0
    return 0


def megabytes_of(pid: str, key: str) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # the process has ended
        return 0.0
    found = re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0


def training(program: Path, workers: int, width: int) -> tuple[float, float, float]:
    """Seconds to the first update; then megabytes of all processes, and of a worker what nobody shares."""
    with tempfile.TemporaryDirectory() as folder:
        job, runs = Path(folder, "job.toml"), Path(folder, "runs")
        job.write_text(JOB.format(workers=workers, width=width))
        began = time.perf_counter()
        run = subprocess.Popen(
            [program, "train", job, "--set", f"runs_dir={runs}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while commits(runs) == 0:
            time.sleep(LOOK_S)
            if run.poll() is not None or time.perf_counter() - began > PATIENCE_S:
                run.kill()
                raise SystemExit(f"start: no update with {workers} workers: {run.communicate()[1][-500:]}")
        seconds = time.perf_counter() - began
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        of_workers = [one for one in children if b"\0worker\0" in Path(f"/proc/{one}/cmdline").read_bytes()]
        total = sum(megabytes_of(one, "Pss") for one in [str(run.pid), *children])
        own = statistics.median(megabytes_of(one, "Private_Dirty") for one in of_workers)
        run.send_signal(signal.SIGKILL)
        run.communicate()
    return seconds, total, own


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench start", description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 8, 32, 128], help="of the trainings")
    parser.add_argument("--repeats", type=int, default=3, help="of each")
    parser.add_argument("--width", type=int, default=64, help="of the model, a transformer of two layers")
    parser.add_argument("--programs", type=Path, nargs="+", default=[Path("build/release")], help="folders of builds")
    options = parser.parse_args()
    programs = [folder / "paceline" for folder in options.programs]
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "scenario.toml")
        scenario.write_text(SCENARIO)
        print("command          seconds     MB")
        for words in (["--version"], ["--help"], ["simulate", str(scenario)], ["doctor"]):
            for program in programs:
                seconds, megabytes = command([program, *words], 5 * options.repeats)
                print(f"{words[0]:15} {seconds:8.3f} {megabytes:6.0f}   {program.parent}")
    print("workers   first update (s)   all processes (MB)   a worker's own (MB)")
    for workers in options.workers:
        for program in programs:
            runs = [training(program, workers, options.width) for _ in range(options.repeats)]
            seconds, total, own = (statistics.median(column) for column in zip(*runs, strict=True))
            spread = max(run[0] for run in runs) - min(run[0] for run in runs)
            print(
                f"{workers:7} {seconds:10.2f} ± {spread / 2:4.2f} {total:20,.0f} {own:21.1f}   {program.parent}",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
