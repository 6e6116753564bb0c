"""A model with its gradient memory, computed whole or in stages."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import torch
from stage_models import SAMPLES

from paceline.cuts import Cuts, find_cuts
from paceline.inventory import PARAMETER, STATISTIC, Inventory, take_inventory
from paceline.loading import Load, Loads
from paceline.memories import FLOAT, Memories
from paceline.micro_batches import MicroBatches, cut
from paceline.moving import to_device
from paceline.seeding import seed_step
from paceline.stage_forward import StageForward
from paceline.stages import Stages

ROOM = 1 << 20
SEED = 11
BATCH = list(range(SAMPLES))
MICRO_BATCH = 5  # three micro-batches, the last of two samples
CPU = torch.device("cpu")


class Bench:
    """A model with its gradient memory, computed whole or in stages."""

    def __init__(self, case: Any, asked: Any = None, device: torch.device = CPU) -> None:
        torch.manual_seed(3)
        self.model, train_set, self.loss = case()
        self.model.train().to(device)
        self.device = device
        self.loads = Loads(train_set, None)
        self.inventory: Inventory = take_inventory(self.model, of_stages=True)
        first = to_device(self.loads[Load((0, 1), 0)], device)
        self.cuts: Cuts = find_cuts(self.model, self.inventory, self.loss, first, 2, asked)
        self.before = [entry.tensor.detach().clone() for entry in self.inventory.entries]
        self.memories = Memories(len(self.inventory.entries), device)
        offsets, self.floats = [], 0
        for entry in self.inventory.entries:
            offsets.append(self.floats)
            self.floats += -(-entry.count // 16) * 16
        self.memories.lay_out({"offsets": offsets, "floats": self.floats})
        self.files: list[int] = []
        self.gradients = self.add_memory(self.floats * FLOAT)
        self.stages = Stages(
            self.model,
            self.inventory,
            self.memories,
            self.loss,
            self.cuts,
            lambda load: self.loads[load],
            lambda message, weights: self.reset(),
            device,
        )
        self.numbers = itertools.count()
        self.epoch = 0

    def add_memory(self, size: int) -> int:
        file = os.memfd_create("test")
        os.truncate(file, size)
        self.files.append(file)
        number = len(self.files) - 1
        path = f"/proc/self/fd/{file}"
        self.memories.map({"memory": number, "path": path, "bytes": size, "write": True})
        return number

    def close(self) -> None:
        for file in self.files:
            os.close(file)

    @torch.no_grad()
    def reset(self, weights: Any = None) -> None:
        """The first values; of weights that are not wanted, numbers that are none."""
        for index, (entry, value) in enumerate(zip(self.inventory.entries, self.before)):
            if entry.is_buffer:
                if weights is None:
                    entry.tensor.copy_(value)
            else:
                held = weights is None or index in weights
                nothing = torch.full((), math.nan, dtype=entry.dtype, device=self.device).expand(entry.shape)
                entry.tensor.data = value if held else nothing

    def whole(self) -> tuple[float, list[torch.Tensor]]:
        self.reset()
        micro = MicroBatches(self.inventory, cut(tuple(BATCH), MICRO_BATCH))
        seams = self.cuts.seams
        for index, part in enumerate(micro.parts):
            micro.start(index)
            batch = to_device(self.loads[Load(part, 5)], self.device)
            seed_step(SEED + index, self.device)
            with StageForward(seams, 0, len(seams.blocks), (), SEED + index, device=self.device) as forward:
                value = self.loss(self.model, batch)
                value, _, weight = value if isinstance(value, tuple) else (value, {}, None)
                forward.recompute()
                value.backward()
            micro.measured(float(value.detach()), {}, None if weight is None else float(weight))
            micro.collect()
        result = []
        for entry in self.inventory.entries:
            if entry.kind == PARAMETER:
                result.append(
                    torch.zeros_like(entry.tensor) if entry.tensor.grad is None else entry.tensor.grad.clone()
                )
                entry.tensor.grad = None
            elif entry.kind == STATISTIC:
                result.append(entry.tensor.clone())
        return micro.loss, result

    def in_stages(self, edges: list[int]) -> tuple[float, list[torch.Tensor]]:
        [span] = self.memories.spans([[0, self.gradients, 0]])
        self.memories.floats_view(span, 0, self.floats).fill_(math.nan)
        names = [next(self.numbers) for _ in edges[1:]]
        self.ranges = dict(zip(names, zip(edges, edges[1:])))
        rooms = [(self.add_memory(ROOM), self.add_memory(ROOM)) for _ in names]
        for name, first, last, (inside, outside) in zip(names, edges, edges[1:], rooms):
            begun = self.stages.serve(
                {
                    "type": "stage",
                    "stage": name,
                    "units": [first, last],
                    "samples": BATCH,
                    "seed": SEED,
                    "epoch": self.epoch,
                    "augment_seed": 5,
                    "micro_batch": MICRO_BATCH,
                    "gradients": [[0, self.gradients, 0]],
                    "in": inside,
                    "out": outside,
                }
            )
            assert begun == {"type": "done"}
        # The stages before the last one have all forward passes first: each keeps several micro-batches.
        parts = cut(tuple(BATCH), MICRO_BATCH)
        sent: list[Any] = []
        for micro in range(len(parts)):
            size: Any = None
            for place, name in enumerate(names[:-1]):
                said = self.serve({"type": "forward", "stage": name, "micro": micro, "bytes": size})
                size = self.hand_on(rooms, place, place + 1, said["bytes"])
            sent.append((size, self.memories.file(rooms[-1][0]).view(0, size or 0, torch.uint8).clone()))
        loss = 0.0
        for micro, (size, message) in enumerate(sent):
            self.memories.file(rooms[-1][0]).view(0, size or 0, torch.uint8).copy_(message)
            said = self.serve({"type": "forward_backward", "stage": names[-1], "micro": micro, "bytes": size})
            loss += len(parts[micro]) / len(BATCH) * said["loss"]
            for place, name in reversed(list(enumerate(names))[:-1]):
                size = self.hand_on(rooms, place + 1, place, said["bytes"])
                said = self.serve({"type": "backward", "stage": name, "micro": micro, "bytes": size})
        for name in names:
            finished = self.serve({"type": "finish", "stage": name})
            assert finished["type"] == "finished"
            loss = finished.get("loss", loss)
            assert self.stages.serve({"type": "leave", "stage": name}) is None
        span = self.memories.spans([[0, self.gradients, 0]])[0]
        found = [
            self.memories.view(span, index, entry.count, torch.float32).view(entry.shape).clone()
            for index, entry in enumerate(self.inventory.entries)
            if entry.kind in (PARAMETER, STATISTIC)
        ]
        return loss, found

    def serve(self, message: Any) -> Any:
        """The answer of a process that has no other stage."""
        self.reset(self.cuts.weights(*self.ranges[message["stage"]]))
        return self.stages.serve(message)

    def hand_on(self, rooms: Any, place: int, other: int, size: int) -> int:
        source, target = self.memories.file(rooms[place][1]), self.memories.file(rooms[other][0])
        target.view(0, size, torch.uint8).copy_(source.view(0, size, torch.uint8))
        return size
