"""The training as a program of Paceline's."""

from __future__ import annotations

import os

import paceline
import torch
import torch.nn.functional as F

from task import BATCH, Pacer, data, network, optimizer_of, settings
from throttle import hold_me_back

told = settings()
torch.set_num_threads(1)
train_set, _ = data(told.data)
model = network(told.seed)
kept = 0


def keep() -> dict[str, float]:
    """Puts the weights aside, to be measured afterwards, as DDP's are."""
    global kept
    torch.save(model.state_dict(), told.folder / f"kept-{kept}.pt")
    kept += 1
    return {"kept": kept - 1}


job = paceline.join(
    model,
    train_set,
    optimizer=optimizer_of(model, told.rate),
    evaluate=keep,
    batch_size=BATCH,
    epochs=told.epochs,
)
if job.role == "worker" and told.throttled == job.number:
    # The device is this process and its worker.
    hold_me_back(told.folder, [os.getpid(), os.getppid()])
pacer = Pacer(told.paces[job.number])
for x, y in job:
    pacer.begin()
    loss = F.cross_entropy(model(x), y)
    pacer.wait(len(x))
    loss.backward()
    job.step(loss)
