"""A small transformer over the bytes of a text: tied embeddings, groups of parameters, warm-up, clipping.

The text is DATA/text/tinyshakespeare.txt or, where that is not there, the source of Python's own library.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import paceline

CONTEXT = 64
WIDTH = 128


class Excerpts(torch.utils.data.Dataset):
    """Sample number n is the n-th CONTEXT bytes, and the byte behind them."""

    def __init__(self, text: bytes) -> None:
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def __len__(self) -> int:
        return (len(self.bytes) - 1) // CONTEXT

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        excerpt = self.bytes[index * CONTEXT : (index + 1) * CONTEXT + 1].long()
        return excerpt[:-1], excerpt[1:]


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.position = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.02)
        future = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(x) + self.position, mask=self.future))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, default="data")
parser.add_argument("--epochs", type=float, default=1)
arguments = parser.parse_args()

torch.manual_seed(1)
shakespeare = arguments.data / "text" / "tinyshakespeare.txt"
files = [shakespeare] if shakespeare.exists() else sorted(Path(argparse.__file__).parent.glob("*.py"))
text = b"".join(file.read_bytes() for file in files)[:1_200_000]
cut = len(text) * 98 // 100
device = paceline.device()
model = Transformer().to(device)
test_set = Excerpts(text[cut:])


def evaluate() -> float:
    loader = torch.utils.data.DataLoader(test_set, batch_size=100)
    losses = [loss_of(model, x.to(device), y.to(device)) for x, y in loader]
    return float(torch.stack(losses).mean())


matrices = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
job = paceline.join(
    model,
    Excerpts(text[:cut]),
    optimizer=optimizer,
    schedule=warm_up,
    schedule_per="step",
    evaluate=evaluate,
    batch_size=32,
    epochs=arguments.epochs,
    clip=1.0,
)
for x, y in job:
    loss = loss_of(model, x, y)
    loss.backward()
    job.step(loss)
