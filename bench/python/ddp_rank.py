"""The training under DistributedDataParallel: one rank. RANK, WORLD_SIZE and MASTER_* are in the environment.

The last word says how: "plain"; "join", in which fast ranks have more batches than slow ones; or "tuned", in which
they have larger ones.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from shares import split
from task import BATCH, EVALUATIONS, TRAINED, Pacer, accuracy, data, falling, network, optimizer_of, settings
from throttle import hold_me_back

told, how = settings(), sys.argv[8]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
train_set, held_out = data(told.data)
model = DistributedDataParallel(network(told.seed))
optimizer = optimizer_of(model, told.rate)
pacer = Pacer(told.paces[rank])
speeds = [float(word) for word in sys.argv[9].split(",")]
sizes = split(world * BATCH, speeds) if how == "tuned" else [BATCH] * world


def batches(epoch: int, rank: int) -> list[list[int]]:
    """The rank's part of the epoch's order, which all ranks draw alike."""
    order = torch.randperm(TRAINED, generator=torch.Generator().manual_seed(1000 * told.seed + epoch)).tolist()
    if how == "join":
        parts = split(TRAINED, speeds)
        mine = order[sum(parts[:rank]) : sum(parts[: rank + 1])]
        return [mine[at : at + BATCH] for at in range(0, len(mine), BATCH)]
    begin = sum(sizes[:rank])
    return [order[at + begin : at + begin + sizes[rank]] for at in range(0, TRAINED, sum(sizes))]


# Weights on the way, to be measured afterwards: so the training waits for no evaluation.
kept: list[tuple[float, Any]] = []


def keep() -> None:
    if rank == 0:
        kept.append((time.monotonic() - started, copy.deepcopy(model.module.state_dict())))


if told.throttled == rank:
    hold_me_back(told.folder, [os.getpid()])
dist.barrier()
started = time.monotonic()
for epoch in range(told.epochs):
    loader = DataLoader(train_set, batch_sampler=batches(epoch, rank))
    steps = max(len(batches(epoch, one)) for one in range(world))
    often = -(-told.epochs * steps // EVALUATIONS)
    with model.join() if how == "join" else contextlib.nullcontext():
        for step, (x, y) in enumerate(loader):
            if (epoch * steps + step) % often == 0:
                keep()
            for group in optimizer.param_groups:
                group["lr"] = told.rate * falling((epoch + step / steps) / told.epochs)
            pacer.begin()
            loss = F.cross_entropy(model(x), y)
            pacer.wait(len(x))
            # Ranks count alike in DDP's mean; so that samples do.
            (loss * (len(x) * world / sum(sizes))).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
ended = time.monotonic() - started
keep()
if rank == 0:
    scratch = network(told.seed)
    curve = []
    for at, state in kept:
        scratch.load_state_dict(state)
        curve.append((at, accuracy(scratch, held_out)))
    (told.folder / "said.json").write_text(json.dumps({"curve": curve, "seconds": ended, "torch": torch.__version__}))
dist.barrier()
dist.destroy_process_group()
