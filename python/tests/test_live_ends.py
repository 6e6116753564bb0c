"""A model's weights after each step and after the job, as a program uses them: averages, files, measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from live_job import exported, needs_paceline, train, trained
from test_live_plain import NO_SCHEDULE, SGD, rounds
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

pytestmark = needs_paceline

TASK = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import default_collate as collate

SAMPLES, BATCH = {samples}, 16

def make():
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 6)
    net = nn.Sequential(nn.Linear(6, 8), {norm}, nn.Tanh(), nn.Linear(8, 1))
    return net, torch.utils.data.TensorDataset(x, x[:, :1])

def loss_of(model, x, y):
    return F.mse_loss(model(x), y), None
"""

LOOP = """
import hashlib, json
import paceline
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

model, data = make()
optimizer = make_optimizer(model)
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
job = paceline.join(model, data, optimizer=optimizer, batch_size=BATCH, epochs=3, collate_fn=collate, {more})
kept, saved = [], {{}}
for x, y in job:
    mark = hashlib.md5(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    loss, _ = loss_of(model, x, y)
    loss.backward()
    kept.append((mark, job.samples, loss.item()))
    job.step(loss)
    average.update_parameters(model)
    saved = {{name: value.clone() for name, value in model.state_dict().items()}}
if job.role == "worker":
    json.dump(kept, open(f"kept-{{job.name}}.json", "w"))
    torch.save([model.state_dict(), saved, average.state_dict()], f"ended-{{job.name}}.pt")
"""


def program(samples: int = 100, norm: str = "nn.Identity()", more: str = "") -> str:
    return TASK.format(samples=samples, norm=norm) + SGD + NO_SCHEDULE + LOOP.format(more=more)


def ended(folder: Path, devices: int) -> list[list[dict[str, torch.Tensor]]]:
    """After the loop, and after the last step: the weights of each worker; and its average."""
    return [torch.load(folder / f"ended-w{worker}.pt") for worker in range(devices)]


@pytest.mark.parametrize("norm", ["nn.Identity()", "nn.BatchNorm1d(8)"])
@pytest.mark.parametrize(
    "devices, more",
    [
        (1, ()),
        (2, ()),
        (2, ("--policy", "asp")),
        (3, ("--policy", "cgp")),
        (2, ("--policy", "local-sgd:2")),
        (2, ("--virtual",)),
    ],
    ids=["one", "two", "asp", "cgp", "local", "virtual"],
)
def test_each_worker_ends_with_the_weights_of_an_export(
    tmp_path: Path, devices: int, more: Sequence[str], norm: str
) -> None:
    run = trained(tmp_path, program(norm=norm), devices, more)
    ours = exported(tmp_path, run)
    for after, _, _ in ended(tmp_path, devices):
        assert {name: value.tolist() for name, value in after.items()} == {
            name: value.tolist() for name, value in ours.items()
        }


@pytest.mark.parametrize("devices", [1, 2])
def test_an_average_that_is_updated_after_each_step_is_plain_pytorchs(tmp_path: Path, devices: int) -> None:
    samples = 96 * devices
    run = trained(tmp_path, program(samples), devices)
    scope: dict = {}
    exec(TASK.format(samples=samples, norm="nn.Identity()") + SGD, scope)
    model, data = scope["make"]()
    optimizer = scope["make_optimizer"](model)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    for batch in rounds(tmp_path):
        optimizer.zero_grad()
        scope["loss_of"](model, *scope["collate"]([data[i] for i in batch]))[0].backward()
        optimizer.step()
        average.update_parameters(model)
    ours = exported(tmp_path, run)
    for after, after_the_last_step, averaged in ended(tmp_path, devices):
        for name, value in model.state_dict().items():
            assert torch.allclose(after[name], value, atol=2e-5)
            assert torch.equal(after_the_last_step[name], ours[name])
        for name, value in average.state_dict().items():
            assert torch.allclose(averaged[name].float(), value.float(), atol=2e-5), name
        assert int(averaged["n_averaged"]) == 18


def test_the_processes_of_one_worker_end_with_the_weights_of_an_export(tmp_path: Path) -> None:
    text = program(more="processes=2").replace('job.role == "worker"', "True")
    text = text.replace("{job.name}.pt", "{job.role}.pt")
    run = trained(tmp_path, text, 1)
    ours = exported(tmp_path, run)
    for role in ("worker", "follower"):
        after, _, _ = torch.load(tmp_path / f"ended-{role}.pt")
        assert {name: value.tolist() for name, value in after.items()} == {
            name: value.tolist() for name, value in ours.items()
        }


def test_a_second_job_in_one_program_ends_with_a_line(tmp_path: Path) -> None:
    ended = train(tmp_path, program() + "paceline.join(model, data)\n", 1)
    last = program().count("\n") + 1
    assert ended.returncode == 2
    assert (
        f"train.py:{last}: join() was called twice, and a program works for one job; train the other model in a "
        "script of its own, which loads what this one saves after its loop (after the job was over)" in ended.stderr
    )
    assert "Traceback" not in ended.stderr


def test_a_program_that_fails_after_its_loop_says_where(tmp_path: Path) -> None:
    ended = train(tmp_path, program() + 'raise ValueError("no room")\n', 1)
    last = program().count("\n") + 1
    assert ended.returncode == 2
    assert f"train.py:{last}: ValueError: no room (after the job was over)" in ended.stderr


OVERRIDDEN = """
class Own(nn.Sequential):
    def state_dict(self, *words, **named):
        return {f"net.{name}": value for name, value in super().state_dict(*words, **named).items()}
    def load_state_dict(self, state, strict=True, **named):
        return super().load_state_dict({name[4:]: value for name, value in state.items()}, strict, **named)
"""


def test_an_export_has_the_names_of_an_overridden_state_dict(tmp_path: Path) -> None:
    folder = tmp_path / "Größe und Maß"
    folder.mkdir()
    text = program().replace("def make", OVERRIDDEN + "\ndef make").replace("net = nn.Sequential", "net = Own")
    run = trained(folder, text, 1)
    ours = exported(folder, run)
    after, _, _ = torch.load(folder / "ended-w0.pt")
    assert set(ours) == set(after) == {"net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"}
    scope: dict = {}
    exec(TASK.format(samples=100, norm="nn.Identity()").replace("def make", OVERRIDDEN + "\ndef make"), scope)
    plain = scope["Own"](*scope["make"]()[0])
    plain.load_state_dict(ours, strict=True)
