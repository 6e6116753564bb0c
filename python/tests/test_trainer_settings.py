"""The model and the settings of a Trainer of transformers, as a job leaves them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")

from test_transformers import HEAD, TRAIN, start  # noqa: E402


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
