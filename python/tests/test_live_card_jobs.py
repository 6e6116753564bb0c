"""More jobs whose weights lie in a card's memory: every policy, devices that compute elsewhere, deaths, resumed runs."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from card import ON_CARD, needs_card
from killed_servers import kill_servers, processes, said, started
from live_job import exported, needs_paceline, only_run, paceline, replay, train, trained
from test_card_jobs import PROGRAM, long, memory, same, weights_of

pytestmark = [needs_paceline, needs_card]
POLICIES = ["bsp", "asp", "ssp:2", "dssp:1-4", "elastic-bsp:4", "cgp", "backup:1"]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_trains_on_a_card(tmp_path: Path, policy: str) -> None:
    run = trained(tmp_path, PROGRAM, 3, ["--policy", policy, *memory("gpu")])
    replay(tmp_path, run)


@pytest.mark.parametrize("servers", [1, 2])
def test_a_device_that_computes_elsewhere_takes_part(tmp_path: Path, servers: int) -> None:
    """w1 has no card: the server copies weights to the host's memory for it, and its gradient to the card."""
    program = (
        'import os\nif os.environ.get("PACELINE_SEED") and _name() == "w1": os.environ["PACELINE_DEVICE"] = "cpu"\n'
    )
    start = "def _name():\n    from paceline.session import session\n    here = session()\n    return here.name if here else ''\n"
    mixed = start + program + PROGRAM
    run = trained(tmp_path, mixed, 2, [*memory("gpu"), "--set", f"cluster.servers={servers}"])
    replay(tmp_path, run)


EQUAL_BLOCKS = """
import torch, paceline
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(32, 32, bias=False) for _ in range(12)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(64, 32))
job = paceline.join(model, data, optimizer=optimizer, batch_size=8, epochs=1)
for (x,) in job:
    loss = model(x).square().mean()
    loss.backward()
    job.step(loss)
"""


@pytest.mark.parametrize(("servers", "parts"), [([], ["67 % of the ", "33 % of the "]), ([1], [""])])
def test_each_card_has_a_part_by_what_it_has_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: list[int], parts: list[str]
) -> None:
    monkeypatch.setenv("PACELINE_STAND_IN_BYTES", "40000000,20000000")
    options = [f"cluster.servers={servers[0]}"] if servers else []
    ended = train(tmp_path, EQUAL_BLOCKS, 2, memory("gpu") + [word for one in options for word in ("--set", one)])
    assert ended.returncode == 0, ended.stderr
    found = re.findall(
        r"^\S*\s+(.*)weights and optimizer state are in the memory of GPU-", ended.stderr, re.MULTILINE
    )
    assert sorted(found, reverse=True) == parts, ended.stderr
    replay(tmp_path, only_run(tmp_path))


def test_workers_that_see_one_card_each_end_in_the_hosts_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sees the card of w0 alone, as under srun --gpus-per-task=1, and w1 with another card is there first."""
    monkeypatch.setenv("PACELINE_STAND_IN_ONLY", "0")
    sees_its_own = (
        "import os, time\nfrom paceline.session import session\nhere = session()\n"
        'if here is not None and here.role == "worker":\n'
        '    os.environ["PACELINE_STAND_IN_ONLY"] = str(here.on_host)\n'
        '    time.sleep(2 if here.name == "w0" else 0)  # the result is the same if that is too short\n'
    )
    on_cards = weights_of(tmp_path, "auto", 2, program=sees_its_own + PROGRAM)
    same(weights_of(tmp_path, "host", 2), on_cards)


@pytest.mark.parametrize(
    "elsewhere", ['os.environ["PACELINE_STAND_IN_ONLY"] = "1"', 'os.environ["PACELINE_DEVICE"] = "cpu"']
)
def test_an_evaluator_that_computes_elsewhere_measures_the_same_versions(tmp_path: Path, elsewhere: str) -> None:
    """Versions are kept in the host's memory for an evaluator that sees another card than the weights', or none."""
    start = "import os\nfrom paceline.session import session\n"
    program = f'{start}if session() is not None and session().role == "evaluator":\n    {elsewhere}\n{PROGRAM}'
    every = ["--set", "evaluate.every_epochs=0.25"]
    on_card = weights_of(tmp_path, "gpu", 1, every, program=program)
    on_host = weights_of(tmp_path, "host", 1, every)
    same(on_host, on_card)
    there, here = (evaluations(tmp_path / where) for where in ("gpu", "host"))
    both = there.keys() & here.keys()  # a slow evaluator leaves versions out
    assert 120 in both, "the last version is measured in any case"
    assert {version: there[version] for version in both} == {version: here[version] for version in both}


def evaluations(folder: Path) -> dict[int, tuple[float, float]]:
    """The loss and accuracy of each version that the run there measured."""
    with closing(sqlite3.connect(only_run(folder) / "journal.sqlite")) as journal:
        rows = journal.execute("SELECT version, loss, accuracy FROM evaluations").fetchall()
    return {version: (loss, accuracy) for version, loss, accuracy in rows}


def test_a_gradient_that_is_not_finite_harms_nobody(tmp_path: Path) -> None:
    run = trained(tmp_path, PROGRAM, 2, ["--policy", "asp", *memory("gpu")], ["nan"])
    assert (tmp_path / "made-nan").exists()
    replay(tmp_path, run)
    assert all(torch.isfinite(tensor).all() for tensor in exported(tmp_path, run).values())


@pytest.mark.parametrize("victim", ["server", "worker"])
def test_a_job_on_a_card_survives_a_death(tmp_path: Path, victim: str) -> None:
    run = started(tmp_path, 2, PROGRAM)
    [pid, *_] = processes(victim, tmp_path)
    os.kill(pid, signal.SIGKILL)
    assert run.wait(240) == 0, (tmp_path / "log").read_text()
    replay(tmp_path, only_run(tmp_path))


@pytest.mark.parametrize("servers", [1, 2])
def test_servers_that_are_killed_again_and_again_change_no_weight(tmp_path: Path, servers: int) -> None:
    """w1 computes on another card than w0: with one server it reads from the host's memory, with two both do."""
    program = long(20)
    here = tmp_path / "killed"
    here.mkdir()
    run = started(here, 2, program, "bsp", servers)
    killed = kill_servers(run, here, 9)
    assert run.wait(240) == 0, (here / "log").read_text()
    assert killed >= 5, said(here, servers)
    said(here, servers)
    replay(here, only_run(here))
    options = ["--policy", "bsp", "--set", f"cluster.servers={servers}"]
    undisturbed = weights_of(tmp_path, "gpu", 2, options, "slow", program=program)
    same(undisturbed, exported(here, only_run(here)))


@pytest.mark.parametrize(("policy", "servers"), [("asp", 1), ("ssp:2", 1), ("cgp", 1), ("asp", 2), ("ssp:2", 2)])
def test_servers_that_are_killed_again_and_again_lose_no_commit(tmp_path: Path, policy: str, servers: int) -> None:
    run = started(tmp_path, 2, long(10_000), policy, servers)
    assert kill_servers(run, tmp_path, 25) == 25, (tmp_path / "log").read_text()
    run.send_signal(signal.SIGTERM)
    assert run.wait(240) == 128 + signal.SIGTERM, (tmp_path / "log").read_text()
    said(tmp_path, servers)
    replay(tmp_path, only_run(tmp_path))


def test_a_run_that_was_stopped_on_a_card_goes_on_on_the_host(tmp_path: Path) -> None:
    undisturbed = weights_of(tmp_path, "host", 1, None, "slow")
    here = tmp_path / "stopped"
    here.mkdir()
    run = started(here, 1, PROGRAM)
    run.send_signal(signal.SIGINT)
    assert run.wait(120) == 130, (here / "log").read_text()
    resumed = paceline(here, "train", "--resume", str(only_run(here)), *memory("host"))
    assert resumed.returncode == 0, resumed.stderr
    same(undisturbed, exported(here, only_run(here)))
