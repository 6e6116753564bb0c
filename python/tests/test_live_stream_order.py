"""Resumed runs whose streams are other ones: refused if the trained part differs, and otherwise trained to the end."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from live_job import exported, killed_after_checkpoints, needs_paceline, paceline, replay, run_words

pytestmark = needs_paceline

# A record's gradient is -1 at the weight with its number, and each commit counts whole. So a weight is the number of
# times that its record was committed.
PROGRAM = """
import json, sys, time
from pathlib import Path
import torch
from torch import nn
import paceline
from paceline.streams import JsonLines, Mixture, Stream

settings = json.loads(Path("settings.json").read_text())

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(settings["numbers"]))

class Numbers:
    def __init__(self, first, count):
        self.first, self.count = first, count
    def shards(self):
        return [f"from {self.first}"]
    def length(self, shard):
        return self.count
    def read(self, shard, records):
        return [{"number": self.first + record} for record in records]

if "then" in settings:
    then = {int(record): weights for record, weights in settings["then"].items()}
    source = Mixture({"a": (Numbers(0, 6000), 1), "b": (Numbers(6000, 6000), 1)}, then=then)
else:
    source = JsonLines("data")
keep = (lambda record: record["number"] % 2 == 0) if "even" in settings else None
stream = Stream(source, map=lambda record: record["number"], shuffle=settings["shuffle"],
                records=settings.get("records"), keep=keep)
model = Counts()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
job = paceline.join(model, stream, optimizer=optimizer, batch_size=settings["batch"])
for numbers in job:
    time.sleep(settings["slow"])
    model.weight.grad = torch.zeros(settings["numbers"]).index_add_(0, numbers, torch.full((len(numbers),), -1.0))
    job.step(0.0)
"""

SLOW = {"shuffle": 64, "batch": 4, "slow": 0.03, "numbers": 400}
MIXED = {"records": 12000, "shuffle": 4096, "batch": 256, "slow": 0.2, "numbers": 12000}


def killed(folder: Path, settings: dict, every: float) -> Path:
    """A run that was killed after its second checkpoint. every: epochs between checkpoints."""
    (folder / "settings.json").write_text(json.dumps(settings))
    more = ("--policy", "asp", "--set", "sync.scale=update", "--set", f"checkpoint.every_epochs={every}")
    return killed_after_checkpoints(folder, run_words(folder, PROGRAM, 2, more, []))


def lines(folder: Path) -> None:
    (folder / "data").mkdir()
    for shard in range(4):
        text = "".join(json.dumps({"number": 100 * shard + line}) + "\n" for line in range(100))
        (folder / "data" / f"{shard}.jsonl").write_text(text)


def test_a_run_does_not_go_on_with_other_shards(tmp_path: Path) -> None:
    lines(tmp_path)
    run = killed(tmp_path, SLOW, every=0.1)
    (tmp_path / "data" / "3.jsonl").rename(tmp_path / "data" / "0a.jsonl")
    refused = paceline(tmp_path, "train", "--resume", str(run))
    assert refused.returncode == 2
    assert "and its data are other ones from sample 0 on" in refused.stderr
    assert "resume with the data and settings of that time, or begin a new run" in refused.stderr
    (tmp_path / "data" / "0a.jsonl").rename(tmp_path / "data" / "3.jsonl")
    resumed = paceline(tmp_path, "train", "--resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    torch.testing.assert_close(exported(tmp_path, run)["weight"], torch.ones(400), atol=1e-3, rtol=0)
    replay(tmp_path, run)


def test_a_run_does_not_go_on_with_one_shard_more(tmp_path: Path) -> None:
    lines(tmp_path)
    run = killed(tmp_path, SLOW, every=0.1)
    (tmp_path / "data" / "4.jsonl").write_text('{"number": 0}\n')
    refused = paceline(tmp_path, "train", "--resume", str(run))
    assert refused.returncode == 2
    assert "the data have 401 samples, and had 400 when the run began" in refused.stderr


def test_a_filter_that_changed_holds_for_what_was_not_trained(tmp_path: Path) -> None:
    lines(tmp_path)
    run = killed(tmp_path, SLOW, every=0.1)
    (tmp_path / "settings.json").write_text(json.dumps({**SLOW, "even": True}))
    resumed = paceline(tmp_path, "train", "--resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    times = exported(tmp_path, run)["weight"].round()
    assert bool((times[::2] == 1).all())
    assert 20 < times[1::2].sum().item() < 200  # the ones of the first part of the run
    replay(tmp_path, run)


def test_a_folder_of_shards_may_move(tmp_path: Path) -> None:
    lines(tmp_path)
    run = killed(tmp_path, SLOW, every=0.1)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "data").symlink_to(tmp_path / "elsewhere")
    resumed = paceline(tmp_path, "train", "--resume", str(run))
    assert resumed.returncode == 0, resumed.stderr


def test_a_mixture_goes_on_with_other_weights_from_a_record_that_was_not_trained(tmp_path: Path) -> None:
    run = killed(tmp_path, {**MIXED, "then": {}}, every=0.1)
    (tmp_path / "settings.json").write_text(json.dumps({**MIXED, "then": {"0": {"a": 3, "b": 1}}}))
    refused = paceline(tmp_path, "train", "--resume", str(run))
    assert refused.returncode == 2 and "is no multiple of 4096; write 4096" in refused.stderr
    first = json.dumps({**MIXED, "then": {"4096": {"a": 1, "b": 3}}})
    (tmp_path / "settings.json").write_text(first)
    changed = paceline(tmp_path, "train", "--resume", str(run))
    assert changed.returncode == 0, changed.stderr
    weights = exported(tmp_path, run)["weight"]
    assert round(weights.sum().item()) == 12000
    # 2048 in the first 4096 records and 1024 in the next; and the last 3808 are all but 288 of a part like that.
    assert 2048 + 1024 + 1024 - 288 <= round(weights[:6000].sum().item()) <= 2048 + 1024 + 1024
    assert weights[:6000].max().item() < 1.01 and weights[6000:].max().item() < 2.01
    replay(tmp_path, run)


def test_a_mixture_does_not_go_on_with_other_weights_for_what_was_trained(tmp_path: Path) -> None:
    long = {**MIXED, "records": 48000}
    run = killed(tmp_path, {**long, "then": {}}, every=0.1)  # each checkpoint is behind record 4096
    (tmp_path / "settings.json").write_text(json.dumps({**long, "then": {"4096": {"a": 1, "b": 3}}}))
    refused = paceline(tmp_path, "train", "--resume", str(run))
    assert refused.returncode == 2
    assert "and its data are other ones from sample 4096 on" in refused.stderr
