"""Whole jobs that cut the models of other projects' training loops, with no line changed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from live_job import needs_paceline, only_run, paceline
from test_live_stages import ONE, expect_equal, pipeline, weights_of, write_job

pytestmark = needs_paceline
needs_lightning = pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is missing")
needs_trainer = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None,
    reason="transformers or accelerate is missing",
)

LIGHTNING = """
    import lightning, torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset
    from paceline.integrations.lightning import PacelineStrategy

    torch.manual_seed(0)
    x = torch.randn(48, 10)
    data = TensorDataset(x, (x[:, 0] > 0).long())

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 16), nn.Linear(16, 2))
        def training_step(self, batch, index):
            scores = self.net(batch[0])
            self.log("right", (scores.argmax(1) == batch[1]).float().mean())
            self.log_dict({"scale": scores.abs().mean()}, prog_bar=True)
            return {"loss": F.cross_entropy(scores, batch[1])}
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5, momentum=0.9)
        MORE

    trainer = lightning.Trainer(strategy=PacelineStrategy(), max_epochs=2, precision="PRECISION")
    trainer.fit(Module(), DataLoader(data, 12, shuffle=True))
    print("fit is over:", trainer.strategy.job.role)
"""

TRAINER = """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments
    from paceline.integrations.transformers import PacelineTrainer

    torch.manual_seed(0)
    ids = torch.randint(64, (24, 9))
    data = [{"input_ids": row, "labels": torch.where(row < 20, -100, row)} for row in ids]
    config = LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=4,
                         num_attention_heads=2, num_key_value_heads=1, attention_dropout=0.1)
    args = TrainingArguments("out", per_device_train_batch_size=12, num_train_epochs=2, learning_rate=0.01,
                             warmup_steps=1, disable_tqdm=True, use_cpu=True, OPTIONS)
    class Trainer(PacelineTrainer):
        pass
        MORE
    trainer = Trainer(LlamaForCausalLM(config), args, train_dataset=data)
    trainer.train()
    print("train is over:", trainer.job.role)
"""


# Says which modules with weights were moved to a device, and which shapes of weights a stage has allocated on cpu:0.
# cpu:0 is the same memory under a name that the model's tensors do not have, so it counts as another device.
COUNTING = """
    import torch
    moved, allocated, move, empty = set(), set(), torch.nn.Module.to, torch.empty_strided
    def counted(module, *words, **named):
        if torch._C._nn._parse_to(*words, **named)[0] is not None and next(module.parameters(), None) is not None:
            moved.add(type(module).__name__)
        return move(module, *words, **named)
    def recorded(size, stride, *, device, **named):
        if device == torch.device("cpu", 0):
            allocated.add(tuple(size))
        return empty(size, stride, device=device, **named)
    torch.nn.Module.to, torch.empty_strided = counted, recorded
    def said(model, job):
        print("moved:", sorted(moved), "allocated:", sorted(allocated))
        torch.save(model.state_dict(), f"after-{job.name}.pt")
"""

WORKERS_DEVICE = """
    import os
    from paceline.session import session
    if session() is not None and session().role == "worker":
        os.environ["PACELINE_DEVICE"] = "cpu:0"
"""

VALIDATION = """
        def validation_step(self, batch, index):
            self.log("val_loss", F.cross_entropy(self.net(batch[0]), batch[1]))
"""


def filled(program: str, more: str = "", options: str = "", precision: str = "32-true") -> str:
    return program.replace("MORE", more).replace("OPTIONS", options).replace("PRECISION", precision)


@needs_lightning
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_lightning_module_is_cut(tmp_path: Path, precision: str) -> None:
    program = filled(LIGHTNING, precision=precision)
    one = weights_of(tmp_path / "one", program, ONE)
    folder = tmp_path / "two"
    expect_equal(weights_of(folder, program, pipeline("['w0', 'w1']", "[3]")), one)
    for name in ("w0", "w1"):
        assert "fit is over: worker" in (only_run(folder) / "logs" / f"{name}.log").read_text()
    metrics = (only_run(folder) / "metrics.jsonl").read_text()
    assert "right" in metrics
    assert "scale" in metrics


@needs_lightning
def test_stages_clip_without_the_parameters_that_the_optimizer_lacks(tmp_path: Path) -> None:
    program = filled(LIGHTNING).replace("self.parameters(), lr", "self.net[3:].parameters(), lr")
    program = program.replace("max_epochs=2,", "max_epochs=2, gradient_clip_val=0.1,")
    one = weights_of(tmp_path / "one", program, ONE)
    expect_equal(weights_of(tmp_path / "two", program, pipeline("['w0', 'w1']", "[3]")), one)
    freezes = "            self.net[0].requires_grad_(False)\n        def training_step"
    frozen = weights_of(tmp_path / "frozen", program.replace("        def training_step", freezes), ONE)
    stepped = [name for name in one if name.startswith(("net.3", "net.4"))]
    assert len(stepped) == 4
    for name in stepped:
        assert torch.allclose(one[name], frozen[name], atol=1e-6), name


METRICS = """
        def setup(self, stage):
            self.mean, self.hits = MeanMetric(), MulticlassAccuracy(2, average="micro")
        def training_step(self, batch, index):
            print("epoch", self.current_epoch)
            scores = self.net(batch[0])
            self.mean(scores.abs().mean())
            self.hits.update(scores, batch[1])
            self.log("mean", self.mean)
            self.log("hits", self.hits)
            self.log("plain_hits", (scores.argmax(1) == batch[1]).float().mean())
            return F.cross_entropy(scores, batch[1])
"""


def epochs_in(folder: Path, name: str) -> set[str]:
    log = (only_run(folder) / "logs" / f"{name}.log").read_text()
    return {line.split()[1] for line in log.splitlines() if line.startswith("epoch ")}


@needs_lightning
def test_a_stage_knows_its_epoch_and_logs_metrics_of_torchmetrics(tmp_path: Path) -> None:
    imports = """
    from torchmetrics import MeanMetric
    from torchmetrics.classification import MulticlassAccuracy
"""
    folder = tmp_path / "two"
    weights_of(folder, imports + filled(LIGHTNING, METRICS), pipeline("['w0', 'w1']", "[3]"))
    assert {"0", "1"} == epochs_in(folder, "w0") == epochs_in(folder, "w1")
    last = json.loads((only_run(folder) / "metrics.jsonl").read_text().splitlines()[-1])
    measured = last["training_metrics"]
    assert measured["mean"] > 0 and measured["hits"] == pytest.approx(measured["plain_hits"]), measured


DATA_MODULE = """
    class Data(lightning.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(data, 12, shuffle=True)
        def on_before_batch_transfer(self, batch, index):
            return [batch[0] / 2, batch[1]]
        def on_after_batch_transfer(self, batch, index):
            return [batch[0] - 1, batch[1]]
"""


@needs_lightning
@pytest.mark.parametrize("precision", ["32-true", "bf16-true"])
def test_a_data_module_changes_the_batches_of_stages_too(tmp_path: Path, precision: str) -> None:
    program = filled(LIGHTNING, DATA_MODULE, precision=precision)
    program = program.replace("fit(Module(), DataLoader(data, 12, shuffle=True))", "fit(Module(), datamodule=Data())")
    one = weights_of(tmp_path / "one", program, ONE)
    expect_equal(weights_of(tmp_path / "two", program, pipeline("['w0', 'w1']", "[3]")), one)


@needs_trainer
@pytest.mark.parametrize("options", ["", "bf16=True, gradient_checkpointing=True"])
def test_a_trainer_of_transformers_is_cut(tmp_path: Path, options: str) -> None:
    program = filled(TRAINER, options=options)
    one = weights_of(tmp_path / "one", program, ONE)
    folder = tmp_path / "three"
    expect_equal(weights_of(folder, program, pipeline("['w0', 'w1', 'w2']", "[1, 3]")), one)
    for name in ("w0", "w1", "w2"):
        assert "train is over: worker" in (only_run(folder) / "logs" / f"{name}.log").read_text()


@needs_trainer
def test_a_stage_of_a_trainer_of_transformers_knows_its_epoch(tmp_path: Path) -> None:
    says = """
        def compute_loss(self, *words, **named):
            print("epoch", self.state.epoch)
            return super().compute_loss(*words, **named)
"""
    folder = tmp_path / "two"
    weights_of(folder, filled(TRAINER, says), pipeline("['w0', 'w1']", "[1]"))
    assert {"0.0", "1.0"} <= epochs_in(folder, "w0") & epochs_in(folder, "w1")


@pytest.mark.parametrize(
    ("program", "more", "says"),
    [
        pytest.param(
            LIGHTNING, "automatic_optimization = False", "automatic_optimization = False", marks=needs_lightning
        ),
        pytest.param(
            LIGHTNING, "def on_after_backward(self): pass", "its own on_after_backward()", marks=needs_lightning
        ),
        pytest.param(
            TRAINER, "def training_step(self, *a): pass", "override compute_loss() instead", marks=needs_trainer
        ),
    ],
)
def test_a_loop_that_cannot_be_cut_is_refused_in_one_line(tmp_path: Path, program: str, more: str, says: str) -> None:
    folder = tmp_path / "refused"
    ended = paceline(folder, "train", write_job(folder, filled(program, more), pipeline("['w0', 'w1']", "[1]")))
    assert ended.returncode == 2
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("paceline: ")]
    assert says in line


def expect_placed(folder: Path, weights: dict[str, torch.Tensor], allocated: dict[str, str]) -> None:
    for name, shapes in allocated.items():
        log = (only_run(folder) / "logs" / f"{name}.log").read_text()
        assert f"moved: [] allocated: {shapes}\n" in log, log
    for name in ("w0", "w1"):
        kept = torch.load(folder / f"after-{name}.pt")
        for key, tensor in weights.items():
            assert torch.equal(kept[key], tensor), key


@needs_lightning
def test_a_stage_of_a_lightning_module_moves_its_own_weights_to_its_device(tmp_path: Path) -> None:
    program = COUNTING + WORKERS_DEVICE + filled(LIGHTNING, VALIDATION)
    program = program.replace("PacelineStrategy()", "PacelineStrategy(weights='copy')")
    program = program.replace("trainer.fit(Module(), ", "module = Module()\n    trainer.fit(module, ")
    program = program.replace("shuffle=True))", "shuffle=True), DataLoader(data, 24))")
    program += "    said(module, trainer.strategy.job)\n"
    folder = tmp_path / "two"
    cut = weights_of(folder, program, pipeline("['w0', 'w1']", "[3]"))
    first, second = "[(16,), (16, 10)]", "[(2,), (2, 16), (16,), (16, 16)]"
    expect_placed(folder, cut, {"w0": first, "w1": second, "evaluator": "[]"})
    expect_equal(cut, weights_of(tmp_path / "one", filled(LIGHTNING), ONE))


@needs_trainer
def test_a_stage_of_a_trainer_of_transformers_moves_its_own_weights_to_its_device(tmp_path: Path) -> None:
    program = COUNTING + filled(TRAINER)
    program = program.replace(
        "trainer = Trainer(", 'args.__dict__["_setup_devices"] = torch.device("cpu", 0)\n    trainer = Trainer('
    )
    program = program.replace("train_dataset=data)", "train_dataset=data, eval_dataset=data)")
    program = program.replace("trainer.train()", "trainer.train(join_arguments={'weights': 'copy'})")
    program += "    trainer.evaluate()\n    said(trainer.model, trainer.job)\n"
    folder = tmp_path / "two"
    cut = weights_of(folder, program, pipeline("['w0', 'w1']", "[1]"))
    block = "(8, 16), (16,), (16, 16), (16, 32), (32, 16)"
    expect_placed(folder, cut, {"w0": f"[{block}, (64, 16)]", "w1": f"[{block}, (64, 16)]", "evaluator": "[]"})
    expect_equal(cut, weights_of(tmp_path / "one", filled(TRAINER), ONE))
