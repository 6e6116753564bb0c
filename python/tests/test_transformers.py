"""A Trainer of transformers, as a worker."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fake_member import Member
from torch import nn

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed, and a Trainer of transformers needs it")
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments  # noqa: E402

from paceline import PacelineError  # noqa: E402
from paceline.integrations.transformers import PacelineTrainer, PacelineTraining  # noqa: E402
from paceline.integrations.transformers_refusals import refuse, refuse_overrides  # noqa: E402
from paceline.streams import Shards, Stream  # noqa: E402

HEAD = """
import torch, torch.nn.functional as F
from torch import nn
from transformers import TrainingArguments
from paceline.integrations.transformers import PacelineTrainer

torch.manual_seed(0)
x = torch.randn(64, 10)
y = (x[:, 0] > 0).long()
data = [{"x": x[i], "labels": y[i], "unused": i} for i in range(64)]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
    def forward(self, x, labels=None):
        scores = self.net(x)
        return {"loss": F.cross_entropy(scores, labels), "logits": scores}

def accuracy(predicted):
    return {"accuracy": float((predicted.predictions.argmax(1) == predicted.label_ids).mean())}
"""
TRAIN = """
torch.manual_seed(0)
options = dict(num_train_epochs=2, per_device_train_batch_size=16, learning_rate=0.1, warmup_steps=1, weight_decay=0.01,
               eval_strategy="epoch", save_strategy="steps", save_steps=1, max_grad_norm=0.5, use_cpu=True)
trainer = PacelineTrainer(Net(), TrainingArguments("out", **options), train_dataset=data, eval_dataset=data,
                          compute_metrics=accuracy)
done = trainer.train()
print("after train:", trainer.job.role, done.global_step)
trainer.save_model("saved")
"""


def start(folder: Path, script: str = HEAD + TRAIN, **more: Any) -> Member:
    return Member(folder, script, preload="transformers.trainer", **more)


def plain_gradient(samples: list[int]) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(64, 10)
    y = (x[:, 0] > 0).long()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
    loss = F.cross_entropy(net(x[samples]), y[samples])
    loss.backward()
    return loss.item(), {f"net.{name}": p.grad for name, p in net.named_parameters() if p.grad is not None}


def evaluated(member: Member) -> dict[str, float]:
    member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
    metrics: dict[str, float] = member.receive("evaluated")["metrics"]
    return metrics


def test_a_worker(tmp_path: Path) -> None:
    with start(tmp_path, devices=2) as member:
        _, gradients = member.begin()
        # An even share is two steps an epoch. This worker is fast, and has seven in a job of two epochs.
        for step in range(7):
            samples = [step, 40, 63 - step]
            loss, expected = plain_gradient(samples)
            assert member.step(samples)["loss"] == loss
            for name, gradient in expected.items():
                assert torch.equal(member.tensor(gradients, name), gradient)
            if step % 3 == 0:  # evaluations between steps, which virtual time asks for
                assert evaluated(member)["loss"] == pytest.approx(plain_gradient(list(range(64)))[0])
        assert member.end() == 0, member.log
    assert "after train: worker 7" in member.log
    assert (tmp_path / "saved/model.safetensors").exists() and not list(tmp_path.glob("out/checkpoint*"))


def test_what_it_says_of_the_model(tmp_path: Path) -> None:
    with start(tmp_path, role="probe", devices=2) as member:
        model = member.take_model()
        assert (model["samples"], model["batch"], model["epochs"]) == (64, 16, 2)
        optimizer = dict(model["optimizer"])
        groups = optimizer.pop("group")
        numbers = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01, "lr": 0.1, "clip": 0.5}
        assert optimizer == {"name": "adamw", **{name: pytest.approx(value) for name, value in numbers.items()}}
        assert [group["weight_decay"] for group in groups] == [0.0]
        # Two steps an epoch of two devices: one of warm-up, and a line from there to the fourth.
        points = model["schedule"]["table"]
        assert points[0] == [0.0, 0.0] and points[1] == [0.5, 1.0] and points[-1] == pytest.approx([1.5, 1 / 3])
        assert "evaluates" not in model and member.end() == 0, member.log


def test_the_evaluator_and_other_workers_write_nothing(tmp_path: Path) -> None:
    with start(tmp_path, role="evaluator", name="evaluator") as member:
        weights, _ = member.begin()
        measured = evaluated(member)
        assert set(measured) == {"loss", "accuracy"}
        assert measured["loss"] == pytest.approx(plain_gradient(list(range(64)))[0])
        member.tensor(weights, "net.2.weight").zero_()
        member.tensor(weights, "net.2.bias").zero_()
        assert evaluated(member)["loss"] == pytest.approx(0.693147, abs=1e-5)
        assert member.end() == 0, member.log
    assert "after train: evaluator 0" in member.log and not (tmp_path / "saved").exists()
    with start(tmp_path, name="w1", devices=2) as member:
        member.begin()
        member.step([1])
        assert member.end() == 0, member.log
    assert "after train: worker 1" in member.log and not (tmp_path / "saved").exists()
    assert "'loss'" not in member.log
    with start(tmp_path, name="w1", devices=2) as member:  # w0 was lost
        member.begin()
        member.step([1])
        assert member.end(first=True) == 0, member.log
    assert (tmp_path / "saved/model.safetensors").exists()


def test_an_older_transformers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "paceline.integrations.transformers")
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.57.1")
    with pytest.raises(PacelineError, match="transformers 5 or newer, and not 4.57.1"):
        importlib.import_module("paceline.integrations.transformers")


def test_a_stream_that_does_not_know_its_length(tmp_path: Path) -> None:
    stream = """from paceline.streams import Shards, Stream
data = Stream(Shards(["all"], lambda name: iter(samples)), shuffle=0, records=64)
"""
    script = HEAD.replace("data = ", "samples = ") + stream
    train = TRAIN.replace("eval_dataset=data", "eval_dataset=samples")
    with start(tmp_path, script + train) as member:
        member.begin()
        assert member.step([0, 1, 2])["loss"] == pytest.approx(plain_gradient([0, 1, 2])[0])
        assert member.end() == 0, member.log
    with start(tmp_path, script.replace(", records=64", "") + train) as member:
        text = member.receive("error")["text"]
        assert "a schedule needs the number of samples of an epoch, " in text and "give the stream records=" in text


def test_streams_that_are_evaluated(tmp_path: Path) -> None:
    data = [{"x": torch.randn(2), "labels": torch.tensor(number)} for number in range(64)]
    stream = Stream(Shards(["all"], lambda name: iter(data)), shuffle=0)
    for processes in (0, 2):
        trainer = trainer_of(tmp_path, dataloader_num_workers=processes)
        expected, found = trainer.predict(data), trainer.predict(stream)
        assert (found.predictions == expected.predictions).all() and [*found.label_ids] == [*range(64)]
        trainer.eval_dataset = {"one": stream, "two": data}
        measured = trainer.evaluate()
        assert measured["eval_one_loss"] == pytest.approx(measured["eval_two_loss"])
        assert trainer.evaluate(stream)["eval_loss"] == pytest.approx(measured["eval_two_loss"])
    script = HEAD + "from paceline.streams import Shards, Stream\n"
    test = 'eval_dataset=Stream(Shards(["all"], lambda name: iter(data)))'
    with start(
        tmp_path, script + TRAIN.replace("eval_dataset=data", test), role="evaluator", name="evaluator"
    ) as one:
        one.begin()
        assert evaluated(one)["loss"] == pytest.approx(plain_gradient(list(range(64)))[0])
        assert one.end() == 0, one.log


def test_a_person_s_own_trainer(tmp_path: Path) -> None:
    own = """
import transformers
from paceline.integrations.transformers import PacelineTraining
class Weighted(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **more):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **more)
        return (2 * loss, outputs) if return_outputs else 2 * loss
class PacelineTrainer(PacelineTraining, Weighted):
    pass
"""
    with start(tmp_path, HEAD + own + TRAIN) as member:
        _, gradients = member.begin()
        loss, expected = plain_gradient([5, 6])
        assert member.step([5, 6])["loss"] == pytest.approx(2 * loss)
        for name, gradient in expected.items():
            assert torch.allclose(member.tensor(gradients, name), 2 * gradient)
        assert member.end() == 0, member.log


def test_a_training_step_that_hides_the_job_s(tmp_path: Path) -> None:
    own = """
class PacelineTrainer(PacelineTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model, self._prepare_inputs(inputs))
        self.accelerator.backward(loss)
        return loss.detach()
"""
    with start(tmp_path, HEAD + own + TRAIN) as member:
        member.begin()
        member.order([1])
        text = member.receive("error")["text"]
        assert "has a training_step() that does not call super().training_step(), so the job does not know" in text
        assert text.endswith("write class PacelineTrainer(PacelineTraining, Own)")
        assert member.wait() == 1


def test_the_evaluator_leaves_out_what_train_names(tmp_path: Path) -> None:
    own = """
class PacelineTrainer(PacelineTrainer):
    def prediction_step(self, *arguments, ignore_keys=None):
        print("left out:", ignore_keys)
        return super().prediction_step(*arguments, ignore_keys=ignore_keys)
"""
    train = TRAIN.replace("trainer.train()", 'trainer.train(ignore_keys_for_eval=["hidden"])')
    with start(tmp_path, HEAD + own + train, role="evaluator", name="evaluator") as member:
        member.begin()
        evaluated(member)
        assert member.end() == 0, member.log
    assert "left out: ['hidden']" in member.log and "left out: None" not in member.log


def test_a_worker_neither_saves_nor_evaluates_by_itself(tmp_path: Path) -> None:
    saves = """
import transformers
class Saves(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        control.should_save = control.should_evaluate = True
"""
    train = TRAIN.replace("use_cpu", "eval_on_start=True, use_cpu")
    train = train.replace("done = ", "trainer.add_callback(Saves())\ndone = ")
    with start(tmp_path, HEAD + saves + train) as member:
        member.begin()
        for step in range(3):
            member.step([step])
        assert member.end() == 0, member.log
    assert not list(tmp_path.glob("out/checkpoint*")) and "eval_loss" not in member.log


TOKENS = HEAD.replace("def forward(self, x, labels=None):", "def forward(self, x, labels=None, **more):")
TOKENS = TOKENS.replace(
    "F.cross_entropy(scores, labels)",
    'F.cross_entropy(scores, labels, reduction="sum") / more.get("num_items_in_batch", 1)',
).replace("y = (x[:, 0] > 0).long()", "y = (x[:, 0] > 0).long(); y[::3] = -100")


@pytest.mark.parametrize("across, weights", [(True, [2, 0, 1]), (False, [None] * 3)])
def test_a_batch_counts_as_much_as_the_trainer_counts_its_items(
    tmp_path: Path, across: bool, weights: list[int | None]
) -> None:
    script = (TOKENS + TRAIN).replace("use_cpu=True", f"use_cpu=True, average_tokens_across_devices={across}")
    with start(tmp_path, script, devices=2) as member:
        _, gradients = member.begin()
        for samples, weight in zip(([1, 2, 3], [3, 6], [3, 4]), weights):
            assert member.step(samples).get("weight") == weight
            if weight == 0:
                assert all(not member.tensor(gradients, t["name"]).any() for t in member.tensors)
        # Parts of one batch are weighed in the same way.
        whole = member.step([1, 2, 3, 4])
        expected = {t["name"]: member.tensor(gradients, t["name"]).clone() for t in member.tensors}
        parts = member.step([1, 2, 3, 4], micro_batch=2)
        for name, gradient in expected.items():
            assert across == torch.allclose(member.tensor(gradients, name), gradient, atol=1e-6), name
        assert across == (parts["loss"] == pytest.approx(whole["loss"]))
        assert member.end() == 0, member.log


def test_an_exception_in_the_model(tmp_path: Path) -> None:
    fails = HEAD.replace("scores = self.net(x)", "raise KeyError('column')")
    with start(tmp_path, fails + TRAIN) as member:
        member.begin()
        member.order([1])
        error = member.receive("error")
        line = 1 + fails.splitlines().index("        raise KeyError('column')")
        assert error["text"] == "KeyError: 'column'" and error["where"] == f"train.py:{line}"
        assert member.wait() == 1


def test_a_loop_with_accelerate(tmp_path: Path) -> None:
    loop = """
import paceline
from accelerate import Accelerator
torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = accelerator.prepare(Net())
job = paceline.join(model, torch.utils.data.TensorDataset(x, y), batch_size=16)
for inputs, targets in job:
    loss = model(inputs, targets)["loss"]
    accelerator.backward(loss)
    job.step(loss)
"""
    with start(tmp_path, HEAD + loop) as member:
        _, gradients = member.begin()
        for samples in ([5, 6], [7, 8, 9]):
            loss, expected = plain_gradient(samples)
            assert member.step(samples)["loss"] == loss
            for name, gradient in expected.items():
                assert torch.equal(member.tensor(gradients, name), gradient)
        assert member.end() == 0, member.log


@pytest.mark.parametrize("hook", ["step_end", "log", "epoch_end", "train_begin"])
@pytest.mark.parametrize("first", [True, False])
def test_a_callback_that_would_stop_one_worker(tmp_path: Path, hook: str, first: bool) -> None:
    stops = f"""
import transformers
class Stops(transformers.TrainerCallback):
    def on_{hook}(self, args, state, control, **_):
        if state.global_step in (0, 6):  # after the worker's even share, which is four steps
            control.should_training_stop = True
"""
    given = "compute_metrics=accuracy, callbacks=[Stops()])" if first else "compute_metrics=accuracy)"
    train = TRAIN.replace("compute_metrics=accuracy)", given).replace("use_cpu", "logging_steps=1, use_cpu")
    if not first:
        train = train.replace("done = ", "trainer.add_callback(Stops())\ndone = ")
    with start(tmp_path, HEAD + stops + train, devices=2) as member:
        member.begin()
        for step in range(7):
            member.order([step])
            answer = member.receive()
            if answer["type"] == "error":
                break
        assert "would stop one worker and not the job; set evaluate.stop_at_target" in answer["text"], member.log


@pytest.mark.parametrize("hook", ["step_begin", "step_end", "log"])
def test_a_callback_that_would_leave_samples_out(tmp_path: Path, hook: str) -> None:
    stops = f"""
import transformers
class Stops(transformers.TrainerCallback):
    def on_{hook}(self, args, state, control, **_):
        control.should_epoch_stop = True
"""
    train = TRAIN.replace("use_cpu", "logging_steps=1, use_cpu")
    train = train.replace("compute_metrics=accuracy)", "compute_metrics=accuracy, callbacks=[Stops()])")
    with start(tmp_path, HEAD + stops + train, devices=2) as member:
        member.begin()
        for step in range(4):
            member.order([step])
            answer = member.receive()
            if answer["type"] == "error":
                break
        assert "has set control.should_epoch_stop, and a job trains on every sample; " in answer["text"], member.log


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.net(x)
        return {"loss": scores.sum(), "logits": scores}


def trainer_of(folder: Path, **options: Any) -> Any:
    callbacks = options.pop("callbacks", [])
    args = TrainingArguments(str(folder), use_cpu=True, **options)
    data = [{"x": torch.zeros(2)}]
    return PacelineTrainer(Net(), args, train_dataset=data, eval_dataset=data, callbacks=callbacks)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"gradient_accumulation_steps": 4}, "gradient_accumulation_steps=4: a step of a job is one batch"),
        ({"max_steps": 10}, "max_steps=10: a job lasts a number of epochs"),
        ({"train_sampling_strategy": "sequential"}, "strategy='sequential': the job shuffles each epoch by its seed"),
        ({"train_sampling_strategy": "group_by_length"}, "strategy='group_by_length': the job draws each batch"),
        ({"bf16_full_eval": True}, "convert weights"),
        ({"auto_find_batch_size": True}, "a job's batch is fixed"),
        (
            {"load_best_model_at_end": True, "eval_strategy": "epoch", "save_strategy": "epoch"},
            "checkpoints are in its run folder",
        ),
        ({"callbacks": [EarlyStoppingCallback()]}, "would stop one worker and not the job"),
    ],
)
def test_what_a_trainer_may_not_ask_for(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    trainer = trainer_of(tmp_path, **options)
    with pytest.raises(PacelineError, match="^[^\n]*$") as error:
        refuse(trainer, (), {})
    assert says in str(error.value)


def test_a_stream_has_an_order_that_a_trainer_may_ask_for(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, train_sampling_strategy="sequential")
    trainer.train_dataset = Stream(Shards(["all"], lambda name: range(20)), shuffle=0, records=20)
    refuse(trainer, (), {})


def refuses(trainer: Any, says: str) -> None:
    with pytest.raises(PacelineError, match="^[^\n]*$") as error:
        trainer.train()
    assert says in str(error.value)


@pytest.mark.parametrize("method", ["create_scheduler", "create_optimizer", "get_train_dataloader"])
def test_an_override_before_the_job_s_own(tmp_path: Path, method: str) -> None:
    args = TrainingArguments(str(tmp_path), use_cpu=True)
    mine = type("Mine", (PacelineTrainer,), {method: lambda self, *_: None})
    says = (
        f"Mine overrides {method}(), and the job would not call it there; put your overrides in a class of Trainer's"
    )
    refuses(mine(Net(), args), says)
    own = type("Own", (Trainer,), {method: lambda self, *_: None})
    refuse_overrides(type("Mine", (PacelineTraining, own), {})(Net(), args), PacelineTraining)


def test_settings_of_a_gpu(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    trainer.args.fp16 = True
    with pytest.raises(PacelineError, match="loss scaler"):
        refuse(trainer, (), {})
    trainer.args.fp16, trainer.args._n_gpu = False, 2
    with pytest.raises(PacelineError, match="this process sees 2 GPUs"):
        refuse(trainer, (), {})


def test_a_job_is_not_resumed_from_a_checkpoint_of_the_trainer(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path, gradient_accumulation_steps=1, bf16=True)
    refuse(trainer, (), {})
    for arguments, named in ((["checkpoint-3"], {}), ([], {"resume_from_checkpoint": True})):
        with pytest.raises(PacelineError, match="--resume RUN"):
            refuse(trainer, arguments, named)
