"""Part of ./dev bench pages: what open pages cost a run that trains on every processor.

A training runs, and by turns no page and three pages are open. A page takes all that the server of the pages sends.
Prints the ratio of updates a second in neighbouring turns, with its standard error.
"""

from __future__ import annotations

import argparse
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

JOB = """name = "open-pages"
epochs = 10000
batch = 32
[sync]
policy = "asp"
[model]
name = "gpt-byte"
width = 64
layers = 2
heads = 4
context = 64
[data]
source = "headers"
train_samples = 4000
test_samples = 400
[[device]]
count = {workers}
"""
PAGES = 3


def updates(journal: Path) -> int:
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT max(version) FROM commits").fetchone()[0] or 0)


def rate(journal: Path, seconds: float) -> float:
    """Updates a second. Each is one batch of one worker, and the journal is written a few times a second."""
    began, first = time.perf_counter(), updates(journal)
    time.sleep(seconds)
    return (updates(journal) - first) / (time.perf_counter() - began)


class Page:
    """Takes the events of a page until it is closed."""

    def __init__(self, address: str, token: str, run: str) -> None:
        request = urllib.request.Request(
            f"{address}api/events?part=run&run={run}", headers={"Authorization": f"Bearer {token}"}
        )
        self._answer = urllib.request.urlopen(request)
        self.bytes = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while piece := self._answer.read1(1 << 16):
                self.bytes += len(piece)
        except (OSError, ValueError, AttributeError):
            pass

    def close(self) -> None:
        self._answer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=Path("build/release/paceline"))
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10, help="of a turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job, runs = Path(folder, "job.toml"), Path(folder, "runs")
        job.write_text(JOB.format(workers=os.cpu_count()))
        words = [options.program, "train", job, "--quiet", "--set", f"runs_dir={runs}"]
        with subprocess.Popen(words) as run:
            while not (journals := list(runs.glob("*/journal.sqlite"))):
                time.sleep(0.1)
            journal = journals[0]
            served = [options.program, "ui", runs, "--listen", "127.0.0.1:0"]
            with subprocess.Popen(served, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdout
                found = re.search(r"(http://[^?]*)\?token=(\S+)", server.stdout.readline())
                assert found
                address, token = found.groups()
                time.sleep(10)
                ratios, bytes_a_second = [], []

                def with_pages() -> float:
                    opened = [Page(address, token, journal.parent.name) for _ in range(PAGES)]
                    having = rate(journal, options.seconds)
                    bytes_a_second.extend(page.bytes / options.seconds for page in opened)
                    for page in opened:
                        page.close()
                    return having

                for turn in range(options.turns):
                    # The other way round every second time, so that a machine that gets slower favors neither.
                    if turn % 2 == 0:
                        without, having = rate(journal, options.seconds), with_pages()
                    else:
                        having, without = with_pages(), rate(journal, options.seconds)
                    ratios.append(having / without)
                    print(f"{turn}: {without:.1f} updates/s without, {having:.1f} with", file=sys.stderr)
                server.kill()
            run.kill()
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        print(
            f"a run with {PAGES} open pages: {statistics.mean(ratios):.3f} ± {error:.3f} of its updates a second "
            f"without; {statistics.mean(bytes_a_second) / 1e3:.1f} kB/s a page"
        )


if __name__ == "__main__":
    main()
