"""Tests of the answers of a program, and of its behaviour when the socket ends."""

from __future__ import annotations

import os
import re
import signal
import textwrap
import time
from pathlib import Path

import pytest
import torch
from fake_member import Ended, Member
from scripts import HEAD, LOOP, PLAIN
from torch.utils.data import Subset

from paceline.train_sets import digest_of

SPLIT = """
split = torch.utils.data.random_split(Points(), [48, 16])[0]
job = paceline.join(Net(), torch.utils.data.Subset(split, range(40)))
"""
PROBED = """
import os
job = paceline.join(Net(), Points(), batch_size=16, epochs=2.5, num_workers=3, digest="abc")
print("not reached")
"""


def test_the_digest_of_a_random_split_says_which_samples_it_has(tmp_path: Path) -> None:
    digests = []
    for number, seed in enumerate((3, 3, 4)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Member(folder, HEAD.replace("manual_seed(3)", f"manual_seed({seed})") + SPLIT, role="probe") as member:
            digests.append(member.receive("model")["digest"])
            member.end()
    assert digests[0] == digests[1] != digests[2] and re.match(r"samples [\d, ]+, ... of a Subset, \w+$", digests[0])
    for indices in (range(2, 9), [2, 3, 4, 5, 6, 7, 8], torch.arange(2, 9)):
        assert digest_of(Subset([], indices)) == digest_of(Subset([], range(2, 9)))  # type: ignore[arg-type]
    assert digest_of(Subset([], ["a", "b"])) is None  # type: ignore[arg-type]


# The program beside its model, and the class that the note names.
OPTIMIZERS = {
    "given": ("given = optimizer = torch.optim.AdamW(net.parameters())", ""),
    "forgotten": ("optimizer = torch.optim.AdamW(net.parameters())", "AdamW"),
    "forgotten, over a part": ("optimizer = torch.optim.SGD(net.last.parameters(), lr=0.1)", "SGD"),
    "over another model": ("optimizer = torch.optim.AdamW(Net().parameters())", ""),
    "over frozen weights": (
        "net.first.requires_grad_(False)\noptimizer = torch.optim.AdamW(net.first.parameters())",
        "",
    ),
    "garbage": ("optimizer = torch.optim.AdamW(net.parameters())\noptimizer.itself = optimizer\ndel optimizer", ""),
    "not the servers'": (
        "class LAMB(torch.optim.Optimizer):\n    pass\noptimizer = LAMB(net.parameters(), dict(lr=0.1))",
        "",
    ),
}


@pytest.mark.parametrize("what", OPTIMIZERS)
def test_a_note_names_an_optimizer_that_join_was_not_given(tmp_path: Path, what: str) -> None:
    made, name = OPTIMIZERS[what]
    script = f"{HEAD}\nnet, given = Net(), None\n{made}\njob = paceline.join(net, Points(), optimizer=given)\n"
    with Member(tmp_path, script, role="probe") as member:
        note = member.receive("model").get("note", "")
        member.end()
    assert (f"the program has an optimizer of this model, {name}, and did not give it" in note) == bool(name)
    assert not note or (
        note.startswith(f"train.py:{script.count(chr(10))}: ") and note.endswith("optimizer= in join()")
    )
    assert bool(note) == bool(name)


ONE_DEVICE = """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3 * 8)
job = paceline.join(net, Points(), optimizer=optimizer, schedule=schedule, schedule_per="step", batch_size=8, epochs=3)
"""


@pytest.mark.parametrize("devices", [1, 2])
def test_a_schedule_of_the_steps_on_one_device_is_for_one_device(tmp_path: Path, devices: int) -> None:
    with Member(tmp_path, HEAD + ONE_DEVICE, role="probe", devices=devices) as member:
        answer = member.receive()
        member.end()
    says = "the schedule is as long as this job on one device (24 steps), and the job has 12; make it for math.ceil("
    assert answer["type"] == "model" if devices == 1 else says in answer["text"], answer


def test_a_probe_says_what_the_model_is(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + PROBED, role="probe") as member:
        model = member.receive("model")
        assert (
            model["evaluates"] is False and model["samples"] == 64 and model["batch"] == 16 and model["epochs"] == 2.5
        )
        assert model["prefetch"] == 6 and model["digest"] == "abc" and model["device"] == "cpu"
        assert model["tensors"][0] == {
            "name": "first.weight",
            "kind": "parameter",
            "shape": [8, 6],
            "dtype": "float32",
        }
        kinds = {tensor["name"]: tensor["kind"] for tensor in model["tensors"]}
        assert kinds["norm.running_mean"] == "statistic" and kinds["norm.num_batches_tracked"] == "statistic"
        assert "optimizer" not in model and "aliases" not in model and "schedule" not in model
        assert member.process.poll() is None
        assert member.end() == 0
        assert "not reached" not in member.log


@pytest.mark.parametrize("role, asked", [("probe", 4), ("worker", 1), ("evaluator", 1)])
def test_only_a_probe_steps_the_schedule_through_the_job(tmp_path: Path, role: str, asked: int) -> None:
    scheduled = """
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: print("asked") or 1 / (1 + epoch))
        paceline.join(model, Points(), optimizer=optimizer, schedule=schedule, schedule_per="epoch", epochs=4)
    """
    with Member(tmp_path, HEAD + textwrap.dedent(scheduled), role=role) as member:
        assert ("schedule" in member.receive("model")) == (role == "probe")
        member.end()
    assert member.log.count("asked") == asked


def test_a_probe_ends_with_its_socket(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + PROBED, role="probe") as member:
        member.receive("model")
        member.socket.close()
        assert member.wait() == 0
        assert "not reached" not in member.log


def test_an_executable_of_another_release_is_refused(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + PROBED, version="0.0.1") as member:
        text = member.receive("error")["text"]
    assert text.startswith("the executable `paceline` is 0.0.1, and the Python package is ")
    assert text.endswith("install the package of the same release")


SAVES = """
import atexit, contextlib, sys

class Tee:
    def write(self, text):
        sys.__stdout__.write(text)
    def flush(self):
        pass

def note(what):
    open("left", "a").write(what)

@contextlib.contextmanager
def closing():
    try:
        yield
    finally:
        note("with ")

sys.stdout = Tee()
print("before")
atexit.register(note, "atexit ")
try:
    with closing():
        paceline.join(Net(), Points(), batch_size=16)
finally:
    note("finally ")
"""


def test_a_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    """A program may save its model in a `finally:`. That of a probe is not trained."""
    with Member(tmp_path, HEAD + SAVES, role="probe") as member:
        member.receive("model")
        assert member.end() == 0
        assert not (tmp_path / "left").exists() and "before" in member.log


def test_what_is_not_said_is_left_out(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        model = member.receive("model")
        assert sorted(model) == [
            "device",
            "evaluates",
            "last",
            "least_share",
            "prefetch",
            "samples",
            "tensors",
            "type",
            "where",
        ]
        assert model["prefetch"] == 0


# Code after the program's loop may save the model over a good one.
def test_a_worker_that_is_gone_is_no_end_of_the_job(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.begin()
        member.step(range(4))
        member.socket.close()
        assert member.wait() == 1
        assert "paceline: this program ends before the job is done: its worker is gone" in member.log
        assert "after the loop" not in member.log


def test_a_worker_that_is_gone_during_a_step(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.begin()
        member.order(range(4))
        member.socket.close()
        assert member.wait() == 1
        assert "after the loop" not in member.log


def test_a_job_that_failed(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.begin()
        assert member.end(failed=True, why="the servers are gone") == 1
        assert "paceline: this program ends before the job is done: the servers are gone" in member.log
        assert "after the loop" not in member.log


def test_messages_and_keys_of_later_versions(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, novelty=1) as member:
        member.begin()
        member.send({"type": "praise", "text": "well done"})
        assert member.step(range(4), mood="good")["loss"] > 0
        assert member.end() == 0


def test_another_version_of_the_protocol(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN, protocol=2) as member:
        error = member.receive("error")
        assert "version 2" in error["text"] and "install" in error["text"]
        assert member.wait() == 1


@pytest.mark.parametrize(
    "line, says",
    [
        (b"{nonsense\n", "not JSON"),
        (b"[1]\n", "without a type"),
        (b'{"type": "step", "samples": [1], "seed": 1, "augment_seed": 1, "weights": [[0, 9, 0]], "gradients": []}\n', "memory 9"),
        (b'{"type": "layout", "offsets": [1], "floats": 2}\n', "lays out 1 tensors"),
        (b'{"type": "map", "memory": 3, "path": "/nonexistent/x", "bytes": 64, "write": false}\n', "FileNotFoundError"),
    ],
)  # fmt: skip
def test_what_cannot_be(tmp_path: Path, line: bytes, says: str) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.begin()
        member.socket.sendall(line)
        assert says in member.receive("error")["text"]
        assert member.wait() == 1


def test_a_step_before_the_layout(tmp_path: Path) -> None:
    with Member(tmp_path, PLAIN) as member:
        member.receive("model")
        member.order([1])
        assert "before it has sent the layout" in member.receive("error")["text"]


def test_the_end_at_every_step_of_the_beginning(tmp_path: Path) -> None:
    def after_start(member: Member) -> None:
        member.receive("model")

    def after_layout(member: Member) -> None:
        member.take_model()

    def after_initial(member: Member) -> None:
        member.begin()

    def after_an_order(member: Member) -> None:
        member.begin()
        member.order(range(8))

    for number, upto in enumerate((after_start, after_layout, after_initial, after_an_order)):
        for says_so in (True, False):
            folder = tmp_path / f"{number}{says_so}"
            folder.mkdir()
            with Member(folder, PLAIN) as member:
                upto(member)
                if says_so:
                    assert member.end() == 0
                else:
                    member.socket.close()
                    assert member.wait() == 1
                assert ("after the loop" in member.log) == says_so


def test_its_death_is_seen_though_its_loaders_live(tmp_path: Path) -> None:
    """Loader processes, and others that a program forks, have no hold on the socket."""
    body = """
import multiprocessing, time
early = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
early.start()
model = Net()
job = paceline.join(model, Points(), num_workers=2)
print("forked", early.pid, *(worker.pid for worker in job._loader._batches._workers), flush=True)
for x, y in job:
    time.sleep(30)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.order(range(4))
        while "forked" not in member.log:
            time.sleep(0.05)
        others = [int(pid) for pid in member.log.split("forked")[1].split()[:3]]
        member.process.kill()
        before = time.monotonic()
        with pytest.raises(Ended):
            member.receive(seconds=5)
        assert time.monotonic() - before < 1
        assert all(Path(f"/proc/{pid}").exists() for pid in others)
        for pid in others:
            os.kill(pid, signal.SIGKILL)


def test_the_names_of_things(tmp_path: Path) -> None:
    body = """
model = Net()
job = paceline.join(model, Points())
print(job.role, job.name, job.number, job.devices, job.seed, paceline.device())
for x, y in job:
    print("epoch", job.epoch, "samples", job.samples)
    job.step(0)
"""
    with Member(tmp_path, HEAD + body, name="w12", devices=16, seed=2**63 + 5) as member:
        member.begin()
        member.step([3, 1], epoch=4, seed=2**64 - 1, augment_seed=2**64 - 1)
        member.end()
        assert "worker w12 12 16 9223372036854775813 cpu" in member.log
        assert "epoch 4 samples (3, 1)" in member.log


def test_the_loop_as_a_function(tmp_path: Path) -> None:
    body = """
model = Net()
def loss(model, batch):
    x, y = batch
    return loss_of(model, x, y), {"one": 1}
paceline.run(model, Points(), loss, lambda: 2.5)
print("done")
"""
    with Member(tmp_path, HEAD + body) as member:
        _, gradients = member.begin()
        answer = member.step(range(8))
        assert answer["metrics"] == {"one": 1} and member.tensor(gradients, "last.bias").any()
        assert member.end() == 0 and "done" in member.log


def test_what_is_printed_is_in_the_log_at_once(tmp_path: Path) -> None:
    with Member(
        tmp_path, HEAD + "model = Net()\njob = paceline.join(model, Points())\nprint('joined')\n" + LOOP
    ) as member:
        member.begin()
        member.step([1, 2])
        assert "joined" in member.log
