"""The model and the settings of a Trainer of transformers, as a job leaves them."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest

pytest.importorskip("transformers")
from test_transformers import HEAD, TRAIN, Net, start, trainer_of  # noqa: E402
from transformers import Trainer, TrainingArguments  # noqa: E402

from paceline import PacelineError  # noqa: E402
from paceline.integrations.transformers import PacelineTraining  # noqa: E402
from paceline.integrations.transformers_hints import hints  # noqa: E402
from paceline.integrations.transformers_refusals import refuse, refuse_overrides  # noqa: E402


def test_a_model_gets_the_special_tokens_of_its_tokenizer(tmp_path: Path) -> None:
    import tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from paceline.integrations.transformers import PacelineTraining

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "end": 1}, unk_token="a"))
    trainer = SimpleNamespace(
        model=GPT2LMHeadModel(GPT2Config(vocab_size=2, n_positions=4, n_embd=2, n_layer=1, n_head=1)),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=words, eos_token="end", pad_token="end"),
    )
    assert trainer.model.config.pad_token_id is None
    PacelineTraining._align_tokens(trainer)  # type: ignore[arg-type]
    assert trainer.model.config.pad_token_id == 1
    own = """
class PacelineTrainer(PacelineTrainer):
    def _align_tokens(self):
        print("aligned")
"""
    with start(tmp_path, HEAD + own + TRAIN, role="evaluator", name="evaluator") as member:
        member.begin()
        assert member.end() == 0, member.log
    assert "aligned" in member.log


def test_settings_that_are_the_job_s_come_back(tmp_path: Path) -> None:
    ends = '\nprint("norm after:", trainer.args.max_grad_norm, trainer.args.eval_on_start)\n'
    with start(tmp_path, HEAD + TRAIN.replace("use_cpu", "eval_on_start=True, use_cpu") + ends) as member:
        member.begin()
        member.step([1])
        assert member.end() == 0, member.log
    assert "norm after: 0.5 True" in member.log


def test_an_even_share_has_no_samples_that_are_left_out() -> None:
    from paceline.integrations.batches import Batches

    assert [len(Batches(100, 32, drop_last)) for drop_last in (False, True)] == [4, 3]
    assert len(Batches(10, 32, True)) == 1


def test_a_callback_is_told_the_epochs_that_the_person_wrote(tmp_path: Path) -> None:
    says = """
import transformers
class Says(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **_):
        print("begin", state.num_train_epochs, state.max_steps)
    def on_step_end(self, args, state, control, **_):
        print("end", state.num_train_epochs, state.max_steps)
"""
    train = TRAIN.replace("compute_metrics=accuracy)", "compute_metrics=accuracy, callbacks=[Says()])")
    with start(
        tmp_path, HEAD + says + train.replace("num_train_epochs=2", "num_train_epochs=1.5"), devices=2
    ) as member:
        member.begin()
        member.step([1])
        assert member.end() == 0, member.log
    assert "begin 2 3" in member.log and "end 2 3" in member.log
    assert "paceline: save_steps=1 has no effect: " in member.log and "checkpoint.every_epochs=0.5\n" in member.log


def test_the_evaluator_returns_the_metrics_that_a_worker_does(tmp_path: Path) -> None:
    says = (
        '\nprint("metrics:", sorted(done.metrics), done.training_loss)\ntrainer.log_metrics("train", done.metrics)\n'
    )
    said = []
    for role in ("worker", "evaluator"):
        with start(tmp_path, HEAD + TRAIN + says, role=role) as member:
            member.begin()
            if role == "worker":
                member.step([1])
            assert member.end() == 0, member.log
        [line] = [line for line in member.log.splitlines() if line.startswith("metrics:")]
        said.append(line.rsplit(" ", 1))
    assert said[0][0] == said[1][0] and "train_loss" in said[0][0]
    assert said[0][1] != "nan" and said[1][1] == "nan"


def expect_refused(asks: Callable[[], None], says: str) -> None:
    with pytest.raises(PacelineError, match="^[^\n]*$") as error:
        asks()
    assert says in str(error.value)


@pytest.mark.parametrize(
    "options, says",
    [
        (
            {"accelerator_config": {"split_batches": True}},
            "divide per_device_train_batch_size by the number of devices",
        ),
        ({"enable_jit_checkpoint": True}, "the job writes a checkpoint when its command gets SIGTERM; leave it out"),
    ],
)
def test_what_a_worker_cannot_do_for_its_trainer(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        expect_refused(lambda: refuse(trainer_of(tmp_path, **options), (), {}), says)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_loss_scaler_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tmp_path)
    monkeypatch.setattr(trainer.accelerator.state, "_mixed_precision", "fp16")  # accelerate refuses it without a GPU
    says = "ACCELERATE_MIXED_PRECISION=fp16 in the environment: the Trainer's loss scaler steps"
    expect_refused(lambda: refuse(trainer, (), {}), says)


def test_a_search_for_hyperparameters(tmp_path: Path) -> None:
    search = trainer_of(tmp_path).hyperparameter_search
    expect_refused(lambda: search(n_trials=2), "hyperparameter_search() trains many models, and a program works for")


@pytest.mark.parametrize(
    "options, says",
    [
        ({"eval_strategy": "steps", "eval_steps": 50}, ["write --set evaluate.every_epochs=0.25"]),
        ({"eval_strategy": "steps", "eval_steps": 0.1}, ["write --set evaluate.every_epochs=0.3"]),
        ({"eval_strategy": "epoch"}, []),
        ({"save_steps": 400}, ["write --set checkpoint.every_epochs=2"]),
        ({"save_strategy": "no", "save_steps": 400}, []),
        ({"save_strategy": "best", "metric_for_best_model": "loss"}, ["leave it out"]),
        ({"save_total_limit": 5}, ["write --set checkpoint.keep=5"]),
        ({}, []),
    ],
)
def test_the_job_s_names_for_settings_without_an_effect(
    tmp_path: Path, options: dict[str, Any], says: list[str]
) -> None:
    args = TrainingArguments(str(tmp_path), use_cpu=True, num_train_epochs=3, **options)
    told = list(hints(args, 200))
    assert len(told) == len(says) and all(end in line for line, end in zip(told, says)), told


@pytest.mark.parametrize("behind", [True, False])
def test_a_method_that_makes_both_the_optimizer_and_its_scheduler(tmp_path: Path, behind: bool) -> None:
    body: dict[str, Any] = {"create_optimizer_and_scheduler": lambda self, num_training_steps: None}
    own = type("Own", (Trainer,), body) if behind else Trainer
    mine = type("Mine", (PacelineTraining, own), {} if behind else body)
    trainer = mine(Net(), TrainingArguments(str(tmp_path), use_cpu=True))
    says = f"{'Own' if behind else 'Mine'} overrides create_optimizer_and_scheduler(), which the job does not call; "
    expect_refused(lambda: refuse_overrides(trainer, PacelineTraining), says)
