"""Refusals of a Lightning Trainer, its module and its loader, without a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler  # noqa: E402

from paceline import PacelineError  # noqa: E402
from paceline.integrations.lightning import PacelineStrategy  # noqa: E402
from paceline.integrations.lightning_refusals import hints, refuse, refuse_model  # noqa: E402


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 2)

    def training_step(self, batch: Any, index: int) -> Any:
        return self.net(batch[0]).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer_of(**options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "max_epochs": 1}
    return lightning.Trainer(strategy=PacelineStrategy(), accelerator="cpu", **{**quiet, **options})


def callbacks() -> Iterator[tuple[dict[str, Any], str]]:
    from lightning.pytorch import callbacks as known

    yield {"callbacks": [known.EarlyStopping("val_loss")]}, "EarlyStopping would stop one worker"
    yield {"callbacks": [known.Timer("00:00:01:00")]}, "Timer (max_time=) would stop one worker"
    yield {"callbacks": [known.StochasticWeightAveraging(0.1)]}, "averages weights that the servers step"
    own = type("Ema", (known.StochasticWeightAveraging,), {})
    yield {"callbacks": [own(0.1)]}, "Ema averages weights that the servers step"
    yield {"callbacks": [known.LearningRateFinder()]}, "LearningRateFinder takes steps of its own"
    yield {"callbacks": [known.BatchSizeFinder()]}, "BatchSizeFinder takes steps of its own"
    yield {"callbacks": [known.BackboneFinetuning()]}, "BackboneFinetuning unfreezes parameters"
    yield {"callbacks": [known.GradientAccumulationScheduler({0: 2})]}, "a step of a job is one batch"


@pytest.mark.parametrize(
    "options, says",
    [
        ({"accumulate_grad_batches": 4}, "accumulate_grad_batches=4): a step of a job is one batch"),
        ({"max_steps": 10}, "give max_epochs alone"),
        ({"max_time": "00:00:01:00"}, "leave it out, and write `timeout 8h` before the command"),
        ({"min_epochs": 1}, "give max_epochs alone"),
        ({"limit_train_batches": 0.5}, "trains on every sample"),
        ({"limit_train_batches": 1}, "trains on every sample"),  # one batch
        ({"reload_dataloaders_every_n_epochs": 2}, "every_n_epochs=2): a job leases the samples of one data set"),
        ({"overfit_batches": 1}, "trains on every sample"),
        ({"sync_batchnorm": True}, "each worker normalizes with its own batch"),
        ({"fast_dev_run": True}, "give max_epochs alone"),
        ({"gradient_clip_val": 1.0, "gradient_clip_algorithm": "value"}, "clip by the norm"),
        *callbacks(),
    ],
)
def test_what_a_trainer_may_not_ask_for(options: dict[str, Any], says: str) -> None:
    trainer = trainer_of(**options)
    with pytest.raises(PacelineError, match="^[^\n]*$") as error:
        refuse(trainer, trainer.strategy.precision_plugin)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"check_val_every_n_epoch": 2}, ["write --set evaluate.every_epochs=2"]),
        ({"val_check_interval": 0.25}, ["write --set evaluate.every_epochs=0.25"]),
        ({"val_check_interval": 1}, ["val_check_interval=1 has no effect"]),  # 1 is one batch
        ({"val_check_interval": 100}, ["write --set evaluate.every_epochs=EPOCHS, which may be a fraction"]),
        ({"val_check_interval": 100, "check_val_every_n_epoch": None}, ["val_check_interval=100 has no effect"]),
        ({}, []),
    ],
)
def test_the_job_s_names_for_settings_without_an_effect(options: dict[str, Any], says: list[str]) -> None:
    told = list(hints(trainer_of(**options)))
    assert len(told) == len(says) and all(part in line for line, part in zip(told, says)), told


def test_a_search_for_a_rate() -> None:
    from lightning.pytorch.tuner import Tuner

    with pytest.raises(PacelineError, match="LearningRateFinder .*; let it search in a script without the strategy"):
        Tuner(trainer_of()).lr_find(Module(), DataLoader(TensorDataset(torch.zeros(8, 2)), 4))


def test_a_trainer_on_the_cpu_of_a_host_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.integrations.lightning.device", lambda: torch.device("cuda:0"))
    strategy = PacelineStrategy()
    assert strategy.root_device == torch.device("cuda:0")
    trainer = lightning.Trainer(strategy=strategy, accelerator="cpu", logger=False, enable_checkpointing=False)
    assert trainer.strategy is strategy and strategy.root_device == torch.device("cpu")


def test_a_loss_scaler() -> None:
    from lightning.pytorch.plugins import MixedPrecision

    trainer = trainer_of(plugins=[MixedPrecision("16-mixed", "cpu")])
    with pytest.raises(PacelineError, match="loss scaler"):
        refuse(trainer, trainer.strategy.precision_plugin)


def test_a_usual_trainer_is_not_refused() -> None:
    trainer = trainer_of(gradient_clip_val=1.0, precision="bf16-mixed", check_val_every_n_epoch=2)
    refuse(trainer, trainer.strategy.precision_plugin)


class Steps(Module):
    def optimizer_step(self, *arguments: Any, **named: Any) -> None:
        super().optimizer_step(*arguments, **named)


class Two(Module):
    automatic_optimization = False

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(self.parameters(), lr=0.1), torch.optim.SGD(self.parameters(), lr=0.1)]


class Seldom(Module):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "frequency": 3}}


class Schedules(Module):
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        scheduler.step()


class Clips(Module):
    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)


@pytest.mark.parametrize(
    "module, says",
    [
        (Steps, "optimizer_step() of its own"),
        (Schedules, "lr_scheduler_step() of its own"),
        (Two, "returned 2 optimizers"),
        (Seldom, "frequency is 3"),
    ],
)
def test_what_a_module_may_not_do(module: Any, says: str) -> None:
    trainer = trainer_of()
    made = made_ready(trainer, module())
    with pytest.raises(PacelineError) as error:
        refuse_model(trainer, made)
    assert says in str(error.value)


def test_a_module_that_clips_and_a_trainer_that_does() -> None:
    trainer = trainer_of(gradient_clip_val=0.1)
    made = made_ready(trainer, Clips())
    with pytest.raises(
        PacelineError, match=r"configure_gradient_clipping\(\) of its own, .*; leave one of the two out"
    ):
        refuse_model(trainer, made)


def made_ready(trainer: Any, module: Any) -> Any:
    trainer.strategy.connect(module)
    module.trainer = trainer
    trainer.strategy.setup_optimizers(trainer)
    return trainer.strategy


@pytest.mark.parametrize(
    "options, says",
    [
        ({"sampler": WeightedRandomSampler([1.0] * 10, 10)}, "has a WeightedRandomSampler"),
        (
            {"sampler": SubsetRandomSampler(range(3, 9))},
            "a SubsetRandomSampler, which leaves samples out, and Paceline leases all of the data set; give the "
            "DataLoader torch.utils.data.Subset(dataset, sampler.indices), with shuffle=True",
        ),
        ({"batch_size": None}, "in a way of its own"),
    ],
)
def test_what_a_loader_may_not_do(options: dict[str, Any], says: str) -> None:
    from paceline.integrations.data_loaders import wishes_of

    data = TensorDataset(torch.zeros(10, 2))
    with pytest.raises(PacelineError) as error:
        wishes_of(DataLoader(data, **options))
    assert says in str(error.value)


class Halving(DataLoader):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield [batch[0] / 2]


def test_a_loader_that_changes_its_batches() -> None:
    from paceline.integrations.data_loaders import wishes_of

    with pytest.raises(
        PacelineError, match=r"a Halving with an __iter__\(\) of its own, .*; do that work in collate_fn="
    ):
        wishes_of(Halving(TensorDataset(torch.zeros(10, 2)), 2))


def test_what_a_loader_wishes() -> None:
    from paceline.integrations.data_loaders import wishes_of

    loader = DataLoader(TensorDataset(torch.zeros(10, 2)), 5, shuffle=True, drop_last=True)
    plain = {"batch_size": 5, "collate_fn": loader.collate_fn, "drop_last": False}
    assert wishes_of(loader) == {**plain, "pin_memory": False}
    assert wishes_of(DataLoader(TensorDataset(torch.zeros(10, 2)), 5, pin_memory=True))["pin_memory"]
    assert wishes_of(DataLoader(TensorDataset(torch.zeros(10, 2)), 3, drop_last=True))["drop_last"]
    loader = DataLoader(TensorDataset(torch.zeros(10, 2)), 5, num_workers=2, prefetch_factor=3)
    wishes = wishes_of(loader)
    assert (wishes["num_workers"], wishes["prefetch_factor"]) == (2, 3)
