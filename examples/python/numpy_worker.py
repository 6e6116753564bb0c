"""A worker without PyTorch (docs/program.md): softmax regression on MNIST, or on `paceline data digits data/mnist`"""

import gzip
import json
import mmap
import os
import sys

import numpy as np

DATA = (sys.argv[1] if len(sys.argv) > 1 else "data") + "/mnist/t10k-"
images = np.frombuffer(gzip.open(DATA + "images-idx3-ubyte.gz").read(), np.uint8, offset=16).reshape(-1, 784) / 255
labels = np.frombuffer(gzip.open(DATA + "labels-idx1-ubyte.gz").read(), np.uint8, offset=8)
TENSORS = [{"name": "weight", "shape": [784, 10]}, {"name": "bias", "shape": [10]}]


def place(runs, index):  # the last run that begins at or before the tensor
    tensor, memory, offset = max(run for run in runs if run[0] <= index)
    begin, shape = offset // 4 + offsets[index] - offsets[tensor], TENSORS[index]["shape"]
    return memories[memory][begin : begin + int(np.prod(shape))].reshape(shape)


def forward(weights, samples):
    scores = images[samples] @ place(weights, 0) + place(weights, 1)
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    loss = -np.log(chances[range(len(chances)), labels[samples]] + 1e-12).mean()
    return chances, {"loss": float(loss), "accuracy": float((chances.argmax(1) == labels[samples]).mean())}


program = int(os.environ["PACELINE_PROGRAM_FD"])
offsets, memories, lines = [], {}, open(program, "rb")
while (message := json.loads(lines.readline() or '{"type": "end"}'))["type"] != "end":
    answer = None
    if message["type"] == "start":
        answer = {"type": "model", "tensors": TENSORS, "samples": 8000, "optimizer": {"name": "sgd", "lr": 0.1}}
    elif message["type"] == "layout":
        offsets = message["offsets"]
    elif message["type"] == "map":
        mode, access = ("r+b", mmap.ACCESS_WRITE) if message["write"] else ("rb", mmap.ACCESS_READ)
        with open(message["path"], mode) as file:
            mapped = mmap.mmap(file.fileno(), message["bytes"], access=access)
        memories[message["memory"]] = np.frombuffer(mapped, np.float32)
    elif message["type"] == "unmap":
        del memories[message["memory"]]
    elif message["type"] == "initial":
        place(message["to"], 0)[:], place(message["to"], 1)[:] = 0, 0
        answer = {"type": "done"}
    elif message["type"] == "step":
        samples = message["samples"]
        error, measured = forward(message["weights"], samples)
        error[range(len(samples)), labels[samples]] -= 1
        place(message["gradients"], 0)[:] = images[samples].T @ error / len(samples)
        place(message["gradients"], 1)[:] = error.mean(0)
        answer = {"type": "stepped", "loss": measured["loss"]}
    elif message["type"] == "evaluate":  # on the 2,000 images that are not trained on
        answer = {"type": "evaluated", "metrics": forward(message["weights"], slice(8000, None))[1]}
    if answer:
        os.write(program, json.dumps(answer).encode() + b"\n")
