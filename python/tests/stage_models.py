"""Models of other people's classes, at small sizes, with a batch and a loss each."""

from __future__ import annotations

import random
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

Case = tuple[nn.Module, Any, Callable[[Any, Any], Any]]  # model, training set, loss
SAMPLES = 12


def _labelled(*shape: int, classes: int = 5) -> torch.utils.data.TensorDataset:
    return torch.utils.data.TensorDataset(torch.randn(SAMPLES, *shape), torch.randint(classes, (SAMPLES,)))


def _cross_entropy(model: Any, batch: Any) -> Any:
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


def mlp() -> Case:
    model = nn.Sequential(
        nn.Linear(6, 16), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5)
    )
    return model, _labelled(6), _cross_entropy


class _DrawsElsewhere(nn.Module):
    """A block that uses Python's random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * random.random()


def drawing() -> Case:
    return nn.Sequential(*(_DrawsElsewhere() for _ in range(4))), _labelled(6, classes=6), _cross_entropy


class _Added(nn.Module):
    """A block in whose backward pass one memory is the gradient of two tensors: of a and b, and of c and u * s."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.a, self.b, self.c, self.u, self.s = (nn.Parameter(torch.randn(6)) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = self.a.unsqueeze(0) + self.b.unsqueeze(0)
        scale = (self.u * self.s).unsqueeze(0) + self.c.unsqueeze(0)
        return torch.tanh(self.linear(x.to(shift.dtype)) * scale + shift)


def added() -> Case:
    """Weights of two bytes: the sums of their gradients lie in memory of the stage's own."""
    return nn.Sequential(*(_Added() for _ in range(3))).to(torch.bfloat16), _labelled(6), _cross_entropy


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.unused = nn.Parameter(torch.ones(2))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(x)).mean(dim=1))


def weighted() -> Case:
    """A mean over the marked rows of a micro-batch; in one of them no row is marked, and the mean is NaN."""
    model, data, _ = mlp()
    marked = torch.arange(len(data)) % 3 > 0
    marked[10:] = False  # the last micro-batch

    def loss(model: Any, batch: Any) -> Any:
        x, y, mark = batch
        count = mark.sum()
        total = (F.cross_entropy(model(x), y, reduction="none") * mark).sum()
        return total / count, {"rows": float(len(x))}, count

    return model, torch.utils.data.TensorDataset(*data.tensors, marked), loss


def encoder() -> Case:
    return _Encoder(), _labelled(7, 8), _cross_entropy


class _Asking(nn.Module):
    """Asks activations between its blocks where they are, and computes there what the next block gets."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(nn.Bilinear(8, 8, 8) for _ in range(4))
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, x = len(x), self.first(x)
        for block in self.blocks:
            steps = torch.arange(8, device=x.device, dtype=x.dtype) / 8
            x = block(x, steps.expand(rows, 8))
        return self.last(x + torch.ones(8).to(x.device))


def asking() -> Case:
    return _Asking(), _labelled(6), _cross_entropy


class _Conditioned(nn.Module):
    """Every block gets what is computed before all of them from parameters, as diffusion models do it."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(6, 8)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = torch.sigmoid(self.time(x))
        h = time
        for block in self.blocks:
            h = F.relu(block(h * time))
        return self.head(h) + 0 * self.scale.sum()


class _Centered(nn.Module):
    """Moves two buffers of its own behind all blocks: one in its place, and one as another tensor each time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(6))
        self.register_buffer("renewed", torch.zeros(6))
        self.norm = nn.BatchNorm1d(6)
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        with torch.no_grad():
            self.center.mul_(0.9).add_(x.mean(dim=0), alpha=0.1)
            self.renewed = self.renewed * 0.9 + x.mean(dim=0) * 0.1
        return x - self.center


def centered() -> Case:
    return _Centered(), _labelled(6), _cross_entropy


class _Masked(nn.Module):
    """Draws a mask for all blocks behind the dropout of an embedding, in one of several ways."""

    def __init__(self, drop: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.drop = drop
        self.embed = nn.Linear(6, 6)
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.embed(x + torch.randn_like(x)))
        mask = torch.rand(6, device=x.device)
        for block in self.blocks:
            x = block(x) * mask
        return x


def _noise(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros_like(x).uniform_(-1, 1)


def masked(drop: Callable[[torch.Tensor], torch.Tensor] = F.dropout) -> Case:
    return _Masked(drop), _labelled(6, classes=6), _cross_entropy


def conditioned() -> Case:
    return _Conditioned(), _labelled(6), _cross_entropy


class _Basic(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class _ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(_Basic(4, 4, 1), _Basic(4, 4, 1))
        self.layer2 = nn.Sequential(_Basic(4, 8, 2), _Basic(8, 8, 1))
        self.fc = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def resnet() -> Case:
    return _ResNet(), _labelled(3, 8, 8), _cross_entropy


class UNet(nn.Module):
    """The first blocks' outputs are used again by the last ones."""

    def __init__(self, to_the_end: bool = False) -> None:
        super().__init__()
        self.to_the_end = to_the_end  # the first one's, again behind all blocks
        self.down = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.tail = nn.ModuleList(nn.Linear(6, 6) for _ in range(2))
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for block in self.down:
            x = block(x).relu()
            skips.append(x)
        first = skips[0]
        for block in self.up:
            x = block(x + skips.pop())
        for block in self.tail:
            x = block(x)
        return self.head(x + first if self.to_the_end else x)


class _Texts(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Texts of two lengths, padded within a batch: each micro-batch has a length of its own."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        self._tensors = tensors

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {key: value[index] for key, value in self._tensors.items()}


def _language(model: nn.Module, vocabulary: int = 64, masked: bool = False) -> Case:
    ids = torch.randint(vocabulary, (SAMPLES, 10))
    tensors = {"input_ids": ids, "labels": ids}
    if masked:
        tensors["attention_mask"] = (torch.arange(10) < torch.randint(6, 11, (SAMPLES, 1))).long()

    def loss(model: Any, batch: Any) -> Any:
        length = int(batch["input_ids"].shape[0]) + 6  # another length in a smaller micro-batch
        return model(**{key: value[:, :length].contiguous() for key, value in batch.items()}).loss

    return model, _Texts(tensors), loss


def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _language(GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=4, n_head=2)))


# The sizes of models that are built as Llama is.
SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def llama(masked: bool = True, layers: int = 4, tied: bool = False) -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**SMALL, num_hidden_layers=layers, attention_dropout=0.1, tie_word_embeddings=tied)
    return _language(LlamaForCausalLM(config), masked=masked)


def qwen() -> Case:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        **SMALL,
        num_hidden_layers=3,
        tie_word_embeddings=True,
    )
    return _language(Qwen2ForCausalLM(config))


def mistral() -> Case:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        **SMALL,
        num_hidden_layers=4,
        sliding_window=4,
    )
    return _language(MistralForCausalLM(config))


def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_decoder_layers=3, num_heads=2, dropout_rate=0.1
    )
    config.decoder_start_token_id = 0
    return _language(T5ForConditionalGeneration(config))


def in_bfloat16() -> Case:
    """Weights of two bytes, which a stage copies."""
    model, train_set, loss = llama(masked=False)
    return model.to(torch.bfloat16), train_set, loss


def autocast() -> Case:
    model, train_set, loss = llama()

    def in_autocast(model: Any, batch: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(model, batch)

    return model, train_set, in_autocast


def lora() -> Case:
    """Trained parts in every second layer of a frozen model."""
    peft = pytest.importorskip("peft")
    model, train_set, loss = llama(masked=False)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, layers_to_transform=[1, 3])
    return peft.get_peft_model(model, config), train_set, loss


def compiled() -> Case:
    model, train_set, loss = llama()
    layers: Any = model.model.layers  # type: ignore[union-attr]
    for index, layer in enumerate(layers):
        layers[index] = torch.compile(layer, backend="aot_eager")
    return model, train_set, loss


def bert() -> Case:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32
    )
    return _language(BertForMaskedLM(config), masked=True)


def checkpointed(reentrant: bool = False) -> Case:
    model, train_set, loss = gpt2()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})  # type: ignore[operator]
    return model, train_set, loss


def vit() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
        num_labels=5,
        hidden_dropout_prob=0.1,
    )
    return (
        ViTForImageClassification(config),
        _labelled(3, 8, 8),
        lambda model, batch: model(pixel_values=batch[0], labels=batch[1]).loss,
    )


PLAIN = {
    "mlp": mlp,
    "weighted": weighted,
    "drawing": drawing,
    "added": added,
    "encoder": encoder,
    "asking": asking,
    "conditioned": conditioned,
    "resnet": resnet,
    "centered": centered,
    "masked": masked,
    "masked-in-place": lambda: masked(lambda x: F.dropout(x.clone(), inplace=True)),
    "masked-by-noise": lambda: masked(_noise),
    "masked-by-rejection": lambda: masked(lambda x: F.rrelu(x, training=True)),
}
TRANSFORMERS = {
    "gpt2": gpt2,
    "llama": llama,
    "qwen": qwen,
    "mistral": mistral,
    "t5": t5,
    "lora": lora,
    "compiled": compiled,
    "bfloat16": in_bfloat16,
    "autocast": autocast,
    "bert": bert,
    "vit": vit,
    "checkpointed": checkpointed,
    "checkpointed-reentrant": lambda: checkpointed(reentrant=True),
}
