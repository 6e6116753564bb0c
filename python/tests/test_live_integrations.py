"""Whole jobs of other projects' training loops, with the real executable: PACELINE names it.

The same samples in plain PyTorch have to end in the same weights.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from live_job import PACELINE, exported, paceline
from torch import nn

pytestmark = pytest.mark.skipif(not PACELINE, reason="PACELINE does not name the executable")

LIGHTNING = """
import json
import lightning, torch, torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from paceline.integrations.lightning import PacelineStrategy

torch.manual_seed(0)
x = torch.randn(192, 10)
y = (x[:, 0] > 0).long()
seen = []

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
    def training_step(self, batch, index):
        seen.append(list(self.trainer.strategy.job.samples))
        return F.cross_entropy(self.net(batch[0]), batch[1])
    def validation_step(self, batch, index):
        scores = self.net(batch[0])
        self.log_dict({"val_loss": F.cross_entropy(scores, batch[1]), "val_acc": (scores.argmax(1) == batch[1]).float().mean()})
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

if __name__ == "__main__":
    data = TensorDataset(x, y)
    trainer = lightning.Trainer(strategy=PacelineStrategy(), accelerator="auto", max_epochs=2, gradient_clip_val=0.2)
    trainer.fit(Module(), DataLoader(data, 16, shuffle=True, num_workers=1), DataLoader(data, 64))
    job = trainer.strategy.job
    if job.role == "worker":
        with open(f"seen-{job.name}.json", "w") as file:
            json.dump(seen, file)
"""

TRANSFORMERS = """
import json
import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
from paceline.integrations.transformers import PacelineTrainer

torch.manual_seed(0)
text = torch.randint(0, 40, (192, 9))
labels = text.clone()
labels[:, 0] = -100  # nobody predicts it; transformers counts it in a mean otherwise
for i in range(64, 192):
    labels[i, 2 + i % 8 :] = -100  # texts of other lengths: batches of a round have other numbers of tokens
data = [{"input_ids": row, "labels": label} for row, label in zip(text, labels)]
small = dict(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2)
model = GPT2LMHeadModel(GPT2Config(**small, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0))
seen = []

class Trainer(PacelineTrainer):
    def training_step(self, *arguments, **named):
        seen.append(list(self.job.samples))
        return super().training_step(*arguments, **named)

if __name__ == "__main__":
    options = dict(per_device_train_batch_size=16, num_train_epochs=2, learning_rate=0.01, warmup_steps=3, max_grad_norm=0.5)
    # With a small epsilon Adam makes a step of what is nothing but rounding: the gradient of a key's bias.
    args = TrainingArguments("out", **options, adam_epsilon=1e-3, weight_decay=0.1, disable_tqdm=True)
    trainer = Trainer(model, args, train_dataset=data, eval_dataset=data[:64])
    trainer.train()
    job = trainer.job
    if job.role == "worker":
        with open(f"seen-{job.name}.json", "w") as file:
            json.dump(seen, file)
"""


def train(folder: Path, script: str, devices: int, *more: str) -> Path:
    (folder / "train.py").write_text(script)
    ended = paceline(folder, "run", "train.py", "--python", sys.executable, "--devices", str(devices), *more)
    assert ended.returncode == 0, ended.stderr
    [run] = (folder / "runs").iterdir()
    return run


def seen(folder: Path, devices: int) -> list[list[list[int]]]:
    return [json.loads((folder / f"seen-w{i}.json").read_text()) for i in range(devices)]


def rounds(folder: Path, devices: int) -> list[list[int]]:
    """The samples that each bulk-synchronous step was trained on."""
    of_workers = seen(folder, devices)
    count = max(len(one) for one in of_workers)
    batches = [[index for one in of_workers if k < len(one) for index in one[k]] for k in range(count)]
    assert sorted(index for batch in batches for index in batch) == sorted(2 * list(range(192)))
    return batches


def near(ours: dict[str, torch.Tensor], plain: nn.Module) -> Iterator[bool]:
    for name, parameter in plain.named_parameters():
        yield bool((ours[name] - parameter).abs().max() <= 2e-5 * parameter.abs().max())


def evaluations(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "evaluation"]


def step(model: nn.Module, loss: torch.Tensor, optimizer: Any, clip: float) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


@pytest.mark.parametrize("devices", [1, 2])
def test_lightning_trains_as_plain_pytorch_does(tmp_path: Path, devices: int) -> None:
    pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    run = train(tmp_path, LIGHTNING, devices)
    torch.manual_seed(0)
    x = torch.randn(192, 10)
    y = (x[:, 0] > 0).long()
    model = nn.ModuleDict({"net": nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    batches = rounds(tmp_path, devices)
    for number, batch in enumerate(batches):
        optimizer.param_groups[0]["lr"] = 0.5 if number < len(batches) / 2 else 0.25
        step(model, F.cross_entropy(model["net"](x[batch]), y[batch]), optimizer, 0.2)
    assert all(near(exported(tmp_path, run), model))
    last = evaluations(run)[-1]
    scores = model["net"](x)
    assert last["loss"] == pytest.approx(F.cross_entropy(scores, y).item(), rel=1e-4)
    assert last["accuracy"] == pytest.approx((scores.argmax(1) == y).float().mean().item(), abs=0.01)
    assert [file.name for file in (tmp_path / "lightning_logs").iterdir()] == ["version_0"]


@pytest.mark.parametrize("devices", [1, 2])
def test_transformers_trains_as_plain_pytorch_does(tmp_path: Path, devices: int) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed, and a Trainer of transformers needs it")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    run = train(tmp_path, TRANSFORMERS, devices)
    namespace: dict[str, Any] = {"__name__": "plain"}
    exec(TRANSFORMERS, namespace)
    model, text, labels = (namespace[name] for name in ("model", "text", "labels"))
    model.train()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, eps=1e-3)
    batches = rounds(tmp_path, devices)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 3, len(batches))
    for batch in batches:
        step(model, model(input_ids=text[batch], labels=labels[batch]).loss, optimizer, 0.5)
        schedule.step()
    assert all(near(exported(tmp_path, run), model))
    model.eval()
    with torch.no_grad():
        loss = model(input_ids=text[:64], labels=labels[:64]).loss.item()
    assert evaluations(run)[-1]["loss"] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize("script", [LIGHTNING, TRANSFORMERS])
def test_workers_that_do_not_wait_for_each_other(tmp_path: Path, script: str) -> None:
    pytest.importorskip("lightning.pytorch" if script is LIGHTNING else "transformers", reason="it is not installed")
    run = train(tmp_path, script, 2, "--policy", "asp")
    batches = [index for one in seen(tmp_path, 2) for batch in one for index in batch]
    assert sorted(batches) == sorted(2 * list(range(192)))
    replayed = paceline(tmp_path, "replay", str(run))
    assert replayed.returncode == 0, replayed.stderr
