"""Models of transformers with dropout, tied weights and gradient checkpointing: every cut computes the same bits."""

from __future__ import annotations

from typing import Callable

import pytest
import torch
from stage_models import SAMPLES, Case, _language, llama, t5, vit
from test_stages import check_every_cut

pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not hasattr(torch, "compile"), reason="stages need PyTorch 2.0 or later")


def tied_llama() -> Case:
    return llama(layers=3, tied=True)


def gpt2_with_a_mask() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=3, n_head=2, embd_pdrop=0.2)
    return _language(GPT2LMHeadModel(config), masked=True)


def whisper() -> Case:
    """Draws the masks of SpecAugment before its blocks, on the CPU by NumPy."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=64,
        num_mel_bins=8,
        d_model=16,
        encoder_layers=3,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=10,
        max_target_positions=16,
        dropout=0.1,
        attention_dropout=0.1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        apply_spec_augment=True,
        mask_time_prob=0.5,
        mask_time_length=2,
        mask_time_min_masks=1,
    )
    data = torch.utils.data.TensorDataset(torch.randn(SAMPLES, 8, 20), torch.randint(3, 64, (SAMPLES, 7)))
    return (
        WhisperForConditionalGeneration(config),
        data,
        lambda model, batch: model(input_features=batch[0], labels=batch[1]).loss,
    )


@pytest.mark.parametrize("case", [tied_llama, gpt2_with_a_mask, t5, whisper, vit])
def test_a_cut_model_with_checkpoints_computes_the_same_bits(case: Callable[[], Case]) -> None:
    def checkpointed() -> Case:
        model, train_set, loss = case()
        model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        assert model.is_gradient_checkpointing
        return model, train_set, loss

    check_every_cut(checkpointed)
