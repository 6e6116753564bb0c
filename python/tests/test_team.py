"""A worker of several processes: their gradient is one process's, and what ends one of them ends the worker."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from fake_member import Ended, Member
from gpu import ON_CPU, ON_GPU, STAND_IN, needs_gpu
from scripts import HEAD

# Two processes write to one log: a line at a time.
SAY = """
import os
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""

JOINED = """
model = make().to(paceline.device())
job = paceline.join(model, Points(), processes=2, {arguments})
"""

PLAIN_NET = """
def make():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
"""

LOOP = """
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss, {"share": float(len(y))})
"""


def script(loop: str = LOOP, net: str = PLAIN_NET, arguments: str = "") -> str:
    return HEAD + SAY + net + JOINED.format(arguments=arguments) + loop


def expected(member: Member, weights: object, samples: list[int]) -> tuple[dict[str, torch.Tensor], float]:
    """In one process."""
    scope: dict = {}
    exec(HEAD + PLAIN_NET, scope)
    model, points = scope["make"](), scope["Points"]()
    model.load_state_dict(member.state(weights))
    loss = scope["loss_of"](model, points.x[samples], points.y[samples])
    loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}, loss.item()


@pytest.mark.parametrize(
    "arguments, environment",
    [
        ("", ON_CPU),
        ("num_workers=1, weights='copy'", ON_CPU),
        ("", STAND_IN),
        pytest.param("", ON_GPU, marks=needs_gpu),  # one GPU for both
    ],
)
def test_two_processes_have_the_gradient_of_one(tmp_path: Path, arguments: str, environment: dict[str, str]) -> None:
    with Member(tmp_path, script(arguments=arguments), environment=environment) as member:
        weights, gradients = member.begin()
        member.send({"type": "expect", "batches": [{"samples": [0, 1, 2], "epoch": 0, "augment_seed": 9}]})
        for samples in ([0, 1, 2], [*range(10, 18)], [5], [7, 7]):
            answer = member.step(samples)
            gradient, loss = expected(member, weights, samples)
            assert answer["loss"] == pytest.approx(loss, rel=1e-6) and answer["metrics"]["share"] > 0
            for name, value in gradient.items():
                assert torch.allclose(member.tensor(gradients, name), value, rtol=0, atol=1e-6), name
                member.tensor(weights, name).sub_(0.1 * value)
        assert member.end() == 0, member.log


def test_each_process_draws_other_numbers(tmp_path: Path) -> None:
    draws = """
import random
import numpy
for x, y in job:
    say("drawn", torch.rand(()).item(), numpy.random.rand(), random.random())
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""
    with Member(tmp_path, script(loop=draws)) as member:
        member.begin()
        member.step([0, 1, 2, 3])
        assert member.end() == 0, member.log
        one, other = [line.split()[1:] for line in member.log.splitlines() if line.startswith("drawn")]
        assert all(here != there for here, there in zip(one, other)), member.log


def test_micro_batches_of_each_process(tmp_path: Path) -> None:
    with Member(tmp_path, script()) as member:
        weights, gradients = member.begin()
        member.step(range(11), micro_batch=2)
        gradient, _ = expected(member, weights, [*range(11)])
        for name, value in gradient.items():
            assert torch.allclose(member.tensor(gradients, name), value, rtol=0, atol=1e-6), name
        member.end()


def test_statistics_are_averaged_and_constants_are_the_leaders(tmp_path: Path) -> None:
    net = """
class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.register_buffer("flag", torch.tensor([True, False]))
        self.register_buffer("kept", torch.linspace(0.1, 5, 1000))
        self.fixed = nn.Parameter(torch.tensor(0.0), requires_grad=False)
    def forward(self, x):
        return self.net(x)
def make():
    made = Held()
    from paceline.session import session
    made.fixed.data.fill_(5.0 - session().rank)  # what a process reads by itself, say
    return made
"""
    loop = """
for x, y in job:
    say("rank", job._session.rank, "fixed", model.fixed.item(), "flag", model.flag.tolist())
    loss_of(model, x, y).backward()
    job.step(1.0)
"""
    with Member(tmp_path, script(loop, net)) as member:
        weights, gradients = member.begin()
        samples = [*range(8)]
        member.step(samples)
        scope: dict = {}
        exec(HEAD, scope)
        model, points = scope["Net"](), scope["Points"]()
        model.load_state_dict(
            {name[4:]: value for name, value in member.state(weights).items() if name.startswith("net.")},
            strict=False,
        )
        seen = [model.first(points.x[part]).mean(0) for part in (samples[:4], samples[4:])]
        mean = 0.1 * (seen[0] + seen[1]) / 2
        assert torch.allclose(member.tensor(gradients, "net.norm.running_mean"), mean, atol=1e-6)
        member.step(range(7))  # float32 has no sevenths
        assert torch.equal(member.tensor(gradients, "kept"), torch.linspace(0.1, 5, 1000))
        assert member.end() == 0
        assert sorted(line for line in member.log.splitlines() if line.startswith("rank")) == [
            "rank 0 fixed 5.0 flag [True, False]",
            "rank 0 fixed 5.0 flag [True, False]",
            "rank 1 fixed 5.0 flag [True, False]",
            "rank 1 fixed 5.0 flag [True, False]",
        ]


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="this PyTorch has no GradScaler on the CPU")
def test_an_overflow_in_one_process_is_everybodys(tmp_path: Path) -> None:
    loop = """
import copy
for i, (x, y) in enumerate(job):
    loss = loss_of(model, x, y)
    scaler.scale(loss).backward()
    if i == 1 and job.role == "follower":
        model[0].weight.grad[0, 0] = float("inf")
    job.step(loss, skipped=i == 2 and job.role == "follower")
    say(job.role, "scale", scaler.get_scale())
"""
    net = (
        PLAIN_NET
        + """
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
"""
    )
    text = script(loop, net, "scaler=scaler, optimizer=optimizer").replace(
        "job = ", "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\njob = "
    )
    with Member(tmp_path, text) as member:
        member.begin()
        assert [member.step(range(4))["skipped"] for _ in range(3)] == [False, True, True]
        member.end()
        assert sorted(line for line in member.log.splitlines() if "scale" in line) == [
            *["follower scale 1024.0", "follower scale 512.0", "follower scale 512.0"],
            *["worker scale 1024.0", "worker scale 512.0", "worker scale 512.0"],
        ]


# name, step, line of the program, error of the worker
ENDS = {
    "raises in the loop": (1, 'raise ValueError("oh")', "ValueError: oh"),
    "is killed": (0, "os.kill(os.getpid(), signal.SIGKILL)", "process 1 of this worker was killed by SIGKILL"),
    "stands still": (1, "os.kill(os.getpid(), signal.SIGSTOP)", "process 1 of this worker was stopped by a signal and does not go on"),
    "exits": (0, "os._exit(3)", "process 1 of this worker ended (exit status 3)"),
    "leaves the loop": (1, "break", "the loop over the job was left before the job's end (by break, return, an exception or"),
}  # fmt: skip


@pytest.mark.parametrize("what", ENDS)
def test_a_follower_that_ends_ends_the_worker(tmp_path: Path, what: str) -> None:
    step, line, says = ENDS[what]
    loop = f"""
import os, signal
for i, (x, y) in enumerate(job):
    if i == {step} and job.role == "follower":
        say("follower is", os.getpid())
        {line}
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
"""
    with Member(tmp_path, script(loop)) as member:
        member.begin()
        for _ in range(step):
            member.step(range(4))
        member.order(range(4))
        error = member.receive("error")
        assert error["text"].startswith(says) and error["where"].startswith("train.py:")
        assert member.wait() == 1
        expect_gone(int(member.log.split("follower is ")[1].split()[0]))


@pytest.mark.parametrize("where", ["before join", "in the data set"])
def test_a_follower_that_does_not_come(tmp_path: Path, where: str) -> None:
    raising = 'if session().role == "follower": raise KeyError("here")\n'
    head = HEAD.replace("        return self.x", "        if self.bad: raise KeyError('here')\n        return self.x")
    text = script().replace(
        HEAD, head + "from paceline.session import session\nPoints.bad = session().role == 'follower'\n"
    )
    if where == "before join":
        text = script().replace(HEAD, HEAD + "from paceline.session import session\n" + raising)
    with Member(tmp_path, text) as member:
        member.begin()
        member.order(range(4))
        sample = ", at sample 2 of the training set" if where == "in the data set" else ""
        assert member.receive("error")["text"] == f"KeyError: 'here'{sample}"
        assert member.wait() == 1


def test_a_follower_sees_the_gpus_that_its_leader_has_hidden_from_itself(tmp_path: Path) -> None:
    sees = 'say("sees", os.environ["CUDA_VISIBLE_DEVICES"])\n'
    hides = "from paceline.devices import see_only\nsee_only('2', 4)\n"  # the integration of transformers does so
    environment = {**ON_CPU, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    with Member(
        tmp_path, HEAD + SAY + sees + hides + PLAIN_NET + JOINED.format(arguments="") + LOOP, environment=environment
    ) as member:
        member.begin()
        member.step(range(4))
        assert member.end() == 0, member.log
        assert member.log.count("sees 0,1,2,3") == 2, member.log


def test_another_model(tmp_path: Path) -> None:
    net = "from paceline.session import session\ndef make():\n    return nn.Linear(6, 3 + session().rank)\n"
    with Member(tmp_path, script(net=net)) as member:
        member.begin()
        member.order(range(4))
        assert "process 1 of this worker has another model" in member.receive("error")["text"]


@pytest.mark.parametrize("how", ["killed", "by its worker's end"])
def test_followers_end_with_their_leader(tmp_path: Path, how: str) -> None:
    loop = LOOP.replace("    job.step", "    say(job.role, 'is', os.getpid())\n    job.step")
    with Member(tmp_path, script(loop)) as member:
        member.begin()
        member.step(range(4))
        while "follower is" not in member.log:
            time.sleep(0.02)
        follower = int(member.log.split("follower is ")[1].split()[0])
        if how == "killed":
            member.process.kill()
            with pytest.raises(Ended):
                member.receive()
        else:
            member.socket.close()
            assert member.wait() == 1
        expect_gone(follower)


def expect_gone(pid: int) -> None:
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "Z (" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_process_that_cannot_be_started_leaves_nothing_behind(tmp_path: Path) -> None:
    refuses = """
import errno, tempfile, paceline.team_leader
tempfile.tempdir = "temporary"
start, started = paceline.team_leader.subprocess.Popen, []
def popen(*arguments, **named):
    if started:
        raise OSError(errno.EAGAIN, "there is no room for a process")
    started.append(start(*arguments, **named))
    say("follower is", started[0].pid)
    return started[0]
paceline.team_leader.subprocess.Popen = popen
"""
    text = HEAD + SAY + refuses + PLAIN_NET + JOINED.format(arguments="").replace("processes=2", "processes=3") + LOOP
    folder = tmp_path / "temporary"
    folder.mkdir()
    with Member(tmp_path, text) as member:
        assert "there is no room for a process" in member.receive("error")["text"]
        assert member.wait() == 1
        expect_gone(int(member.log.split("follower is ")[1].split()[0]))
        assert not [*folder.iterdir()]


def test_a_leader_that_could_not_say_the_end_does_not_wait_for_it(tmp_path: Path) -> None:
    cannot = """
import paceline.team_leader
def end(follower, message):
    raise RuntimeError("not said")
paceline.team_leader.FollowerProcess.end = end
"""
    with Member(tmp_path, script().replace(SAY, SAY + cannot)) as member:
        member.begin()
        member.step(range(4))
        assert member.end() == 1
        assert "RuntimeError: not said" in member.log


def test_after_the_job_each_process_goes_on(tmp_path: Path) -> None:
    with Member(
        tmp_path, script() + "\nsay(job.role, 'went on', [p.sum().isfinite().item() for p in model.parameters()])\n"
    ) as member:
        member.begin()
        member.step(range(4))
        assert member.end() == 0
        assert "worker went on" in member.log and "follower went on" in member.log


def test_a_probe_and_an_evaluator_are_one_process(tmp_path: Path) -> None:
    for role in ("probe", "evaluator"):
        with Member(tmp_path, "import os\nprint('started', flush=True)\n" + script(), role=role) as member:
            member.receive("model")
            member.end()
            assert member.log.count("started") == 1


def test_no_processes(tmp_path: Path) -> None:
    with Member(tmp_path, script().replace("processes=2", "processes=0"), role="probe") as member:
        assert "processes = 0" in member.receive("error")["text"]
