"""Whole jobs whose weights lie in a card's memory: the stand-in driver's, with the real server and real processes."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
import torch
from card import ON_CARD, needs_card
from killed_servers import kill_servers, said, started
from live_job import exported, needs_paceline, only_run, replay, train

pytestmark = [needs_paceline, needs_card]

PROGRAM = """
import os, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
import paceline

torch.manual_seed(0)
x = torch.randn(960, 12)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(12, 40), nn.BatchNorm1d(40), nn.Tanh(), nn.Linear(40, 2))
net[3].bias.requires_grad_(False)
data = torch.utils.data.TensorDataset(x, y)

def validate():
    net.eval()
    with torch.no_grad():
        out = net(x)
    net.train()
    return {"loss": F.cross_entropy(out, y).item(), "accuracy": (out.argmax(1) == y).float().mean().item()}

optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
evaluate = None if "unevaluated" in sys.argv else validate
loaders = 2 if "loaders" in sys.argv else 0
job = paceline.join(net, data, optimizer=optimizer, evaluate=evaluate, batch_size=16, epochs=2, num_workers=loaders)
for number, (a, b) in enumerate(job):
    loss = F.cross_entropy(net(a), b)
    loss.backward()
    if "slow" in sys.argv:
        time.sleep(0.02)
    if "skip" in sys.argv and job.samples[0] % 3 == 1:
        job.step(loss, skipped=True)
    elif "nan" in sys.argv and 7 in job.samples and not os.path.exists("made-nan"):
        open("made-nan", "w").close()  # samples that never give a gradient would end the run
        net[0].weight.grad[0, 0] = float("nan")
        job.step(loss)
    else:
        job.step(loss)
"""


def long(epochs: int) -> str:
    """The program with so many epochs, whose slow steps are a little faster."""
    return PROGRAM.replace("epochs=2", f"epochs={epochs}").replace("time.sleep(0.02)", "time.sleep(0.005)")


ON_THE_CARD = "weights and optimizer state are in the memory of GPU-"


def memory(where: str) -> list[str]:
    return ["--set", f"cluster.memory={where}"]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)


def weights_of(
    folder: Path,
    where: str,
    devices: int = 1,
    more: list[str] | None = None,
    *words: str,
    program: str = PROGRAM,
) -> dict[str, torch.Tensor]:
    here = folder / where
    here.mkdir()
    ended = train(here, program, devices, [*memory(where), *(more or [])], words)
    assert ended.returncode == 0, ended.stderr
    assert (ON_THE_CARD in ended.stderr + ended.stdout) == (where != "host")
    return exported(here, only_run(here))


def begun_early(run: Path) -> tuple[int, int]:
    """How many of a run's steps were begun before the step before them was over, and how many steps there were."""
    logs = "".join(log.read_text() for log in (run / "logs").glob("w*.log"))
    counts = [tuple(map(int, found)) for found in re.findall(r"(\d+) of (\d+) steps were begun early", logs)]
    assert counts, logs
    return sum(early for early, _ in counts), sum(steps for _, steps in counts)


def made_early(run: Path) -> int:
    """How many versions servers made before they were told to, because they knew the commit."""
    logs = "".join(log.read_text() for log in (run / "logs").glob("server*.log"))
    return sum(map(int, re.findall(r"(\d+) of \d+ versions were made before their orders came", logs)))


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize(("words", "more"), [((), ("loaders", "unevaluated")), (("skip", "unevaluated"), ())])
def test_a_job_on_a_card_ends_in_the_bytes_of_one_on_the_host(
    tmp_path: Path, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    same(weights_of(tmp_path, "host", 1, None, *words), weights_of(tmp_path, "auto", 1, None, *words, *more))
    early, steps = begun_early(only_run(tmp_path / "auto"))
    assert early > steps / 2


def test_two_workers_in_step_share_the_card_and_end_in_the_hosts_bytes(tmp_path: Path) -> None:
    clip = ["--set", "optimizer.clip=0.1"]
    same(weights_of(tmp_path, "host", 2, clip), weights_of(tmp_path, "gpu", 2, clip))
    assert made_early(only_run(tmp_path / "gpu")) > 0


def test_shards_on_two_cards_end_in_the_hosts_bytes(tmp_path: Path) -> None:
    """Each worker has one shard on its own card and one on the other's. Some steps have no gradient."""
    servers = ["--set", "cluster.servers=2"]
    words = ("skip", "unevaluated")
    same(weights_of(tmp_path, "host", 2, servers, *words), weights_of(tmp_path, "gpu", 2, servers, *words))
    log = "".join(log.read_text() for log in only_run(tmp_path / "gpu").glob("logs/coordinator.log"))
    assert len(set(re.findall(r"in the memory of (GPU-\S+)", log))) == 2, log


@pytest.mark.parametrize(("pieces", "devices"), [(1, 1), (4, 1), (6, 1), (10, 3)])
def test_a_full_card_leaves_the_weights_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int, devices: int
) -> None:
    """The optimizer's state, its tables, what the server knows of a commit, three versions of the weights, one more for
    each further worker that does not wait, and a gradient for each worker take a piece of 2 MiB each."""
    monkeypatch.setenv("PACELINE_STAND_IN_CARDS", "1")
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", str(pieces * (2 << 20)))
    ended = train(tmp_path, PROGRAM, devices, [*memory("auto"), "--set", 'sync.policy="asp"'], ["unevaluated"])
    assert ended.returncode == 0, ended.stderr
    assert "in the host's memory and not in the GPU's: " in ended.stderr + ended.stdout
    assert "MiB more are needed" in ended.stderr + ended.stdout


def test_a_full_card_ends_a_job_that_insists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", str(2 << 20))
    ended = train(tmp_path, PROGRAM, 1, memory("gpu"))
    assert ended.returncode == 2, ended.stderr
    assert "the weights cannot be in the GPU's memory: " in ended.stderr
    assert 'write memory = "host" in [cluster]' in ended.stderr


def test_a_job_without_a_card_that_insists_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_DEVICE", "cpu")
    ended = train(tmp_path, PROGRAM, 1, memory("gpu"))
    assert ended.returncode == 2, ended.stderr
    assert 'cluster.memory is "gpu", and no device of the job computes on a GPU' in ended.stderr


def test_a_server_that_is_killed_while_it_trains_loses_nothing(tmp_path: Path) -> None:
    run = started(tmp_path, 2, long(10_000), "asp")
    assert kill_servers(run, tmp_path, 3) == 3, (tmp_path / "log").read_text()
    run.send_signal(signal.SIGTERM)
    assert run.wait(240) == 128 + signal.SIGTERM, (tmp_path / "log").read_text()
    said(tmp_path)
    replay(tmp_path, only_run(tmp_path))
