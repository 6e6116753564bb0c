"""Lightning's own Trainer, with the strategy that makes it a worker."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fake_member import Member
from gpu import ON_CPU, STAND_IN
from torch import nn

pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
import paceline.integrations.home  # noqa: E402
import paceline.integrations.lightning  # noqa: E402
from paceline.session import Session  # noqa: E402

HEAD = """
import lightning, torch, torch.nn.functional as F
from torch import nn
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from paceline.integrations.lightning import PacelineStrategy

torch.manual_seed(0)
x = torch.randn(64, 10)
y = (x[:, 0] > 0).long()
data = TensorDataset(x, y)

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
        self.steps = 0
    def training_step(self, batch, index):
        self.steps += 1
        loss = F.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss
    def on_train_epoch_end(self):
        print("epoch", self.current_epoch, "ended after", self.steps)
    def validation_step(self, batch, index):
        scores = self.net(batch[0])
        self.log("val_loss", F.cross_entropy(scores, batch[1]))
        self.log("val_acc", (scores.argmax(1) == batch[1]).float().mean())
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, self.trainer.estimated_stepping_batches)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
"""
FIT = """
trainer = lightning.Trainer(strategy=PacelineStrategy(), accelerator="cpu", max_epochs=2, gradient_clip_val=0.5,
                            logger=CSVLogger("."), log_every_n_steps=1)
trainer.fit(Module(), DataLoader(data, 16, shuffle=True), DataLoader(data, 32))
print("after fit:", trainer.strategy.job.role)
"""


def start(folder: Path, script: str = HEAD + FIT, **more: Any) -> Member:
    return Member(folder, script, preload="lightning.pytorch", **more)


def plain_gradient(
    samples: list[int], loss_of: Any = F.cross_entropy, dtype: torch.dtype = torch.float32
) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(64, 10)
    y = (x[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2)).to(dtype)
    loss = loss_of(net(x[samples].to(dtype)), y[samples])
    loss.backward()
    return loss.item(), {f"net.{name}": p.grad for name, p in net.named_parameters() if p.grad is not None}


def same(member: Member, memory: Any, expected: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(member.tensor(memory, name), gradient) for name, gradient in expected.items())


def test_a_worker(tmp_path: Path) -> None:
    with start(tmp_path, devices=2) as member:
        _, gradients = member.begin()
        # An even share is two steps an epoch. This worker is fast, and has seven in a job of two epochs.
        for step in range(7):
            samples = [step, 40, 63 - step]
            loss, expected = plain_gradient(samples)
            answer = member.step(samples)
            assert answer["loss"] == loss and not answer["skipped"]
            assert same(member, gradients, expected)
        assert member.end() == 0, member.log
    ends = [line for line in member.log.splitlines() if line.startswith("epoch")]
    assert ends == [f"epoch {e} ended after {n}" for e, n in enumerate([2, 4, 6, 7])]
    assert "after fit: worker" in member.log and "Lightning writes no checkpoints" in member.log
    assert "write trainer.test(module, ckpt_path=None)" in member.log
    # The first worker is the one that writes.
    assert (tmp_path / "lightning_logs/version_0/metrics.csv").exists()
    assert not list(tmp_path.rglob("*.ckpt"))


ONLY_HEAD = """
class OnlyHead(Module):
    def configure_optimizers(self):
        return torch.optim.SGD(self.net[2].parameters(), lr=0.1)
Module = OnlyHead
"""
BEHIND_FIT = """
weight = trainer.lightning_module.net[0].weight
weight.sum().backward()
print("its gradient after fit:", bool(weight.grad.any()))
"""


@pytest.mark.parametrize("environment", [ON_CPU, STAND_IN], ids=lambda one: one["PACELINE_DEVICE"])
@pytest.mark.parametrize("clips", [True, False])
def test_clipping_leaves_out_parameters_that_the_optimizer_lacks(
    tmp_path: Path, clips: bool, environment: dict[str, str]
) -> None:
    fit = FIT if clips else FIT.replace("gradient_clip_val=0.5", "gradient_clip_val=None")
    with start(tmp_path, HEAD + ONLY_HEAD + fit + BEHIND_FIT, environment=environment) as member:
        _, gradients = member.begin()
        for step in range(2):
            member.step([step, 40])
            _, expected = plain_gradient([step, 40])
            assert all(bool(gradient.any()) for gradient in expected.values())
            if clips:
                expected.update({name: torch.zeros_like(expected[name]) for name in ("net.0.weight", "net.0.bias")})
            assert same(member, gradients, expected)
        assert member.end() == 0, member.log
    assert "its gradient after fit: True" in member.log


def test_the_workers_of_a_host_prepare_data_one_after_the_other(tmp_path: Path) -> None:
    prepares = """
import os, time
class Prepares(Module):
    def prepare_data(self):
        for what in ("begin", "end"):
            with open("../prepared", "a") as file:
                file.write(f"{os.getpid()} {what}\\n")
            time.sleep(1)
Module = Prepares
"""
    folders = [tmp_path / name for name in ("w0", "w1", "w2")]
    with contextlib.ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
        workers = [
            stack.enter_context(
                start(folder, HEAD + prepares + FIT, name=folder.name, devices=3, host_folder=str(tmp_path))
            )
            for folder in folders
        ]
        for worker in workers:
            worker.take_model()
    lines = [line.split() for line in (tmp_path / "prepared").read_text().splitlines()]
    assert [what for _, what in lines] == ["begin", "end"] * 3
    assert all(lines[at][0] == lines[at + 1][0] for at in range(0, 6, 2))


def test_what_it_says_of_the_model(tmp_path: Path) -> None:
    with start(tmp_path, role="probe", devices=2) as member:
        model = member.take_model()
        assert [tensor["name"] for tensor in model["tensors"]] == [
            f"net.{i}.{p}" for i in (0, 2) for p in ("weight", "bias")
        ]
        assert (model["samples"], model["batch"], model["epochs"]) == (64, 16, 2)
        optimizer = {"name": "sgd", "momentum": 0.9, "weight_decay": 0.0, "lr": pytest.approx(0.1), "clip": 0.5}
        assert model["optimizer"] == optimizer and "evaluates" not in model
        # Two steps an epoch of two devices, so four in all.
        points = model["schedule"]["table"]
        assert points[0] == [0.0, 1.0] and points[-1] == pytest.approx([1.5, 1 - 0.5 * 3 / 4])
        assert member.end() == 0, member.log
    assert not (tmp_path / "lightning_logs").exists()


def test_the_end_of_an_epoch_is_the_end_of_the_job(tmp_path: Path) -> None:
    with start(tmp_path, name="w1", devices=2) as member:
        member.begin()
        for step in range(4):
            member.step([step])
        assert member.end() == 0, member.log
    ends = [line for line in member.log.splitlines() if line.startswith("epoch")]
    assert ends == ["epoch 0 ended after 2", "epoch 1 ended after 4"]
    assert not (tmp_path / "lightning_logs").exists()


def test_the_weights_at_an_epoch_s_end_are_the_next_step_s(tmp_path: Path) -> None:
    script = HEAD.replace('"ended after", self.steps', '"ended with", self.net[2].bias.tolist()')
    with start(tmp_path, script + FIT, devices=2) as member:
        weights, _ = member.begin()
        for step in range(3):
            member.tensor(weights, "net.2.bias").fill_(step)
            member.step([step])
        assert member.end() == 0, member.log
    assert "epoch 0 ended with [2.0, 2.0]" in member.log


def test_what_comes_after_fit(tmp_path: Path) -> None:
    after = """
[measured] = trainer.validate(trainer.lightning_module, DataLoader(data, 32), ckpt_path=None, verbose=False)
print("validated", measured["val_loss"])
trainer.save_checkpoint("after.ckpt")
from lightning.pytorch.utilities import rank_zero_only
rank_zero_only(print)("writes")
"""
    for first in (False, True):  # once w0 is lost
        with start(tmp_path, HEAD + FIT + after, name="w1", devices=2) as member:
            member.begin()
            member.step([1])
            assert member.end(first=first) == 0, member.log
        assert (tmp_path / "after.ckpt").exists() == first and ("writes" in member.log) == first
    [line] = [line for line in member.log.splitlines() if line.startswith("validated")]
    assert float(line.split()[1]) == pytest.approx(plain_gradient(list(range(64)))[0])
    assert "net.0.weight" in torch.load(tmp_path / "after.ckpt")["state_dict"]


def evaluated(member: Member) -> dict[str, float]:
    member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
    metrics: dict[str, float] = member.receive("evaluated")["metrics"]
    return metrics


def test_the_evaluator(tmp_path: Path) -> None:
    with start(tmp_path, role="evaluator", name="evaluator") as member:
        weights, _ = member.begin()
        loss, _ = plain_gradient(list(range(64)))
        for _ in range(2):
            measured = evaluated(member)
            assert measured["loss"] == pytest.approx(loss) and 0 < measured["accuracy"] < 1
            member.tensor(weights, "net.2.weight").zero_()
            member.tensor(weights, "net.2.bias").zero_()
            loss = math.log(2)
        assert member.end() == 0, member.log
    assert "after fit: evaluator" in member.log and "ended after" not in member.log
    assert not (tmp_path / "lightning_logs").exists()


@pytest.mark.parametrize(
    ("role", "stages", "home", "opens"),
    [
        ("evaluator", True, "cpu", False),
        ("worker", True, "cpu", True),
        ("evaluator", False, "cpu", True),
        ("evaluator", True, "meta", True),  # instead of a card, on which the program has built the model
    ],
)
def test_an_evaluator_on_the_cpu_opens_no_card(
    monkeypatch: pytest.MonkeyPatch, role: str, stages: bool, home: str, opens: bool
) -> None:
    channel: Any = None
    for module in (paceline.integrations.lightning, paceline.integrations.home):
        monkeypatch.setattr(module, "session", lambda: Session(channel, role, "w0", 2, 1, stages=stages))
    monkeypatch.delenv("PACELINE_DEVICE", raising=False)
    opened: list[torch.device] = []
    strategy = paceline.integrations.lightning.PacelineStrategy()
    monkeypatch.setattr(strategy, "_accelerator", SimpleNamespace(setup_device=opened.append))
    monkeypatch.setattr(strategy, "_lightning_module", nn.Linear(2, 2, device=home))
    monkeypatch.setattr(strategy, "_trainer", lambda: SimpleNamespace(training=False))
    strategy.setup_environment()
    assert bool(opened) == opens


def test_a_worker_that_evaluates_between_steps(tmp_path: Path) -> None:
    with start(tmp_path) as member:
        member.begin()
        for step in range(9):
            loss, _ = plain_gradient([step])
            assert member.step([step])["loss"] == loss
            assert evaluated(member)["loss"] == pytest.approx(plain_gradient(list(range(64)))[0])
        assert member.end() == 0, member.log
    assert "epoch 2 ended after 9" in member.log


def test_manual_optimization(tmp_path: Path) -> None:
    manual = """
class Manual(Module):
    automatic_optimization = False
    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        scores = self.net(batch[0])
        self.manual_backward(F.cross_entropy(scores, batch[1]))
        self.manual_backward(self.net(batch[0]).pow(2).mean())
        optimizer.step()
        self.lr_schedulers().step()
Module = Manual
"""
    with start(tmp_path, HEAD + manual + FIT.replace("gradient_clip_val=0.5,", "")) as member:
        _, gradients = member.begin()
        loss, expected = plain_gradient([3, 4], lambda s, y: F.cross_entropy(s, y) + s.pow(2).mean())
        assert member.step([3, 4])["loss"] == pytest.approx(loss)
        for name, gradient in expected.items():
            assert torch.allclose(member.tensor(gradients, name), gradient, atol=1e-7)
        assert member.end() == 0, member.log


@pytest.mark.parametrize("steps", [True, False])
def test_a_scheduler_in_manual_optimization(tmp_path: Path, steps: bool) -> None:
    manual = f"""
class Manual(Module):
    automatic_optimization = False
    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.cross_entropy(self.net(batch[0]), batch[1]))
        optimizer.step()
        if {steps} and self.trainer.is_last_batch:
            self.lr_schedulers().step()
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]
Module = Manual
"""
    with start(tmp_path, HEAD + manual + FIT.replace("gradient_clip_val=0.5,", "")) as member:
        member.begin()
        for step in range(4):  # an epoch of this worker's
            member.step([step])
        member.step([4], epoch=0)
        if steps:
            member.step([5], epoch=1)
            assert member.end() == 0, member.log
        else:
            member.order([5], epoch=1)
            text = member.receive("error")["text"]
            assert "did not step its scheduler for an epoch, and the servers do; call self.lr_schedulers()" in text


def test_a_step_that_is_skipped(tmp_path: Path) -> None:
    skips = """
class Skips(Module):
    def training_step(self, batch, index):
        return None if index == 1 else super().training_step(batch, index)
Module = Skips
"""
    with start(tmp_path, HEAD + skips + FIT) as member:
        member.begin()
        answers = [member.step([step]) for step in range(3)]
        assert [answer["skipped"] for answer in answers] == [False, True, False]
        assert answers[1]["loss"] is None
        assert member.end() == 0, member.log


def test_mixed_precision(tmp_path: Path) -> None:
    with start(tmp_path, HEAD + FIT.replace("max_epochs", "precision='bf16-mixed', max_epochs")) as member:
        _, gradients = member.begin()
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            loss, expected = plain_gradient([1, 2, 3])
        assert member.step([1, 2, 3])["loss"] == loss
        assert same(member, gradients, expected)
        assert member.end() == 0, member.log


@pytest.mark.parametrize("precision, dtype", [("64-true", torch.float64), ("bf16-true", torch.bfloat16)])
def test_other_types(tmp_path: Path, precision: str, dtype: torch.dtype) -> None:
    with start(tmp_path, HEAD + FIT.replace("max_epochs", f"precision={precision!r}, max_epochs")) as member:
        _, gradients = member.begin()
        loss, expected = plain_gradient([1, 2, 3], dtype=dtype)
        assert {tensor["dtype"] for tensor in member.tensors} == {str(dtype)[len("torch.") :]}
        assert member.step([1, 2, 3])["loss"] == pytest.approx(loss)
        for name, gradient in expected.items():
            assert torch.allclose(member.tensor(gradients, name), gradient.float(), rtol=1e-6)
        assert member.end() == 0, member.log


def test_an_exception_in_the_module(tmp_path: Path) -> None:
    fails = HEAD.replace("self.steps += 1", "raise KeyError('column')")
    with start(tmp_path, fails + FIT) as member:
        member.begin()
        member.order([1])
        error = member.receive("error")
        line = 1 + fails.splitlines().index("        raise KeyError('column')")
        assert error["text"] == "KeyError: 'column'" and error["where"] == f"train.py:{line}"
        assert member.wait() == 1


@pytest.mark.parametrize("where", ["self.steps += 1", 'print("epoch", self.current_epoch'])
def test_a_module_that_would_stop_one_worker(tmp_path: Path, where: str) -> None:
    stops = HEAD.replace(where, "self.trainer.should_stop = True; " + where)
    with start(tmp_path, stops + FIT) as member:
        member.begin()
        answer: dict[str, Any] = {}
        for step in range(5):
            member.order([step])
            answer = member.receive()
            if answer["type"] == "error":
                break
        assert "would stop one worker and not the job; set evaluate.stop_at_target" in answer["text"], member.log


def test_a_module_that_would_leave_samples_out(tmp_path: Path) -> None:
    leaves = """
class Leaves(Module):
    def on_train_batch_start(self, batch, index):
        return -1 if index == 1 else None
Module = Leaves
"""
    with start(tmp_path, HEAD + leaves + FIT) as member:
        member.begin()
        member.step([1])
        member.order([2])
        text = member.receive("error")["text"]
        assert "on_train_batch_start() has returned -1, and a job trains on every sample; " in text


def test_a_second_fit(tmp_path: Path) -> None:
    again = "trainer.fit(Module(), DataLoader(data, 16))\n"
    with start(tmp_path, HEAD + FIT + again) as member:
        member.begin()
        member.step([1])
        assert member.end() == 1, member.log
        member.receive("done")
        assert "fit() was called twice, and a program works for one job; " in member.receive("error")["text"]


def test_no_checkpoint_while_the_job_runs(tmp_path: Path) -> None:
    saves = HEAD.replace("self.steps += 1", "self.trainer.save_checkpoint('now.ckpt')")
    with start(tmp_path, saves + FIT) as member:
        member.begin()
        member.order([1])
        assert "the job's checkpoints are in its run folder" in member.receive("error")["text"]
    assert not (tmp_path / "now.ckpt").exists()


def test_a_loader_that_makes_its_batches_itself(tmp_path: Path) -> None:
    with start(tmp_path, HEAD + FIT.replace("DataLoader(data, 16, shuffle=True)", "range(4)")) as member:
        assert "the training data are a range" in member.receive("error")["text"]
