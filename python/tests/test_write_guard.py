"""A write to a weight that others read ends the program, with a line."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from fake_member import Ended, Member
from scripts import HEAD


def loop(line: str, arguments: str = "") -> str:
    return (
        HEAD
        + f"model = Net()\njob = paceline.join(model, Points(), {arguments})\nfor x, y in job:\n    {line}\n    job.step(1.0)\n"
    )


@pytest.mark.parametrize("line", ["model.last.bias.data.add_(1)", "model.last.bias.detach().numpy()[0] = 1"])
def test_it_says_which_weight_and_where(tmp_path: Path, line: str) -> None:
    with Member(tmp_path, loop(line)) as member:
        member.begin()
        member.order([1])
        error = member.receive("error")
        assert "the weight last.bias" in error["text"] and 'weights="copy"' in error["text"]
        assert error["where"] == f"train.py:{HEAD.count(chr(10)) + 4}"
        assert member.wait() == 1
        assert error["text"] in member.log
        assert line in member.log and "write_guard.py" not in member.log


def test_a_second_optimizer_is_told_of_groups(tmp_path: Path) -> None:
    line = "model.last.bias.grad.fill_(1); torch.optim.SGD([model.last.bias], 0.1).step()"
    with Member(tmp_path, loop(line)) as member:
        member.begin()
        member.order([1])
        error = member.receive("error")
        assert "only read; an optimizer that join() was not given has stepped: give it one with" in error["text"]
        assert "reach its own part alone (loss.backward(inputs=[*part.parameters()]))" in error["text"]
        assert error["where"] == f"train.py:{HEAD.count(chr(10)) + 4}"


def test_the_place_is_that_of_the_thread_that_wrote(tmp_path: Path) -> None:
    line = "thread = threading.Thread(target=write); thread.start(); thread.join()"
    write = "import threading\ndef write():\n    model.last.bias.data.add_(1)\nmodel = Net()"
    with Member(tmp_path, loop(line).replace("model = Net()", write)) as member:
        member.begin()
        member.order([1])
        assert member.receive("error")["where"] == f"train.py:{HEAD.count(chr(10)) + 3}"


def test_other_faults_are_as_ever(tmp_path: Path) -> None:
    with Member(tmp_path, loop("import ctypes; ctypes.string_at(0)")) as member:
        member.begin()
        member.order([1])
        with pytest.raises(Ended):
            member.receive()
        assert member.wait() == -signal.SIGSEGV
        assert "Segmentation fault" in member.log and f"line {HEAD.count(chr(10)) + 4} in" in member.log


def test_copied_weights_may_be_written(tmp_path: Path) -> None:
    with Member(tmp_path, loop("model.last.bias.data.add_(1)", "weights='copy'")) as member:
        weights, _ = member.begin()
        before = weights.floats.clone()
        member.step([1])
        member.step([1])
        assert torch.equal(weights.floats, before)
        assert member.end() == 0
