"""A small network on the 10,000 test images of MNIST, or of files like MNIST's: 8,000 train and 2,000 test.

paceline data digits data/mnist                             # such files, without a download; or paceline data mnist
python mnist.py                                             # one worker
paceline run mnist.py --devices 4 --policy cgp              # four, and nobody waits for a straggler
"""

import argparse
import gzip
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import paceline


def read(path: Path, header: int) -> torch.Tensor:
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def load(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    images = read(folder / "t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    return (images.float() / 255 - 0.1307) / 0.3081, read(folder / "t10k-labels-idx1-ubyte.gz", 8).long()


parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, default="data")
parser.add_argument("--epochs", type=float, default=3)
parser.add_argument("--batch", type=int, default=32)
arguments = parser.parse_args()

torch.manual_seed(1)
images, labels = load(arguments.data / "mnist")
train_set = torch.utils.data.TensorDataset(images[:8000], labels[:8000])
device = paceline.device()
test_images, test_labels = images[8000:].to(device), labels[8000:].to(device)

model = nn.Sequential(
    nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10),
).to(device)  # fmt: skip


def evaluate() -> dict[str, torch.Tensor]:
    scores = model(test_images)
    right = (scores.argmax(1) == test_labels).float().mean()
    return {"loss": F.cross_entropy(scores, test_labels), "accuracy": right}


optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
job = paceline.join(
    model, train_set, optimizer=optimizer, evaluate=evaluate, batch_size=arguments.batch, epochs=arguments.epochs
)
for x, y in job:
    scores = model(x)
    loss = F.cross_entropy(scores, y)
    loss.backward()
    job.step(loss, {"right": (scores.argmax(1) == y).float().mean()})
