"""A program with a model of so many megabytes that computes next to nothing: what is left of an iteration is its pace,
and what making updates takes. `paceline train examples/papers/update-time.toml`"""

import json
import os
import sys

MEGABYTES = int(sys.argv[1]) if len(sys.argv) > 1 else 100
TENSORS = [{"name": "layer%d" % i, "shape": [250, 1000]} for i in range(MEGABYTES)]

program = int(os.environ["PACELINE_PROGRAM_FD"])
lines = open(program, "rb")
while (message := json.loads(lines.readline() or '{"type": "end"}'))["type"] != "end":
    answer = None
    if message["type"] == "start":
        answer = {"type": "model", "tensors": TENSORS, "samples": 1_000_000, "evaluates": False,
                  "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}
    elif message["type"] == "initial":
        answer = {"type": "done"}
    elif message["type"] == "step":  # gradients stay zero, and are read and summed all the same
        answer = {"type": "stepped", "loss": 1.0}
    elif message["type"] == "evaluate":
        answer = {"type": "evaluated", "metrics": {"loss": 1.0}}
    if answer:
        os.write(program, json.dumps(answer).encode() + b"\n")
