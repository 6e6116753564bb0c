"""Steps on a stream, whose batches may have fewer samples than were leased."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import pytest
from fake_member import Member

from paceline import PacelineError
from paceline.streams import FileShards, JsonLines, Stream

PROGRAM = """
import json
import torch
from torch import nn
import paceline
from paceline.streams import FileShards, JsonLines, Stream

def read(path):
    with open(path) as lines:
        yield from map(json.loads, lines)

OPTIONS = {options}
source = {source}
stream = Stream(source, map=float, shuffle=0, interleave=1, **OPTIONS)
model = nn.Linear(1, 1, bias=False)
nn.init.ones_(model.weight)
job = paceline.join(model, stream, **{{"batch_size": 4, **dict({more})}})
for numbers in job:
    loss = (model(numbers[:, None].float()) ** 2).mean()
    loss.backward()
    job.step(loss, {{"largest": numbers.max()}})
print("after the loop")
"""
BY_FUNCTION = 'FileShards("data", read)'
BY_LINES = 'JsonLines("data")'


def start(
    folder: Path,
    source: str = BY_LINES,
    options: str = "{}",
    more: str = "",
    before: str = "",
    after: str = "",
    host_folder: str = "",
) -> Member:
    (folder / "data").mkdir()
    for shard in range(2):
        lines = [json.dumps(5 * shard + line) for line in range(5)]
        (folder / "data" / f"{shard}.jsonl").write_text("\n".join(lines))
    text = before + PROGRAM.format(options=options, source=source, more=more) + after
    return Member(folder, text, host_folder=host_folder)


def gradient(member: Member, memory: object) -> float:
    return float(member.tensor(memory, "weight"))


def expected(numbers: list[int]) -> float:
    return 2 * sum(number**2 for number in numbers) / len(numbers)


def test_the_model_says_that_its_data_have_an_order(tmp_path: Path) -> None:
    with start(tmp_path) as member:
        model = member.take_model()
        assert (model["samples"], model["in_order"], model["open_end"]) == (10, True, False)
        assert len(model["digest"]) == 16


def test_the_model_says_that_nobody_knows_the_end(tmp_path: Path) -> None:
    with start(tmp_path, BY_FUNCTION) as member:
        model = member.take_model()
        assert (model["samples"], model["in_order"], model["open_end"]) == (65536, True, True)


def test_a_batch_beyond_the_epoch_of_an_unknown_length_is_refused(tmp_path: Path) -> None:
    with start(tmp_path, BY_FUNCTION, more="batch_size=65537") as member:
        text = member.receive("error")["text"]
        assert "a batch has 65537 samples" in text and "give the stream records=" in text


def test_places_are_samples_of_the_stream(tmp_path: Path) -> None:
    with start(tmp_path) as member:
        _, gradients = member.begin()
        answer = member.step([3, 4, 5])
        assert answer["metrics"] == {"largest": 5.0}
        assert "weight" not in answer
        assert gradient(member, gradients) == pytest.approx(expected([3, 4, 5]))


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_a_batch_weighs_as_many_samples_as_it_kept(tmp_path: Path, micro_batch: int | None) -> None:
    with start(tmp_path, options="dict(keep=lambda number: number % 3 == 0 and number < 8)") as member:
        _, gradients = member.begin()
        answer = member.step([0, 1, 2, 3, 4, 5, 6, 7], micro_batch=micro_batch)
        assert answer["weight"] == 3
        assert answer["loss"] == pytest.approx(expected([0, 3, 6]) / 2)
        assert gradient(member, gradients) == pytest.approx(expected([0, 3, 6]))
        skipped = member.step([7, 8, 9], micro_batch=micro_batch)
        assert (skipped["skipped"], skipped["weight"], skipped["loss"]) == (True, 0, 0.0)
        again = member.step([6, 7, 8], micro_batch=micro_batch)
        assert (again["skipped"], again["weight"]) == (False, 1)
        assert gradient(member, gradients) == pytest.approx(expected([6]))
        assert member.end() == 0
        assert "after the loop" in member.log


def test_packs_are_samples(tmp_path: Path) -> None:
    with start(tmp_path, options="dict(pack=lambda numbers: [sum(numbers)])") as member:
        _, gradients = member.begin()
        assert member.step([1, 2, 3])["weight"] == 1
        assert gradient(member, gradients) == pytest.approx(expected([6]))


def test_the_end_is_said_with_the_step_that_reaches_it(tmp_path: Path) -> None:
    with start(tmp_path, BY_FUNCTION) as member:
        _, gradients = member.begin()
        assert "data_end" not in member.step([4, 5, 6, 7])
        assert member.step([8, 9])["data_end"] == 10
        answer = member.step([8, 9, 10, 11])
        assert (answer["data_end"], answer["weight"], answer["skipped"]) == (10, 2, False)
        assert gradient(member, gradients) == pytest.approx(expected([8, 9]))
        answer = member.step([12, 13])
        assert (answer["data_end"], answer["weight"], answer["skipped"]) == (10, 0, True)


@pytest.mark.parametrize(
    ("source", "options"), [(BY_FUNCTION, "{}"), (BY_LINES, "dict(records=10)")], ids=["unknown", "not asked for"]
)
@pytest.mark.parametrize("processes", [0, 2])
def test_the_length_of_a_shard_is_said_once_with_the_step_that_finds_it(
    tmp_path: Path, source: str, options: str, processes: int
) -> None:
    with start(tmp_path, source, options, f"num_workers={processes}") as member:
        member.begin()
        said = [member.step(step).get("lengths", []) for step in ([0, 1], [4, 5, 6], [7, 8, 9], [10, 11], [0, 1])]
        assert sorted(length for lengths in said for length in lengths) == [[0, 5, "0.jsonl"], [1, 5, "1.jsonl"]]
        assert not said[-1]


def test_lengths_that_are_compared_at_the_start_are_not_said_again(tmp_path: Path) -> None:
    with start(tmp_path) as member:
        member.begin()
        assert "lengths" not in member.step([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])


def test_a_schedule_of_a_stream_of_unknown_length_is_refused(tmp_path: Path) -> None:
    more = (
        "optimizer=(o := torch.optim.SGD(model.parameters(), 0.1)), schedule=torch.optim.lr_scheduler.ConstantLR(o)"
    )
    with start(tmp_path, BY_FUNCTION, more=more) as member:
        assert "nobody knows this stream's; give the stream records=" in member.receive("error")["text"]


def test_half_an_epoch_of_a_stream_of_unknown_length_is_refused(tmp_path: Path) -> None:
    with start(tmp_path, BY_FUNCTION, more="epochs=0.5") as member:
        assert "nobody knows how many samples 0.5 epochs of this stream have" in member.receive("error")["text"]


def test_the_epoch_may_be_said(tmp_path: Path) -> None:
    with start(tmp_path, BY_FUNCTION, options="dict(records=4)") as member:
        model = member.take_model()
        assert (model["samples"], model["open_end"]) == (4, False)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: Stream(JsonLines("nowhere")), "nowhere is no file, and no file matches it; give a file"),
        (lambda folder: Stream(JsonLines([])), "a source was given an empty list of files; give it"),
        (lambda folder: Stream(JsonLines(folder), shuffle=-1), "shuffle = -1 is not a number of records; write 0"),
        (lambda folder: Stream(JsonLines(folder), records=0), "records = 0 is not a number of records; write 1"),
        (
            lambda folder: Stream(FileShards(folder, open, window=10)),
            "keeps 10 records in memory, and shuffle = 4096 needs 8192",
        ),
    ],
)
def test_a_stream_that_cannot_be_is_refused(tmp_path: Path, make: Callable[[Path], Stream], says: str) -> None:
    (tmp_path / "a.jsonl").write_text("1\n")
    with pytest.raises(PacelineError, match=says):
        make(tmp_path)


@pytest.mark.parametrize("more", ["", "num_workers=1"])
def test_readers_of_the_host_do_not_keep_a_pipe_of_the_program_open_behind_the_job(tmp_path: Path, more: str) -> None:
    before = 'import subprocess\ncat = subprocess.Popen(["cat"], stdin=subprocess.PIPE)\n'
    after = "cat.stdin.close()\ncat.wait(40)\nprint('the pipe has ended')\n"
    with start(tmp_path, BY_FUNCTION, "{}", more, before, after, str(tmp_path)) as member:
        member.begin()
        member.step(range(4))
        assert member.end() == 0 and "the pipe has ended" in member.log, member.log
