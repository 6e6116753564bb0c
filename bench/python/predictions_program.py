"""Ten small models for `./dev bench predictions`: predictions_program.py MODEL UPDATES.

At the end each process writes the most memory that it had to a file of the folder PREDICTIONS, if there is one.
It does not count what it had before its first micro-batch,
nor the copy of the weights that it gets when the run ends. Beside it is how much of this it kept between two batches.
`predictions_program.py MODEL kernels` prints what PyTorch keeps once a process has computed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import torch
from models import Block
from torch import nn
from torch.nn import functional as F

VOCABULARY, LENGTH, CLASSES = 512, 64, 10
TEXT = (LENGTH,)


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.lstm(x)[0]


class LowRank(nn.Module):
    """LoRA (Hu et al. 2021): a frozen layer beside a trained product of two small ones."""

    def __init__(self, base: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def perceptron() -> nn.Module:
    hidden = [layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(1024, CLASSES))


def recurrent() -> nn.Module:
    embedding: list[nn.Module] = [nn.Embedding(VOCABULARY, 192)]
    return nn.Sequential(*embedding, *(Recurrent(192) for _ in range(4)), nn.Linear(192, VOCABULARY))


def residual() -> nn.Module:
    """ResNet-18 for small images, with half its widths."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    inputs = 32
    for stage, width in enumerate((32, 64, 128, 256)):
        for block in range(2):
            layers.append(Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2 * LENGTH,
    "use_cache": False,
}


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**DECODER))


def mistral() -> nn.Module:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**DECODER, sliding_window=LENGTH // 2))


def qwen() -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**DECODER, tie_word_embeddings=True))


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=256, n_layer=6, n_head=4, use_cache=False)
    )


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=192,
            num_hidden_layers=6,
            num_attention_heads=3,
            intermediate_size=768,
            image_size=32,
            patch_size=4,
            num_labels=CLASSES,
        )
    )


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=VOCABULARY,
            d_model=256,
            d_ff=1024,
            num_layers=6,
            num_decoder_layers=2,
            num_heads=4,
            d_kv=64,
            use_cache=False,
            decoder_start_token_id=0,
        )
    )


def lora() -> nn.Module:
    model = llama().requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, LowRank(getattr(layer.self_attn, name)))
    return model


def of_ids(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    loss: torch.Tensor = model(input_ids=batch[0], labels=batch[0]).loss
    return loss


def of_images(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    scores = model(batch[0])
    return F.cross_entropy(getattr(scores, "logits", scores), batch[1])


def of_next(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[0].flatten())


@dataclass(frozen=True)
class Subject:
    make: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Sequence[torch.Tensor]], torch.Tensor]
    shape: tuple[int, ...]  # shape of a sample; only the length of a text
    batch: int
    micro_batch: int

    def samples(self, count: int) -> list[torch.Tensor]:
        if self.shape == TEXT:
            return [torch.randint(VOCABULARY, (count, *TEXT))]
        return [torch.randn(count, *self.shape), torch.randint(CLASSES, (count,))]


SUBJECTS = {
    "MLP": Subject(perceptron, of_images, (1024,), 256, 32),
    "LSTM": Subject(recurrent, of_next, TEXT, 16, 4),
    "ResNet": Subject(residual, of_images, (3, 32, 32), 16, 4),
    "ViT": Subject(vit, of_images, (3, 32, 32), 16, 4),
    "GPT-2": Subject(gpt2, of_ids, TEXT, 16, 4),
    "Llama": Subject(llama, of_ids, TEXT, 16, 4),
    "Mistral": Subject(mistral, of_ids, TEXT, 16, 4),
    "Qwen, tied": Subject(qwen, of_ids, TEXT, 16, 4),
    "T5": Subject(t5, of_ids, TEXT, 16, 4),
    "LoRA on Llama": Subject(lora, of_ids, TEXT, 16, 4),
}


class Counted:
    """The memory that this process has allocated and not freed, as bench/counted_memory.cc counts it."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        if not hasattr(library, "counted_bytes"):
            raise SystemExit("bench: start this program with LD_PRELOAD=build/release/bench_counted_memory.so")
        self._now, self._most = library.counted_bytes, library.most_counted_bytes
        self._now.restype = self._most.restype = ctypes.c_long

    def now_mb(self) -> float:
        return float(self._now()) / 1e6

    def most_mb(self) -> float:
        """The most since the last call."""
        return float(self._most()) / 1e6


def kernels() -> float:
    """The megabytes that a process keeps after a first pass, and does not have before."""
    subject = SUBJECTS[sys.argv[1]]
    model, samples = subject.make(), subject.samples(subject.micro_batch)
    counted = Counted()
    before = counted.now_mb()
    subject.loss(model, samples).backward()
    for parameter in model.parameters():
        parameter.grad = None
    gc.collect()
    return counted.now_mb() - before


def main() -> None:
    import paceline

    torch.manual_seed(0)
    if sys.argv[2] == "kernels":
        print(kernels())
        return
    subject = SUBJECTS[sys.argv[1]]
    folder = os.environ.get("PREDICTIONS")
    counted = Counted() if folder else None
    begins: list[float] = []
    seen: list[float] = []

    def loss(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        if counted and len(batch[0]) == subject.micro_batch:  # fewer are a look at the model before the run
            most = counted.most_mb()
            if begins:
                seen.append(most)
            begins.append(counted.now_mb())
        return subject.loss(model, batch)

    model = subject.make()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
    data = torch.utils.data.TensorDataset(*subject.samples(int(sys.argv[2]) * subject.batch))
    paceline.run(model, data, loss, optimizer=optimizer, epochs=1)
    if folder:
        kept = min(begins[subject.batch // subject.micro_batch :])  # between two batches
        Path(folder, f"{worker_name()}.memory").write_text(json.dumps([max(seen) - begins[0], kept - begins[0]]))


def worker_name() -> str:
    """The name of the device whose process has started this one."""
    words = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    return words[words.index("--name") + 1] if "--name" in words else words[-2]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
