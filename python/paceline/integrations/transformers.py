"""A Trainer of Hugging Face's transformers as a worker of a job.

    trainer = PacelineTrainer(model, TrainingArguments(num_train_epochs=3), train_dataset=train, eval_dataset=test)
    trainer.train()

Its training DataLoader is the job, and its optimizer's step is the job's. Nothing of transformers is patched.
Importing this in a worker lets it see one GPU, since a Trainer spreads each process over all that it sees.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Callable

import torch
import transformers
from transformers import TrainerCallback
from transformers.trainer_utils import TrainOutput, speed_metrics

from ..errors import PacelineError
from ..job import Job
from ..joining import join
from ..launching import launch
from ..optimizer_guard import Numbers
from ..reporting import reporter
from ..scheduler_steps import limit_steps
from ..session import session
from ..streams import Stream
from ..train_sets import check_train_set
from ..trees import leaves
from .batches import Batches
from .data_loaders import wishes_of
from .evaluated_stream import EvaluatedStream
from .home import home_in_stages, in_stages
from .item_weight import weighs_by_items
from .metric_names import shown
from .transformers_hints import hints
from .transformers_refusals import SEARCH, own_training_step, refuse, refuse_overrides, refuse_to_cut
from .visible_gpu import see_one

try:
    from transformers.trainer import align_special_tokens
except ImportError:  # a Trainer that has another way
    align_special_tokens = None

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object  # whichever class of Trainer's comes after it

if int(transformers.__version__.partition(".")[0]) < 5:
    raise PacelineError(
        f"this needs transformers 5 or newer, and not {transformers.__version__}; pip install -U transformers"
    )

see_one()

# Measures of the time that evaluate() took.
_TIMES = ("_runtime", "_per_second", "_preparation_time", "epoch")
# Settings of TrainingArguments that are the job's while it lasts.
_OF_THE_JOB = ("max_grad_norm", "eval_on_start")


class PacelineTraining(_Trainer):
    """Before a class of Trainer's own: class MyTrainer(PacelineTraining, SFTTrainer)."""

    train_dataset: Any

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.job: Job | None = None  # once train() has joined it
        self._batches: Batches | None = None
        self._loss: Any = None  # loss of the batch in hand
        self._numbers: Numbers | None = None  # numbers that callbacks, and the scheduler of the Trainer, may set
        self._weight: Any = None  # the number of items that the loss is a mean over; None: samples
        self._ignored: Any = None  # the outputs of the model that its evaluations leave out
        self._home: torch.device | None = None  # in a job with stages: where the program has built the model
        self._decides = _JobDecides(self)
        super().__init__(*arguments, **named)
        self._own_device = self.args.device
        self._home = home_in_stages(self.model)
        if self._home is not None:
            self._compute_on(self._home)
        self.callback_handler.callbacks.insert(1, _GoesOn())  # behind DefaultFlowCallback
        self.add_callback(self._decides)

    def add_callback(self, callback: Any) -> None:
        """The job decides after all callbacks."""
        super().add_callback(callback)
        callbacks = self.callback_handler.callbacks
        if self._decides in callbacks:
            callbacks.append(callbacks.pop(callbacks.index(self._decides)))

    def _validate_args(self) -> None:
        """Trainer wants to know the length of its data set, and a stream need not know it."""
        train_set = self.train_dataset
        if isinstance(train_set, Stream):
            self.train_dataset = None
        try:
            super()._validate_args()
        finally:
            self.train_dataset = train_set

    def create_accelerator_and_postprocess(self) -> None:
        """In a job with stages the model stays at home, and each stage moves the weights that it computes with."""
        super().create_accelerator_and_postprocess()
        if in_stages():
            self.accelerator.device_placement = False

    @property
    def place_model_on_device(self) -> bool:
        return self._places_model and not in_stages()

    @place_model_on_device.setter
    def place_model_on_device(self, places: bool) -> None:
        self._places_model = places

    def _compute_on(self, device: torch.device) -> None:
        """In a job with stages: batches go there."""
        if device != self.args.device:
            self.args.__dict__["_setup_devices"] = device  # which args.device returns
            self.accelerator.state.device = device

    def train(self, *arguments: Any, join_arguments: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Trainer's train() on Paceline. join_arguments are join()'s, such as digest and weights."""
        with reporter.reported():
            refuse(self, arguments, named)
            refuse_overrides(self, PacelineTraining)
        if session() is None:
            launch()
        self._ignored = named.get("ignore_keys_for_eval")
        self._align_tokens()
        before = {name: getattr(self.args, name) for name in _OF_THE_JOB}
        try:
            return self._train(arguments, named, dict(join_arguments or {}))
        finally:  # the program may save its settings
            for name, value in before.items():
                setattr(self.args, name, value)

    def _align_tokens(self) -> None:
        """The model gets the special tokens of its tokenizer, which the train() of Trainer gives no evaluator."""
        tokens = getattr(self, "processing_class", None)
        kinds = (transformers.PreTrainedTokenizerBase, transformers.ProcessorMixin)
        if align_special_tokens is not None and isinstance(tokens, kinds) and hasattr(self.model, "config"):
            align_special_tokens(self.model, tokens)

    def _train(self, arguments: tuple[Any, ...], named: dict[str, Any], join_arguments: dict[str, Any]) -> Any:
        self.job = self._join(join_arguments)
        if self.job.role == "evaluator":
            return self._train_nothing(self.job)
        if self._home is None:
            return super().train(*arguments, **named)
        self._compute_on(self._own_device)
        try:
            return super().train(*arguments, **named)
        finally:
            self._compute_on(self._home)

    @staticmethod
    def _train_nothing(job: Job) -> Any:
        """The evaluator returns what a worker does, so that a program finds the same metrics."""
        began = time.time()
        for _ in job:
            pass
        speed = speed_metrics("train", began, num_samples=0, num_steps=0)
        return TrainOutput(0, math.nan, {**speed, "total_flos": 0.0, "train_loss": math.nan, "epoch": 0.0})

    def _join(self, more: dict[str, Any]) -> Job:
        if self._home is not None:
            _checkpoint_activations(self.model, self.args)
        loader = super().get_train_dataloader()
        with reporter.reported():
            wishes = wishes_of(loader)
        batches = Batches(check_train_set(loader.dataset), wishes["batch_size"], wishes["drop_last"])
        if self.is_world_process_zero():
            for hint in hints(self.args, len(batches)):
                print(f"paceline: {hint}")
        # The rates of a step, counted as they are in training.
        steps = super().set_initial_training_values(self.args, batches)[-1]
        optimizer = super().create_optimizer()
        schedule = super().create_scheduler(num_training_steps=steps)
        asked = {
            "optimizer": optimizer,
            "schedule": schedule,
            "schedule_per": "step",
            "evaluate": None if self.eval_dataset is None else self._measure,
            "epochs": self.args.num_train_epochs,
            "clip": self.args.max_grad_norm or None,
            "_loss": self._loss_of_micro_batch,
            "_device": None if self._home is None else self._own_device,
        }
        job = join(self.model, loader.dataset, **{**asked, **wishes, **more})
        self.args.max_grad_norm = 0.0  # the servers clip
        self.args.eval_on_start = False  # the evaluator evaluates
        batches.follow(job)
        self._batches = batches
        return job

    def hyperparameter_search(self, *_: Any, **__: Any) -> Any:
        with reporter.reported():
            raise PacelineError(SEARCH)

    # The job instead of the loader.

    def get_train_dataloader(self) -> Any:
        return super().get_train_dataloader() if self._batches is None else self._batches

    def set_initial_training_values(self, *arguments: Any, **named: Any) -> Any:
        """The job says when training is over. A fast worker has more epochs of its own than the job."""
        _, *others = super().set_initial_training_values(*arguments, **named)
        return (sys.maxsize, *others)

    # The job instead of the optimizer.

    def create_optimizer(self, *arguments: Any, **named: Any) -> Any:
        optimizer = _Stepped(super().create_optimizer(*arguments, **named), self._step)
        self.optimizer, self._numbers = optimizer, Numbers(optimizer)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, *arguments: Any, **named: Any) -> Any:
        """A fast worker steps it more often than it has steps."""
        scheduler = super().create_scheduler(num_training_steps, *arguments, **named)
        limit_steps(scheduler, num_training_steps)
        return scheduler

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None, **named: Any) -> Any:
        assert self.job is not None
        self._weight = num_items_in_batch if self._weighs_by_items() else None
        with self.job.block_seeds():
            self._loss = super().training_step(model, inputs, num_items_in_batch, **named)
        return self._loss

    def _loss_of_micro_batch(self, model: Any, inputs: Any) -> Any:
        """The part of training_step() before its backward pass: what a job with stages calls."""
        refuse_to_cut(self)
        if self.job is not None:
            self.state.epoch = float(self.job.epoch)
        model.train()
        device = next((tensor.device for _, tensor in leaves(inputs)), self.args.device)
        if device.type != "meta":  # with which a job finds out where it can cut the model
            self._compute_on(device)
            inputs = self._prepare_inputs(inputs)
        # The Trainer prepares the model, for autocast, after a job has found its cuts and has measured it.
        prepared = getattr(model, "_is_accelerate_prepared", False)
        with self.compute_loss_context_manager(), nullcontext() if prepared else self.accelerator.autocast():
            count = self._get_num_items_in_batch([inputs], device)
            loss = self.compute_loss(model, inputs, num_items_in_batch=count)
        return loss, {}, count if self._weighs_by_items() else None

    def _weighs_by_items(self) -> bool:
        return bool(self.args.average_tokens_across_devices) and weighs_by_items(type(self))

    def _step(self) -> None:
        assert self.job is not None
        loss, self._loss = self._loss, None
        if loss is None:
            raise PacelineError(own_training_step(type(self)))
        assert self._numbers is not None
        with reporter.reported():
            self._numbers.check(self.lr_scheduler)
        self.job.step(loss, weight=self._weight)

    # The evaluator.

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        given = self.eval_dataset[eval_dataset] if isinstance(eval_dataset, str) else eval_dataset
        given = self.eval_dataset if given is None else given
        return super().get_eval_dataloader(EvaluatedStream(given) if isinstance(given, Stream) else eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        return super().get_test_dataloader(
            EvaluatedStream(test_dataset) if isinstance(test_dataset, Stream) else test_dataset
        )

    def _measure(self) -> dict[str, Any]:
        asked = {} if self._ignored is None else {"ignore_keys": self._ignored}  # evaluate() may be the person's own
        measured = {name: value for name, value in self.evaluate(**asked).items() if not name.endswith(_TIMES)}
        return shown(measured, "give the model labels, or the Trainer compute_metrics=")

    # Who writes: one process of the job.

    def is_world_process_zero(self) -> bool:
        here = session()
        return here is None or here.is_first

    def is_local_process_zero(self) -> bool:
        return self.is_world_process_zero()

    def save_model(self, *arguments: Any, **named: Any) -> None:
        if self.is_world_process_zero():
            super().save_model(*arguments, **named)


class PacelineTrainer(PacelineTraining, transformers.Trainer):
    """transformers.Trainer, as a worker of a job."""


def _checkpoint_activations(model: Any, args: Any) -> None:
    """Gradient checkpointing as Trainer.train() turns it on, which is after join() has computed the model."""
    word = "activation" if hasattr(args, "activation_checkpointing") else "gradient"  # older versions have the latter
    if not getattr(args, f"{word}_checkpointing"):
        return
    more = dict(getattr(args, f"{word}_checkpointing_kwargs") or {})
    apart = {}
    if word == "activation":
        apart = {"every_n_layers": more.pop("every_n_layers", 1), "offload": more.pop("offload", False)}
    if not hasattr(model, f"{word}_checkpointing_enable"):
        word = "gradient"
    getattr(model, f"{word}_checkpointing_enable")(**{f"{word}_checkpointing_kwargs": more or None}, **apart)


class _Stepped(torch.optim.Optimizer):
    """The optimizer's groups of parameters, with the job's step."""

    def __init__(self, optimizer: torch.optim.Optimizer, step: Callable[[], None]) -> None:
        # The Trainer's own scheduler sets the rates of these copies. The servers do not read them.
        super().__init__([dict(group) for group in optimizer.param_groups], dict(optimizer.defaults))
        self._step = step

    def step(self, closure: Any = None) -> Any:
        self._step()


class _GoesOn(TrainerCallback):
    """Undoes that DefaultFlowCallback ends training at a worker's even share of the steps."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        state.num_train_epochs = math.ceil(args.num_train_epochs)  # set_initial_training_values() says another number

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step >= state.max_steps:
            control.should_training_stop = False
        return control


class _JobDecides(TrainerCallback):
    """The job says when training ends. Its evaluator evaluates, and its servers save."""

    def __init__(self, trainer: PacelineTraining) -> None:
        self._trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        return self._decide(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        return self._decide(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._is_over(stopped=True)

    def _decide(self, control: Any) -> Any:
        if control.should_epoch_stop:
            raise PacelineError(
                "a callback has set control.should_epoch_stop, and a job trains on every sample; leave that out, and "
                "give train_dataset= the samples that are to be trained on"
            )
        control.should_training_stop = self._is_over(control.should_training_stop)
        control.should_evaluate = control.should_save = False
        return control

    def _is_over(self, stopped: bool) -> bool:
        batches = self._trainer._batches
        assert batches is not None
        over = batches.is_over()
        if stopped and not over:
            raise PacelineError(
                "a callback has set control.should_training_stop, which would stop one worker and not the job; set "
                "evaluate.stop_at_target in the job file"
            )
        return over
