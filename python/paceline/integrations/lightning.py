"""A LightningModule, trained by Lightning's own Trainer, as a worker of a job.

    trainer = lightning.Trainer(strategy=PacelineStrategy(), max_epochs=3)
    trainer.fit(module, train_loader, val_loader)

The strategy takes the place of the training DataLoader and of the optimizer's step. Nothing of Lightning is patched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.signature_utils import is_param_in_hook_signature
from torchmetrics import Metric

from ..devices import device
from ..errors import PacelineError
from ..job import Job
from ..joining import join
from ..launching import launch
from ..reporting import reporter
from ..scheduler_steps import SchedulerSteps
from ..session import session
from ..train_sets import check_train_set
from ..trees import leaves
from .batches import Batches
from .data_loaders import wishes_of
from .home import home_in_stages
from .host_turn import HostTurn
from .lightning_refusals import hints, refuse, refuse_model, refuse_to_cut
from .metric_names import shown


class PacelineStrategy(SingleDeviceStrategy):
    """Give it to a Trainer. Arguments are join()'s, such as digest= and weights=."""

    strategy_name = "paceline"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(device())
        self.job: Job | None = None  # once fit() has joined it
        # In a job with stages: the device that the program has built the model on, and the one that computes now.
        self._home: torch.device | None = None
        self._computes_on: torch.device | None = None
        self._arguments = arguments
        self._batches: Batches | None = None
        self._loader: Any = None  # the person's, for training
        self._loss: Any = None  # loss of the batch in hand
        self._stepped = True  # whether the batch in hand was stepped
        self._first_places: list[Any] = []  # each scheduler's
        self._epoch = 0  # the job's latest one
        self._max_epochs: int | None = None  # the person's
        self._hooks: list[Any] = []  # on parameters that the optimizer lacks
        self._turn = HostTurn()
        self._validates = False
        self._limit_val_batches: Any = 1.0
        self.lr_scheduler_configs: list[Any] = []

    @property
    def root_device(self) -> torch.device:
        return self._own_device if self._computes_on is None else self._computes_on

    @property
    def _own_device(self) -> torch.device:
        """A Trainer with accelerator="cpu" overrides device()."""
        named = super().root_device
        return torch.device("cpu") if isinstance(self.accelerator, CPUAccelerator) and named.type != "cpu" else named

    def model_to_device(self) -> None:
        """In a job with stages the model stays at home, and each stage moves the weights that it computes with."""
        self._home = home_in_stages(self.lightning_module)
        if self._home is None:
            super().model_to_device()
        else:
            self._compute_on(self._home)

    def _compute_on(self, device: torch.device) -> None:
        """In a job with stages: batches go there, and the module's `device` says so."""
        if device == self._computes_on:
            return
        self._computes_on = device
        for module in self.lightning_module.modules():
            if isinstance(module, LightningModule):
                module._device = device  # Lightning itself sets it before it moves a module
            if next(module.parameters(), None) is None and next(module.buffers(), None) is None:
                module.to(device)  # a metric has tensors that are neither

    # Who writes: one process of the job, as Lightning has it of rank 0.

    @property
    def is_global_zero(self) -> bool:
        here = session()
        return here is None or here.is_first

    def setup_environment(self) -> None:
        self._computes_on = None
        here, home = session(), home_in_stages(self.lightning_module)
        # An evaluator that computes on the CPU needs no context on a card.
        if here is None or here.role != "evaluator" or home is None or home.type != "cpu":
            super().setup_environment()
        trainer = self._trainer()
        if not trainer.training:
            return
        if self.job is not None:
            raise PacelineError(
                "fit() was called twice, and a program works for one job; train the other model in a script of its "
                "own, which loads what this one saves behind fit()"
            )
        with reporter.reported():
            refuse(trainer, self.precision_plugin)
        if here is None:
            launch()
        self._take_rank()
        # Lightning itself has one process of a host prepare the data, and the others wait.
        if any(is_overridden("prepare_data", one) for one in (trainer.datamodule, self.lightning_module) if one):
            self._turn.take(here.host_folder, "to prepare the data")
        self._take_over(trainer)

    def _take_rank(self) -> None:
        """Others than the first worker are any number but 0."""
        here = session()
        self.global_rank = rank_zero_only.rank = 0 if here is None or here.is_first else max(1, here.number)

    def barrier(self, name: str | None = None) -> None:
        if name == "pre_setup":  # the data are prepared
            self._turn.give()
        super().barrier(name)

    def _take_over(self, trainer: Trainer) -> None:
        kept = [callback for callback in trainer.callbacks if not isinstance(callback, Checkpoint)]
        if len(kept) < len(trainer.callbacks) and self.is_global_zero:
            print(
                "paceline: Lightning writes no checkpoints; those of the job are in its run folder. After fit() the "
                'module has the job\'s last weights: write trainer.test(module, ckpt_path=None), not "best"'
            )
        trainer.callbacks = [_EpochEnd(self), *kept]  # others then see weights that mean something
        # Validation is what the evaluator does when it is asked to.
        self._limit_val_batches = trainer.limit_val_batches
        self._validates = trainer.enable_validation
        if self._validates and self.is_global_zero:
            for hint in hints(trainer):
                print(f"paceline: {hint}")
        trainer.limit_val_batches = 0
        trainer.num_sanity_val_steps = 0

    def save_checkpoint(self, checkpoint: Any, filepath: Any, storage_options: Any = None) -> None:
        if self._batches is not None and self._batches.running:
            raise PacelineError(
                "a worker has no weights to save; the job's checkpoints are in its run folder: save after fit()"
            )
        super().save_checkpoint(checkpoint, filepath, storage_options)

    # The job instead of the loader.

    def process_dataloader(self, dataloader: object) -> object:
        if not self._trainer().training:
            return dataloader
        if self._batches is not None:
            raise PacelineError(
                "there are several training DataLoaders; a job leases the samples of one data set: give one loader, "
                "over a ConcatDataset"
            )
        with reporter.reported():
            wishes = wishes_of(dataloader)
        self._loader = dataloader
        self._batches = Batches(check_train_set(self._loader.dataset), wishes["batch_size"], wishes["drop_last"])
        return self._batches

    def setup(self, trainer: Trainer) -> None:
        self._turn.give()
        super().setup(trainer)
        if trainer.training:
            trainer.fit_loop.setup_data()  # calls process_dataloader(), if configure_optimizers() did not
            with reporter.reported():
                refuse_model(trainer, self)
            self.job = self._join(trainer)
            if self._home is not None and self.job.role == "worker":
                self._compute_on(self._own_device)
            # The servers clip and step the rate.
            trainer.gradient_clip_val = None
            self._first_places = [_place(config.scheduler) for config in self.lr_scheduler_configs]
            if trainer.lightning_module.automatic_optimization:
                self.lr_scheduler_configs = []
            for config in self.lr_scheduler_configs:
                if config.interval == "epoch":
                    SchedulerSteps(config.scheduler, self._epoch_allows)
            self._max_epochs = trainer.max_epochs

    def _join(self, trainer: Trainer) -> Job:
        schedule: dict[str, Any] = {}
        for config in self.lr_scheduler_configs:
            schedule = {"schedule": config.scheduler, "schedule_per": config.interval}
        if trainer.gradient_clip_val:
            self._hooks = _zero_others(self.lightning_module, self.optimizers[0])
        return join(
            self.lightning_module,
            self._loader.dataset,
            optimizer=self.optimizers[0],
            evaluate=self._validate if self._validates else None,
            epochs=None if trainer.max_epochs == -1 else trainer.max_epochs,
            clip=trainer.gradient_clip_val or None,
            _loss=self._loss_of_micro_batch,
            _device=None if self._home is None else self._own_device,
            **{**schedule, **wishes_of(self._loader), **self._arguments},
        )

    def on_train_start(self) -> None:
        """The evaluator stays here until the job is over."""
        assert self._batches is not None and self.job is not None
        self._batches.follow(self.job)
        self.stop_if_over()

    def check_stepped(self) -> None:
        if self.lightning_module.automatic_optimization and not self._stepped:
            raise PacelineError(
                "on_train_batch_start() has returned -1, and a job trains on every sample; leave that out, and give "
                "the training DataLoader the samples that are to be trained on"
            )

    def stop_if_over(self) -> None:
        assert self._batches is not None
        if self._batches.is_over():
            self._trainer().should_stop = True
            self._take_rank()  # another worker may write now

    def go_on(self) -> None:
        """A fast worker has more epochs than max_epochs, so the Trainer's number grows with them."""
        trainer = self._trainer()
        if not trainer.should_stop and trainer.max_epochs != -1:
            trainer.fit_loop.max_epochs = max(trainer.max_epochs, trainer.current_epoch + 2)

    def on_train_end(self) -> None:
        assert self._batches is not None
        if not self._batches.is_over():
            raise PacelineError(
                "trainer.should_stop = True would stop one worker and not the job; set evaluate.stop_at_target in "
                "the job file"
            )
        for hook in self._hooks:
            hook.remove()
        # validate() and test() may come after fit().
        self._trainer().limit_val_batches = self._limit_val_batches
        self._trainer().fit_loop.max_epochs = self._max_epochs
        if self._home is not None:  # the model is there again
            self._compute_on(self._home)

    # A part of a training step, for a job with stages.

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        assert self.job is not None
        with self.job.block_seeds():
            return super().training_step(*args, **kwargs)

    def _loss_of_micro_batch(self, module: Any, batch: Any) -> Any:
        """The result of training_step() for the batch, and all that it logs."""
        refuse_to_cut(module)
        if self.job is not None:
            self._trainer().fit_loop.epoch_progress.current.completed = self.job.epoch  # which current_epoch returns
        logged: dict[str, Any] = {}
        module.log = lambda name, value, *_, **__: logged.update({name: value})
        try:
            batch = self.precision_plugin.convert_input(batch)
            batch = self._batch_hook("on_before_batch_transfer")(batch, 0)
            computes_on = next((tensor.device for _, tensor in leaves(batch)), self.root_device)
            if computes_on.type != "meta":  # with which a job finds out where it can cut the model
                self._compute_on(computes_on)
                batch = self._batch_hook("transfer_batch_to_device")(batch, self.root_device, 0)
            batch = self._batch_hook("on_after_batch_transfer")(batch, 0)
            numbered = is_param_in_hook_signature(module.training_step, "batch_idx", min_args=2)
            with self.precision_plugin.train_step_context():
                result = module.training_step(batch, 0) if numbered else module.training_step(batch)
        finally:
            del module.log
        loss = result.get("loss") if isinstance(result, Mapping) else result
        if loss is None:
            raise PacelineError(
                "training_step() returned no loss; a job with stages cannot skip a part of a batch: return "
                'a loss, or write parallel = "data" in the job'
            )
        numbers = {name: _number_of(value) for name, value in logged.items()}
        return loss, {name: value for name, value in numbers.items() if isinstance(value, (torch.Tensor, int, float))}

    def _batch_hook(self, name: str) -> Callable[..., Any]:
        """The data module's if it has one of its own, as Lightning has it, and the module's otherwise."""
        data = self._trainer().datamodule
        hook: Callable[..., Any] = getattr(
            data if data and is_overridden(name, data) else self.lightning_module, name
        )
        return hook

    # The job instead of the optimizer.

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self._stepped = False

    def backward(self, closure_loss: torch.Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        loss = closure_loss.detach()
        self._loss = loss if self._loss is None else self._loss + loss
        assert self.job is not None
        with self.job.block_seeds():  # gradient checkpointing computes blocks again
            return super().backward(closure_loss, optimizer, *args, **kwargs)

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **kwargs: Any) -> Any:
        return super().optimizer_step(_Stepped(optimizer, self._step), closure, model, **kwargs)

    def _step(self) -> None:
        assert self.job is not None
        self._stepped = True
        self._check_schedule()
        loss, self._loss = self._loss, None
        if loss is None:  # training_step() returned None
            self.job.step(float("nan"), skipped=True)
        else:
            self.job.step(loss)

    def _epoch_allows(self, steps: int) -> bool:
        """A fast worker has more epochs of the Trainer than the job has, and steps its scheduler in each."""
        self._epoch = max(self._epoch, 0 if self.job is None else self.job.epoch)
        return steps <= self._epoch

    def _check_schedule(self) -> None:
        """In manual optimization the module steps its scheduler, or it has none."""
        assert self.job is not None
        if self.job.epoch < 1 or self._trainer().current_epoch < 1:
            return
        places = [_place(config.scheduler) for config in self.lr_scheduler_configs]
        if places and places == self._first_places and all(place is not None for place in places):
            raise PacelineError(
                "the module has automatic_optimization = False and did not step its scheduler for an epoch, and the "
                "servers do; call self.lr_schedulers().step(), or let configure_optimizers() return no scheduler"
            )

    # The evaluator.

    def _validate(self) -> Mapping[str, Any]:
        trainer = self._trainer()
        trainer.limit_val_batches = self._limit_val_batches
        trainer.validating = True
        try:
            of_loaders = trainer.fit_loop.epoch_loop.val_loop.run()
        finally:
            trainer.training = True
            trainer.limit_val_batches = 0
        measured = {name: value for one in of_loaders for name, value in one.items()}
        return shown(measured, "call self.log('val_loss', ...) in validation_step()")

    def _trainer(self) -> Trainer:
        module: LightningModule = self.lightning_module
        return module.trainer


def _zero_others(module: torch.nn.Module, optimizer: Any) -> list[Any]:
    """Makes the gradient of each parameter that the optimizer lacks zero, and returns the hooks that do so.

    Lightning clips by the norm of the optimizer's parameters, and the servers by that of the whole gradient.
    """
    stepped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    others = [one for one in module.parameters() if one.requires_grad and id(one) not in stepped]
    return [one.register_hook(torch.zeros_like) for one in others]  # type: ignore[no-untyped-call]


def _number_of(logged: Any) -> Any:
    """The number of this batch, if a metric of torchmetrics was logged."""
    if not isinstance(logged, Metric):
        return logged
    number = logged._forward_cache  # Lightning itself logs this
    if number is None:  # the module has called update() alone
        number = logged.compute()
        logged.reset()
    return number


def _place(scheduler: Any) -> Any:
    """A value that differs once the scheduler is stepped; None if it does not say."""
    place = getattr(scheduler, "last_epoch", None)
    return None if place is None else (place, getattr(scheduler, "T_cur", None))


class _Stepped:
    """The optimizer, as Lightning's precision plugin steps it."""

    def __init__(self, optimizer: Any, step: Callable[[], None]) -> None:
        self._optimizer = optimizer
        self._step = step

    def step(self, closure: Callable[[], Any], **_: Any) -> Any:
        result = closure()
        self._step()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


class _EpochEnd(Callback):
    """Decides before the end of an epoch whether another one begins."""

    def __init__(self, strategy: PacelineStrategy) -> None:
        self._strategy = strategy

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._strategy.check_stepped()
        self._strategy.stop_if_over()
        self._strategy.go_on()
