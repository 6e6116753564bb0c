"""Streams in jobs with the real executable: each record is trained on exactly once a pass, whoever dies.

A record's gradient is -1 at the weight with its number. Each gradient is a commit of its own and counts whole, and the
learning rate is 1. So each weight becomes the number of times that its record was committed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from live_job import exported, needs_paceline, replay, trained

pytestmark = needs_paceline

PROGRAM = """
import json, os, signal, sys, time
import torch
from torch import nn
import paceline
from paceline.streams import FileShards, JsonLines, Stream

settings = json.loads(sys.argv[1])
RECORDS = settings["records"]

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(RECORDS))

def read(path):
    with open(path) as lines:
        for line in lines:
            yield json.loads(line)

files = settings.get("files", "data")
source = FileShards(files, read) if settings.get("by_function") else JsonLines(files)
options = settings.get("stream", {})
if settings.get("drops"):
    options["keep"] = lambda record: record["number"] % 3 != 0
stream = Stream(source, map=lambda record: record["number"], **options)

model = Counts()
job = paceline.join(model, stream, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), batch_size=4,
                    epochs=settings.get("passes", 1),
                    num_workers=settings.get("processes", 0))
steps = 0
for numbers in job:
    steps += 1
    if job.name == settings.get("dies") and steps == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("slow"):
        time.sleep(settings["slow"])
    model.weight.grad = torch.zeros(RECORDS).index_add_(0, numbers, torch.full((len(numbers),), -1.0))
    job.step(0.0)
"""


def shards(folder: Path, sizes: list[int]) -> int:
    (folder / "data").mkdir()
    number = 0
    for shard, size in enumerate(sizes):
        lines = [json.dumps({"number": number + line}) for line in range(size)]
        number += size
        (folder / "data" / f"{shard:03}.jsonl").write_text("".join(line + "\n" for line in lines))
    return number


UNEVEN = [13, 40, 1, 0, 27, 64, 5, 33, 9, 18]


def run(folder: Path, settings: dict, devices: int, *more: str) -> Path:
    return trained(
        folder, PROGRAM, devices, ("--policy", "asp", "--set", "sync.scale=update", *more), [json.dumps(settings)]
    )


def assert_counts(folder: Path, run: Path, expected: torch.Tensor) -> None:
    torch.testing.assert_close(exported(folder, run)["weight"], expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("by_function", [False, True], ids=["known length", "unknown length"])
@pytest.mark.parametrize("processes", [0, 2])
def test_each_record_counts_once_a_pass(tmp_path: Path, by_function: bool, processes: int) -> None:
    records = shards(tmp_path, UNEVEN)
    settings = {
        "records": records, "passes": 2, "by_function": by_function,
        "processes": processes, "stream": {"shuffle": 50, "interleave": 3, "stride": 4},
    }  # fmt: skip
    done = run(tmp_path, settings, 3)
    assert_counts(tmp_path, done, torch.full((records,), 2.0))
    replay(tmp_path, done)


@pytest.mark.parametrize("by_function", [False, True], ids=["known length", "unknown length"])
def test_each_record_counts_once_though_workers_die(tmp_path: Path, by_function: bool) -> None:
    records = shards(tmp_path, UNEVEN * 3)
    settings = {"records": records, "by_function": by_function, "dies": "w1", "slow": 0.01}
    done = run(tmp_path, settings, 3)
    assert_counts(tmp_path, done, torch.ones(records))
    replay(tmp_path, done)


def test_what_a_filter_drops_counts_as_trained(tmp_path: Path) -> None:
    records = shards(tmp_path, UNEVEN)
    settings = {"records": records, "drops": True}
    done = run(tmp_path, settings, 3)
    expected = torch.tensor([float(number % 3 != 0) for number in range(records)])
    assert_counts(tmp_path, done, expected)
