"""Models of bfloat16: float32 masters at the server, bfloat16 gradients and weights on the way, to the last bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from card import ON_CARD, needs_card
from killed_servers import kill_servers, said, started
from live_job import (
    exported,
    killed_after_checkpoints,
    needs_paceline,
    only_run,
    paceline,
    read_safetensors,
    replay,
    run_words,
    trained,
)
from test_card_jobs import begun_early

pytestmark = needs_paceline

# make() is the task. Nothing of it depends on the number of threads.
WHOLE = """
import torch, torch.nn as nn, torch.nn.functional as F

def make():
    torch.manual_seed(3)
    x = torch.randn(96, 6)
    model = nn.Sequential(nn.Linear(6, 33), nn.Tanh(), nn.Linear(33, 1))
    return model.to(torch.bfloat16), torch.utils.data.TensorDataset(x, x[:, :1])
"""

# The norms are float32, before and behind layers of bfloat16, and have statistics. One layer is frozen.
MIXED = """
import torch, torch.nn as nn, torch.nn.functional as F

class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.BatchNorm1d(6)
        self.first = nn.Linear(6, 33).to(torch.bfloat16)
        self.norm = nn.LayerNorm(33)
        self.frozen = nn.Linear(33, 33).to(torch.bfloat16).requires_grad_(False)
        self.second = nn.Linear(33, 1).to(torch.bfloat16)
    def forward(self, x):
        hidden = self.norm(self.first(self.before(x.float()).to(torch.bfloat16)).float())
        return self.second(self.frozen(torch.tanh(hidden).to(torch.bfloat16)))

def make():
    torch.manual_seed(3)
    x = torch.randn(96, 6)
    return Mixed(), torch.utils.data.TensorDataset(x, x[:, :1])
"""

LOOP = """
import json
import paceline

def loss_of(model, x, y):
    return F.mse_loss(model(x.to(torch.bfloat16)).float(), y)

def train(model, data):
    kept = []
    optimizer = make_optimizer(model.parameters())
    job = paceline.join(model, data, optimizer=optimizer, batch_size=8, epochs=4, clip=CLIP)
    for x, y in job:
        loss = loss_of(model, x, y)
        loss.backward()
        kept.append(list(job.samples))
        job.step(loss, skipped=sum(job.samples) % 7 == 3)
    if job.role == "worker":
        json.dump(kept, open(f"kept-{job.name}.json", "w"))
        torch.save(model.state_dict(), f"last-{job.name}.pt")

if __name__ == "__main__":
    train(*make())
"""

SGD = "def make_optimizer(p):\n    return torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3)\n"
ADAMW = "def make_optimizer(p):\n    return torch.optim.AdamW(p, 0.01, weight_decay=0.1)\n"
NO_CLIP = "CLIP = None\n"


class Sgd:
    """SGD with momentum, each operation rounded once, as Paceline's servers step it."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._velocity = torch.zeros_like(weight)

    def step(self, weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self._velocity = 0.9 * self._velocity + (gradient + 1e-3 * weight)
        return weight - 0.1 * self._velocity


class AdamW:
    """In numpy, whose square root is rounded correctly."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._first = self._second = numpy.zeros(weight.shape, numpy.float32)
        self._steps = 0

    def step(self, weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self._steps += 1
        w, g, one = weight.numpy(), gradient.numpy(), numpy.float32(1)
        beta1, beta2, epsilon = numpy.float32(0.9), numpy.float32(0.999), numpy.float32(1e-8)
        correction1 = numpy.float32(1 - 0.9**self._steps)
        root_correction = numpy.sqrt(numpy.float32(1 - 0.999**self._steps))
        self._first = beta1 * self._first + (one - beta1) * g
        self._second = beta2 * self._second + (one - beta2) * g * g
        root = numpy.sqrt(self._second) / root_correction + epsilon
        shrunk = w - numpy.float32(0.01 * 0.1) * w
        return torch.from_numpy(shrunk - numpy.float32(0.01) / correction1 * self._first / root)


# The optimizer has a state when it comes to join().
LOADED = """
def make_optimizer(p):
    p = list(p)
    optimizer = torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3)
    for one in p:
        optimizer.state[one]["momentum_buffer"] = torch.full_like(one, 0.25)
    return optimizer
"""


class LoadedSgd(Sgd):
    def __init__(self, weight: torch.Tensor) -> None:
        self._velocity = torch.full_like(weight, 0.25)


RULES = {"sgd": (SGD, Sgd), "adamw": (ADAMW, AdamW), "loaded": (LOADED, LoadedSgd)}


def checkpointed(run: Path) -> dict[str, torch.Tensor]:
    """The server's weights in the newest checkpoint."""
    newest = max((run / "checkpoints").glob("v*"))
    kept = {}
    for path in newest.glob("weights-*.safetensors"):
        kept.update(read_safetensors(path))
    return kept


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype, name
        assert torch.equal(ours[name], value), (name, (ours[name].float() - value.float()).abs().max())


def plain(task: str, rule: Any, steps: list[list[int]]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The last state of the model and its float32 masters, without Paceline."""
    scope: dict[str, Any] = {"__name__": "task"}
    exec(task + LOOP.replace("import paceline", ""), scope)
    model, data = scope["make"]()
    parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
    masters = {name: one.detach().float().clone() for name, one in parameters.items()}
    rules = {name: rule(master) for name, master in masters.items()}
    for samples in steps:
        model.zero_grad()
        batch = [torch.stack(column) for column in zip(*(data[i] for i in samples))]
        scope["loss_of"](model, *batch).backward()
        for name, one in parameters.items():
            assert one.grad is not None
            gradient = torch.zeros_like(one.grad) if sum(samples) % 7 == 3 else one.grad
            masters[name] = rules[name].step(masters[name], gradient.float())
            one.data = masters[name].to(one.dtype)
    return model.state_dict(), masters


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("task", [WHOLE, MIXED], ids=["whole", "mixed"])
def test_a_model_has_the_bits_of_plain_pytorch_with_float32_masters(tmp_path: Path, task: str, rule: str) -> None:
    optimizer, by_hand = RULES[rule]
    run = trained(tmp_path, task + optimizer + NO_CLIP + LOOP, 1)
    replay(tmp_path, run)
    state, masters = plain(task, by_hand, json.loads((tmp_path / "kept-w0.json").read_text()))
    kept = checkpointed(run)
    for name, master in masters.items():
        assert torch.equal(kept[name], master), (name, (kept[name] - master).abs().max())
    theirs = {name: value for name, value in state.items() if "before." not in name}
    ours = exported(tmp_path, run)
    same({name: value for name, value in ours.items() if "before." not in name}, theirs)
    same(torch.load(tmp_path / "last-w0.pt"), ours)


def states(folder: Path, program: str, devices: int, more: Sequence[str]) -> tuple[Any, Any]:
    """The weights that a run exports, and the server's."""
    folder.mkdir()
    run = trained(folder, program, devices, more)
    replay(folder, run)
    return exported(folder, run), checkpointed(run)


def both_same(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> None:
    for one, other in zip(ours, theirs):
        same(one, other)


@pytest.mark.parametrize("devices, task, clip", [(1, WHOLE, "0.05"), (2, MIXED, "None"), (2, MIXED, "0.05")])
def test_the_weights_are_those_of_memory_of_float32(tmp_path: Path, devices: int, task: str, clip: str) -> None:
    """In virtual time, gradients and weights are float32 everywhere."""
    program = task + ADAMW + f"CLIP = {clip}\n" + LOOP
    live = states(tmp_path / "live", program, devices, [])
    both_same(states(tmp_path / "virtual", program, devices, ["--virtual"]), live)


@pytest.mark.parametrize("more", [["--set", 'cluster.reduction="group"'], ["--set", "cluster.servers=2"]])
def test_other_memory_has_the_same_weights(tmp_path: Path, more: list[str]) -> None:
    program = MIXED + SGD + "CLIP = 0.05\n" + LOOP
    ours = states(tmp_path / "one", program, 1, [])[0]
    same(states(tmp_path / "other", program, 1, more)[0], ours)


@needs_card
@pytest.mark.parametrize("task", [WHOLE, MIXED], ids=["whole", "mixed"])
def test_a_card_has_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    program = task + ADAMW + "CLIP = 0.05\n" + LOOP
    on_host = states(tmp_path / "host", program, 1, ["--set", "cluster.memory=host"])
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)
    both_same(states(tmp_path / "card", program, 1, ["--set", "cluster.memory=gpu"]), on_host)
    early, steps = begun_early(only_run(tmp_path / "card"))
    assert early > steps / 2
    both_same(states(tmp_path / "copied", program, 1, ["--set", "cluster.memory=host"]), on_host)


@pytest.mark.parametrize("policy", ["asp", "cgp", "local-sgd:2"])
def test_every_kind_of_policy_trains(tmp_path: Path, policy: str) -> None:
    program = MIXED + SGD.replace("0.1", "0.02") + NO_CLIP + LOOP
    exports, masters = states(tmp_path / "run", program, 3, ["--policy", policy])
    for name, master in masters.items():
        assert master.isfinite().all(), name
        if name in exports and exports[name].dtype == torch.bfloat16:
            assert torch.equal(exports[name], master.to(torch.bfloat16)), name


@needs_card
def test_servers_that_are_killed_change_no_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ON_CARD.items():
        monkeypatch.setenv(name, value)
    slow = LOOP.replace("loss.backward()", "loss.backward(); import time; time.sleep(0.01)")
    program = MIXED + ADAMW + NO_CLIP + slow.replace("epochs=4", "epochs=12")
    here = tmp_path / "killed"
    here.mkdir()
    run = started(here, 1, program)
    killed = kill_servers(run, here, 5)
    assert run.wait(240) == 0, (here / "log").read_text()
    assert killed >= 2, said(here)
    undisturbed = states(tmp_path / "whole", program, 1, ["--set", "cluster.memory=gpu"])
    both_same((exported(here, only_run(here)), checkpointed(only_run(here))), undisturbed)


def test_a_run_that_was_killed_goes_on_from_its_masters(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    program = MIXED + ADAMW + NO_CLIP + LOOP
    run = trained(whole, program, 1)
    slow = program.replace("loss.backward()", "loss.backward(); import time; time.sleep(0.02)")
    cut = killed_after_checkpoints(killed, run_words(killed, slow, 1, [], []))
    resumed = paceline(killed, "train", "--resume", str(cut))
    assert resumed.returncode == 0, resumed.stderr
    assert only_run(killed) == cut
    same(exported(killed, cut), exported(whole, run))
    same(checkpointed(cut), checkpointed(run))
