"""Small models of well-known packages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import torch
from part import Part, labelled_picture, labelled_words, positional, random_rows
from torch import nn


def of_transformers() -> Iterator[Part]:
    if importlib.util.find_spec("transformers") is None:
        return
    import transformers as hf

    words = torch.tensor([[1, 2, 3, 4], [4, 5, 2, 1]])
    plain = dict(vocab_size=12, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    deep = dict(d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2)
    deep |= dict(vocab_size=12, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32)
    special = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    image = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
    image |= dict(image_size=8, patch_size=4)
    few = dict(num_key_value_heads=1, head_dim=8)
    experts = dict(num_local_experts=2, num_experts_per_tok=1)
    text = labelled_words(words)
    picture, larger = labelled_picture(8), labelled_picture(64)
    for name, config, given, inputs in (
        ("BertForMaskedLM", "BertConfig", plain, text),
        ("RobertaForMaskedLM", "RobertaConfig", {**plain, "pad_token_id": 0}, text),
        ("ElectraForMaskedLM", "ElectraConfig", {**plain, "embedding_size": 16}, text),
        ("AlbertForMaskedLM", "AlbertConfig", {**plain, "embedding_size": 8}, text),
        ("DebertaV2ForMaskedLM", "DebertaV2Config", plain, text),
        ("DistilBertForMaskedLM", "DistilBertConfig", dict(vocab_size=12, dim=16, n_layers=1, n_heads=2), text),
        ("GPT2LMHeadModel", "GPT2Config", dict(vocab_size=12, n_embd=16, n_layer=2, n_head=2, **special), text),
        ("GPTNeoXForCausalLM", "GPTNeoXConfig", plain, text),
        ("OPTForCausalLM", "OPTConfig", dict(vocab_size=12, hidden_size=16, ffn_dim=16, num_hidden_layers=1,
                                             num_attention_heads=2, word_embed_proj_dim=16, **special), text),
        ("BloomForCausalLM", "BloomConfig", dict(vocab_size=12, hidden_size=16, n_layer=1, n_head=2), text),
        ("LlamaForCausalLM", "LlamaConfig", {**plain, **few, **special}, text),
        ("MistralForCausalLM", "MistralConfig", {**plain, **few, **special}, text),
        ("MixtralForCausalLM", "MixtralConfig", {**plain, **few, **experts, **special}, text),
        ("Qwen2ForCausalLM", "Qwen2Config", {**plain, "num_key_value_heads": 1, **special}, text),
        ("Gemma2ForCausalLM", "Gemma2Config", {**plain, **few, **special}, text),
        ("PhiForCausalLM", "PhiConfig", {**plain, **special}, text),
        ("MambaForCausalLM", "MambaConfig", {**plain, **special}, text),
        ("T5ForConditionalGeneration", "T5Config", dict(vocab_size=12, d_model=16, d_kv=8, d_ff=16, num_layers=1,
                                                        num_heads=2, decoder_start_token_id=0, **special), text),
        ("BartForConditionalGeneration", "BartConfig", {**deep, **special, "decoder_start_token_id": 2}, text),
        ("ViTForImageClassification", "ViTConfig", image, picture),
        ("DeiTForImageClassification", "DeiTConfig", image, picture),
        ("BeitForImageClassification", "BeitConfig", image, picture),
        ("SwinForImageClassification", "SwinConfig", dict(image_size=16, patch_size=2, embed_dim=8, depths=[1, 1],
                                                          num_heads=[1, 2], window_size=2), labelled_picture(16)),
        ("ResNetForImageClassification", "ResNetConfig", dict(embedding_size=8, hidden_sizes=[8, 8, 8, 8],
                                                              depths=[1, 1, 1, 1]), larger),
        ("ConvNextForImageClassification", "ConvNextConfig", dict(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]), larger),
    ):  # fmt: skip
        if hasattr(hf, name):
            made = lambda n=name, c=config, g=given: getattr(hf, n)(getattr(hf, c)(**g))  # noqa: E731
            yield Part("transformers", name, made, inputs)


def of_other_packages() -> Iterator[Part]:
    """Packages that this Python may have."""
    picture = positional(random_rows(2, 3, 64, 64))
    if importlib.util.find_spec("torchvision"):
        import torchvision

        for name in ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "efficientnet_b0"):
            make = getattr(torchvision.models, name)
            yield Part("torchvision", name, lambda make=make: make(num_classes=3), picture)
    if importlib.util.find_spec("timm"):
        import timm

        for name in ("resnet10t", "mobilenetv3_small_050", "test_vit", "test_convnext", "test_efficientnet"):
            yield Part("timm", name, lambda name=name: timm.create_model(name, num_classes=3), picture)
    if importlib.util.find_spec("peft") and importlib.util.find_spec("transformers"):
        import peft
        import transformers as hf

        words = torch.tensor([[1, 2, 3, 4], [4, 5, 2, 1]])
        small = dict(vocab_size=12, n_embd=16, n_layer=1, n_head=2, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        for name, config in {
            "LoRA": peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True),
            "DoRA": peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, use_dora=True),
            "IA3": peft.IA3Config(target_modules=["c_attn"], feedforward_modules=[], fan_in_fan_out=True),
        }.items():
            yield Part(
                "peft",
                name,
                lambda c=config: peft.get_peft_model(hf.GPT2LMHeadModel(hf.GPT2Config(**small)), c),
                lambda: ((words,), {"labels": words}),
            )
    if importlib.util.find_spec("torchmetrics") and importlib.util.find_spec("lightning"):
        import torchmetrics

        yield Part(
            "torchmetrics",
            "a metric within the model",
            lambda: _Measured(torchmetrics.MeanSquaredError()),
            positional(random_rows(5, 6)),
        )


def of_packages_for_pictures_and_graphs() -> Iterator[Part]:
    picture = positional(random_rows(2, 3, 64, 64))
    if importlib.util.find_spec("diffusers"):
        import diffusers

        blocks = dict(
            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")
        )
        small = dict(block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1)
        noisy = positional(random_rows(2, 3, 16, 16), torch.tensor([3, 5]))
        yield Part(
            "diffusers",
            "UNet2DModel",
            lambda: diffusers.UNet2DModel(sample_size=16, attention_head_dim=4, **blocks, **small),
            noisy,
        )
        yield Part(
            "diffusers",
            "AutoencoderKL",
            lambda: diffusers.AutoencoderKL(latent_channels=2, **small | {"block_out_channels": (8,)}),
            positional(random_rows(2, 3, 16, 16)),
        )
        yield Part(
            "diffusers",
            "Transformer2DModel",
            lambda: diffusers.Transformer2DModel(2, 8, in_channels=4, num_layers=1, norm_num_groups=2),
            positional(random_rows(2, 4, 8, 8)),
        )
    if importlib.util.find_spec("torch_geometric"):
        from torch_geometric.nn import models

        graph = positional(random_rows(5, 6), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
        for name in ("GCN", "GAT", "GIN", "GraphSAGE"):
            make = getattr(models, name)
            yield Part("torch_geometric", name, lambda make=make: make(6, 8, 2, 3, norm="batch"), graph)
    if importlib.util.find_spec("monai"):
        from monai.networks import nets

        volume = positional(random_rows(2, 1, 16, 16, 16))
        yield Part("monai", "UNet", lambda: nets.UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2)), volume)
        yield Part(
            "monai", "SegResNet", lambda: nets.SegResNet(init_filters=8, blocks_down=(1, 1), blocks_up=(1,)), volume
        )
    if importlib.util.find_spec("segmentation_models_pytorch"):
        import segmentation_models_pytorch as segmentation

        for name in ("Unet", "FPN", "DeepLabV3Plus"):
            make = getattr(segmentation, name)
            yield Part(
                "segmentation_models_pytorch", name, lambda make=make: make("resnet18", encoder_weights=None), picture
            )


def of_packages_for_text() -> Iterator[Part]:
    picture = positional(random_rows(2, 3, 64, 64))
    if importlib.util.find_spec("open_clip"):
        from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

        eye = CLIPVisionCfg(layers=1, width=32, head_width=16, patch_size=8, image_size=16)
        text = CLIPTextCfg(context_length=4, vocab_size=12, width=16, heads=2, layers=1)
        both = positional(random_rows(2, 3, 16, 16), torch.tensor([[1, 2, 3, 4], [4, 5, 2, 11]]))
        yield Part("open_clip", "CLIP", lambda: CLIP(8, eye, text), both)
    if importlib.util.find_spec("x_transformers"):
        import x_transformers

        made = lambda: x_transformers.TransformerWrapper(  # noqa: E731
            num_tokens=12,
            max_seq_len=4,
            attn_layers=x_transformers.Decoder(dim=16, depth=2, heads=2, rotary_pos_emb=True),
        )
        yield Part("x_transformers", "Decoder", made, positional(torch.tensor([[1, 2, 3, 4], [4, 5, 2, 1]])))
    if importlib.util.find_spec("kornia"):
        from kornia.augmentation import RandomHorizontalFlip

        flipped = lambda: nn.Sequential(RandomHorizontalFlip(), nn.Conv2d(3, 4, 3))  # noqa: E731
        yield Part("kornia", "an augmentation within the model", flipped, picture)


class _Measured(nn.Module):
    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.linear, self.metric = nn.Linear(6, 4), metric

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.metric.update(y.detach(), torch.zeros_like(y))
        return y
