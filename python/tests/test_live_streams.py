"""Streams in jobs with the real executable: each record is trained on exactly once a pass, whoever dies.

A record's gradient is -1 at the weight with its number. Each gradient is a commit of its own and counts whole, and the
learning rate is 1. So each weight becomes the number of times that its record was committed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch
from live_job import (
    exported,
    killed_after_checkpoints,
    needs_paceline,
    only_run,
    paceline,
    replay,
    run_words,
    trained,
)

from paceline.streams import JsonLines, Stream
from paceline.streams.stream import UNKNOWN_EPOCH

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
    with open("opened", "a") as opened:
        print(path, file=opened)
    with open("openers", "a") as openers:
        print(os.getpid(), path, file=openers)
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
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
job = paceline.join(model, stream, optimizer=optimizer, batch_size=4,
                    epochs=settings.get("passes", 1),
                    num_workers=settings.get("processes", 0))
steps = 0
for numbers in job:
    steps += 1
    if job.name == settings.get("dies") and steps == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("slow") and settings.get("slow_one", job.name) == job.name:
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


def files_of(folder: Path) -> list[str]:
    return [f"data/{path.name}" for path in sorted((folder / "data").iterdir())]


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
    if by_function:  # the host's readers open each file once, for all workers; a second pass finds all in the window
        assert Counter((tmp_path / "opened").read_text().split()) == dict.fromkeys(files_of(tmp_path), 1)


@pytest.mark.parametrize("by_function", [False, True], ids=["known length", "unknown length"])
def test_each_record_counts_once_though_workers_die(tmp_path: Path, by_function: bool) -> None:
    records = shards(tmp_path, UNEVEN * 3)
    settings = {"records": records, "by_function": by_function, "dies": "w1", "slow": 0.01}
    done = run(tmp_path, settings, 3)
    assert_counts(tmp_path, done, torch.ones(records))
    replay(tmp_path, done)


def test_virtual_time_finds_the_end_too(tmp_path: Path) -> None:
    records = shards(tmp_path, UNEVEN)
    settings = {"records": records, "passes": 2, "by_function": True}
    done = run(tmp_path, settings, 3, "--virtual")
    assert_counts(tmp_path, done, torch.full((records,), 2.0))
    replay(tmp_path, done)


def test_what_a_filter_drops_counts_as_trained(tmp_path: Path) -> None:
    records = shards(tmp_path, UNEVEN)
    settings = {"records": records, "drops": True}
    done = run(tmp_path, settings, 3)
    expected = torch.tensor([float(number % 3 != 0) for number in range(records)])
    assert_counts(tmp_path, done, expected)


@pytest.mark.parametrize("by_function", [False, True], ids=["known length", "unknown length"])
def test_the_records_that_are_not_damaged_count_once_a_pass(tmp_path: Path, by_function: bool) -> None:
    records = shards(tmp_path, UNEVEN)
    lines = (tmp_path / "data" / "004.jsonl").read_text().splitlines(keepends=True)
    lines[10] = '{"number": \n'
    (tmp_path / "data" / "004.jsonl").write_text("".join(lines))
    settings = {"records": records, "passes": 2, "by_function": by_function, "stream": {"damaged": "skip"}}
    done = run(tmp_path, settings, 3)
    before = sum(UNEVEN[:4])
    # FileShards reads nothing behind the damage of a shard.
    lost = range(before + 10, before + (UNEVEN[4] if by_function else 11))
    assert_counts(tmp_path, done, torch.tensor([0.0 if number in lost else 2.0 for number in range(records)]))


def test_shares_of_uneven_data_are_shares_of_the_stream(tmp_path: Path) -> None:
    records = shards(tmp_path, UNEVEN * 2)
    settings = {"records": records, "by_function": True, "passes": 2}
    done = run(tmp_path, {**settings, "slow": 0.02, "slow_one": "w1"}, 2, "--set", "parallel=uneven-data")
    assert_counts(tmp_path, done, torch.full((records,), 2.0))


@pytest.mark.parametrize("by_function", [False, True], ids=["known length", "unknown length"])
def test_a_run_that_was_killed_goes_on_at_its_last_checkpoint(tmp_path: Path, by_function: bool) -> None:
    records = shards(tmp_path, UNEVEN * 3)
    settings = {"records": records, "by_function": by_function, "slow": 0.03}
    often = 40 / (UNKNOWN_EPOCH if by_function else records)
    words = run_words(
        tmp_path,
        PROGRAM,
        2,
        ("--policy", "asp", "--set", "sync.scale=update", "--set", f"checkpoint.every_epochs={often}"),
        [json.dumps(settings)],
    )
    killed_after_checkpoints(tmp_path, words)
    resumed = paceline(tmp_path, "train", "--resume", str(only_run(tmp_path)))
    assert resumed.returncode == 0, resumed.stderr
    assert_counts(tmp_path, only_run(tmp_path), torch.ones(records))
    replay(tmp_path, only_run(tmp_path))


def test_a_resumed_run_knows_the_lengths_that_dead_readers_learnt(tmp_path: Path) -> None:
    records = shards(tmp_path, UNEVEN * 3)
    options = {"shuffle": 50, "interleave": 3, "stride": 4}
    words = run_words(
        tmp_path,
        PROGRAM,
        2,
        ("--policy", "asp", "--set", "sync.scale=update", "--set", f"checkpoint.every_epochs={150 / UNKNOWN_EPOCH}"),
        [json.dumps({"records": records, "by_function": True, "slow": 0.03, "stream": options})],
    )
    killed_after_checkpoints(tmp_path, words)
    for pid in {int(line.split()[0]) for line in (tmp_path / "openers").read_text().splitlines()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    resumed = paceline(tmp_path, "train", "--resume", str(only_run(tmp_path)))
    assert resumed.returncode == 0, resumed.stderr
    assert_counts(tmp_path, only_run(tmp_path), torch.ones(records))
    stream = Stream(JsonLines(tmp_path / "data"), **options)
    stream.seed(1)
    early, late = ({shard for shard, _ in stream.places(0, *part)} for part in ((0, 100), (100, records)))
    opened = [line.split() for line in (tmp_path / "openers").read_text().splitlines()]
    by_the_last_reader = {path for pid, path in opened if pid == opened[-1][0]}
    ended = {files_of(tmp_path)[shard] for shard in early - late}
    assert ended and by_the_last_reader and not ended & by_the_last_reader


def test_a_run_that_is_resumed_on_another_host_with_a_shorter_shard_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = shards(tmp_path, UNEVEN * 3)
    options = {"shuffle": 50, "interleave": 3, "stride": 4}
    settings = {"records": records, "by_function": True, "slow": 0.03, "stream": options}
    often = f"checkpoint.every_epochs={150 / UNKNOWN_EPOCH}"
    more = ("--policy", "asp", "--set", "sync.scale=update", "--set", often)
    killed_after_checkpoints(tmp_path, run_words(tmp_path, PROGRAM, 2, more, [json.dumps(settings)]))
    # Another host has no reader of this run, and its own cache.
    for pid in {int(line.split()[0]) for line in (tmp_path / "openers").read_text().splitlines()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache of another host"))
    stream = Stream(JsonLines(tmp_path / "data"), **options)
    stream.seed(1)
    early, late = ({shard for shard, _ in stream.places(0, *part)} for part in ((0, 100), (100, records)))
    shard = next(one for one in sorted(early - late) if (UNEVEN * 3)[one] > 1)
    file = tmp_path / files_of(tmp_path)[shard]
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    resumed = paceline(tmp_path, "train", "--resume", str(only_run(tmp_path)))
    size = (UNEVEN * 3)[shard]
    assert resumed.returncode == 2, resumed.stderr
    assert re.search(
        rf"w[01] found {size - 1} records? in the shard '{file.name}' on host 0, and the run had found {size} there "
        r"before it was resumed; copy the shard of that time to host 0 and resume the run, or begin a new one",
        resumed.stderr,
    ), resumed.stderr


TRAINER = """
import torch
from torch import nn
from transformers import TrainingArguments
from paceline.integrations.transformers import PacelineTrainer
from paceline.streams import JsonLines, Stream

torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
    def forward(self, x, labels=None):
        return {"loss": ((self.net(x) - labels) ** 2).mean()}

def sample(record):
    torch.manual_seed(record["number"])
    return {"x": torch.randn(3), "labels": torch.randn(1)}

stream = Stream(JsonLines("data"), map=sample, shuffle=32, interleave=3)
args = TrainingArguments("out", per_device_train_batch_size=8, num_train_epochs=2, learning_rate=0.1, use_cpu=True,
                         lr_scheduler_type="constant", optim="sgd", max_grad_norm=0, disable_tqdm=True)
model = Net()
trainer = PacelineTrainer(model, args, train_dataset=stream)
trainer.train()
if trainer.job.role == "worker":
    torch.manual_seed(0)
    plain = Net()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    stream.seed(trainer.job.seed)
    for epoch in range(2):
        samples = list(stream.epoch(epoch))
        for begin in range(0, len(samples), 8):
            batch = samples[begin : begin + 8]
            optimizer.zero_grad()
            plain(torch.stack([one["x"] for one in batch]), torch.stack([one["labels"] for one in batch]))["loss"].backward()
            optimizer.step()
    torch.save(plain.state_dict(), "plain.pt")
"""


def test_a_trainer_trains_on_a_stream_as_plain_pytorch_does(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed, and a Trainer of transformers needs it")
    shards(tmp_path, UNEVEN)
    done = trained(tmp_path, TRAINER, 1)
    plain = torch.load(tmp_path / "plain.pt")
    for name, value in exported(tmp_path, done).items():
        torch.testing.assert_close(value, plain[name], rtol=1e-5, atol=1e-6)
