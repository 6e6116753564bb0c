"""Follows a run's metrics.jsonl and passes each line on to MLflow or Weights & Biases, both offline.

    python3 follow_metrics.py runs/demo-… --mlflow DIR      # then: mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db
    python3 follow_metrics.py runs/demo-… --wandb DIR       # then: wandb sync DIR/wandb/offline-run-…
    python3 follow_metrics.py runs/demo-…                   # prints them

It needs the package of the tool that you name, and nothing of Paceline's.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

Log = Callable[[dict[str, float], int], None]


# So long a run that has ended may take until it is gone on with.
AFTER_THE_END_S = 2.0


def lines(file: Path, patience_s: float) -> Iterator[dict[str, object]]:
    """Whole lines as they come, until nothing came for so long, or for a while behind those of the end."""
    last = time.monotonic()
    rest = ""
    finished, samples, tested = False, 0, 0
    while not file.exists():
        time.sleep(0.2)
    with file.open() as stream:
        # The newest weights are tested after the end, and that may take long.
        while time.monotonic() - last < (AFTER_THE_END_S if finished and tested >= samples else patience_s):
            rest += stream.read()
            *whole, rest = rest.split("\n")
            for text in whole:
                last = time.monotonic()
                line = json.loads(text)
                if line["kind"] == "evaluation":
                    tested = line["samples"]
                else:  # a run that was resumed is not finished any more
                    finished, samples = bool(line.get("finished")), line["samples"]
                yield line
            if not whole:
                time.sleep(0.2)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numbers(line: dict[str, object]) -> dict[str, float]:
    kind = "evaluation/" if line["kind"] == "evaluation" else "training/"
    plain = {kind + key: float(value) for key, value in line.items() if is_number(value)}
    own = line.get("metrics") or line.get("training_metrics") or {}
    assert isinstance(own, dict)
    return plain | {kind + key: value for key, value in own.items() if value is not None}


def to_mlflow(run: Path, folder: Path) -> Log:
    import mlflow

    folder.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder.resolve()}/mlflow.db")
    mlflow.set_experiment("paceline")
    mlflow.start_run(run_name=run.name)
    mlflow.log_text((run / "job.toml").read_text(), "job.toml")

    def log(values: dict[str, float], step: int) -> None:
        mlflow.log_metrics(values, step=step)

    return log


def to_wandb(run: Path, folder: Path) -> Log:
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    wandb.init(project="paceline", name=run.name, dir=str(folder), mode="offline")
    wandb.define_metric("*", step_metric="samples")

    def log(values: dict[str, float], step: int) -> None:
        wandb.log(values | {"samples": step})

    return log


def to_standard_output(values: dict[str, float], step: int) -> None:
    print(step, json.dumps(values), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--mlflow", type=Path)
    parser.add_argument("--wandb", type=Path)
    parser.add_argument("--patience", type=float, default=60, help="seconds without a line that end a run")
    words = parser.parse_args()
    log: Log = to_standard_output
    if words.mlflow:
        log = to_mlflow(words.run, words.mlflow)
    elif words.wandb:
        log = to_wandb(words.run, words.wandb)
    for line in lines(words.run / "metrics.jsonl", words.patience):
        log(numbers(line), int(str(line["samples"])))


if __name__ == "__main__":
    main()
