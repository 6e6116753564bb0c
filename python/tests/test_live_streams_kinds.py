"""Each kind of source in jobs of 1, 3 and 7 workers under BSP: the same order, and the same weights to the bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import stream_kinds
import torch
from live_job import exported, needs_paceline, trained
from stream_files import library

pytestmark = needs_paceline

# Each worker's gradients are whole numbers, and their mean is -1 exactly for each record of a round. So with momentum
# 0.5 all weights are sums of few powers of two.
PROGRAM = """
import json, sys
import torch
from torch import nn
import paceline
import stream_kinds
from paceline.streams import Stream

settings = json.loads(sys.argv[1])
kind, records, together = settings["kind"], settings["records"], settings["together"]

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(records))

stream = Stream(stream_kinds.source(kind, "data"), map=lambda record: stream_kinds.number(kind, record),
                **settings["stream"])
model = Counts()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
job = paceline.join(model, stream, optimizer=optimizer, batch_size=together // settings["devices"])
with open(f"seen-{job.name}", "w") as seen:
    for numbers in job:
        print(*job.samples, *numbers.tolist(), file=seen, flush=True)
        one = together / len(numbers)
        model.weight.grad = torch.zeros(records).index_add_(0, numbers, torch.full((len(numbers),), -one))
        job.step(0.0)
"""

STREAM = {"shuffle": 50, "interleave": 3, "stride": 4}
TOGETHER = 21  # samples of a round


def shards(kind: str) -> list[list[int]]:
    sizes = [13, 40, 1, 0, 27, 64, 5, 33, 9, 37 if kind == "mixture" else 18]  # so all rounds are whole
    numbers = iter(range(sum(sizes)))
    return [[next(numbers) for _ in range(size)] for size in sizes]


def seen(folder: Path) -> dict[int, int]:
    """The number of the record that was trained at each place."""
    found = {}
    for line in (line for file in folder.glob("seen-*") for line in file.read_text().splitlines()):
        words = [int(word) for word in line.split()]
        found.update(zip(words[: len(words) // 2], words[len(words) // 2 :]))
    return found


@pytest.mark.parametrize("kind", stream_kinds.KINDS)
def test_order_and_weights_are_the_same_for_any_number_of_workers(tmp_path: Path, kind: str) -> None:
    if kind in stream_kinds.LIBRARIES:
        library(stream_kinds.LIBRARIES[kind])
    stream_kinds.write(kind, tmp_path / "data", shards(kind))
    order = stream_kinds.whole_order(kind, str(tmp_path / "data"), 1, STREAM)
    records = sum(map(len, shards(kind)))
    assert set(order) == set(range(records)) and len(order) % TOGETHER == 0
    expected = torch.zeros(records)
    for place, number in enumerate(order):
        after = len(order) // TOGETHER - 1 - place // TOGETHER  # rounds after the one of this record
        expected[number] += 2 - 0.5**after
    for devices in (1, 3, 7):
        folder = tmp_path / str(devices)
        folder.mkdir()
        shutil.copy(stream_kinds.__file__, folder)
        (folder / "data").symlink_to(tmp_path / "data")
        settings = {
            "kind": kind, "records": records, "together": TOGETHER, "devices": devices, "stream": STREAM,
        }  # fmt: skip
        done = trained(folder, PROGRAM, devices, ("--policy", "bsp"), [json.dumps(settings)])
        assert seen(folder) == dict(enumerate(order))
        assert torch.equal(exported(folder, done)["weight"], expected)
