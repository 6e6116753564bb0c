"""The model of `./dev bench stages`, trained by a job or by torch.distributed.pipelining.

    stages_program.py job UPDATES [stages]
    stages_program.py pipelining UPDATES CUT FOLDER RANK

With `stages` a job with one device draws its random numbers as one with stages does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

BLOCKS, WIDTH, LENGTH, VOCABULARY = 12, 128, 32, 512
BATCH, MICRO_BATCH = 32, 4
SKIPPED = 3  # first updates that are not measured


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.feed(x)


class Model(nn.Module):
    """Blocks [begin, end) with what is before the first one and behind the last one."""

    def __init__(self, begin: int = 0, end: int = BLOCKS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH) if begin == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(begin, end))
        self.head = nn.Linear(WIDTH, VOCABULARY) if end == BLOCKS else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(x)


def scores_loss(scores: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), ids.flatten())


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def job(updates: int) -> None:
    import paceline

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        return scores_loss(model(batch[0]), batch[0])

    torch.manual_seed(0)
    model = Model()
    data = torch.utils.data.TensorDataset(torch.randint(VOCABULARY, (updates * BATCH, LENGTH)))
    paceline.run(model, data, loss, optimizer=optimizer_of(model), epochs=1)


def pipelining(updates: int, cut: int, folder: Path, rank: int) -> None:
    from torch import distributed
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Model(0, cut) if rank == 0 else Model(cut, BLOCKS)
    optimizer = optimizer_of(model)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, BATCH // MICRO_BATCH, loss_fn=scores_loss)
    times = []
    for _ in range(updates):
        ids = torch.randint(VOCABULARY, (BATCH, LENGTH))
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(ids)
        else:
            schedule.step(target=ids)
        optimizer.step()
        distributed.barrier()
        times.append(time.monotonic())
    if rank == 0:
        rate = (updates - SKIPPED) * BATCH / (times[-1] - times[SKIPPED - 1])
        (folder / "rate.json").write_text(json.dumps(rate))
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "job":
        job(int(os.environ.get("UPDATES", sys.argv[2])))
    else:
        pipelining(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
