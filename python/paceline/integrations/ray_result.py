"""The numbers of a run as Ray has them: one flat dict for each evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_OF_SNAPSHOT = ("training_loss", "samples_per_s", "replicas_live", "commits")


@dataclass
class Result:
    """The end of a run."""

    metrics: dict[str, Any]  # The last evaluation's, or the training's if there was none.
    checkpoint: Any  # ray.train.Checkpoint, a folder with model.safetensors; None if the run has no weights yet
    path: str  # the run folder, on the node `node_ip`
    node_ip: str
    history: list[dict[str, Any]] = field(repr=False)  # the metrics of each evaluation

    @property
    def metrics_dataframe(self) -> Any:
        import pandas

        return pandas.DataFrame(self.history)


class History:
    """The evaluations of a run, each once, however many hosts tell of them.

    A run that goes back to a checkpoint has lost those behind it, and says new ones of the same versions.
    """

    def __init__(self) -> None:
        self.evaluations: list[dict[str, Any]] = []
        self.trained = False
        self._snapshot: dict[str, Any] = {}
        self._line: dict[str, Any] = {}  # the newest evaluation
        self._teller = 0  # the newest evaluation's
        self._told: set[str] = set()

    def add(self, lines: Iterable[dict[str, Any]], teller: int = 0) -> list[dict[str, Any]]:
        """Takes lines of metrics.jsonl; returns the evaluations that are new. teller: each has a file of its own."""
        new = []
        for line in lines:
            if line["kind"] == "snapshot":
                self._snapshot = line
                self.trained = self.trained or line["commits"] > 0
            elif line["kind"] == "evaluation" and self._is_new(line, teller):
                self._line, self._teller = line, teller
                self.evaluations = [one for one in self.evaluations if one["version"] < line["version"]]
                self.evaluations.append(self._flat(line))
                new.append(self.evaluations[-1])
        return new

    def recall(self, lines: Iterable[dict[str, Any]]) -> None:
        """Takes the lines from before the run was resumed."""
        trained = self.trained
        self.add(lines)
        self.trained = trained

    @property
    def samples(self) -> int:
        """Trained so far."""
        return int(self._snapshot.get("samples", 0))

    def last(self) -> dict[str, Any]:
        if self._line:
            flat = self._flat(self._line)
        else:
            place: dict[str, Any] = {
                key: self._snapshot[key] for key in ("samples", "time_s") if key in self._snapshot
            }
            flat = {**self._of_snapshot(), **place}
        return {**flat, "finished": self._snapshot.get("finished", False)}

    def _is_new(self, line: dict[str, Any], teller: int) -> bool:
        text = json.dumps(line, sort_keys=True)
        if text in self._told:
            return False
        self._told.add(text)
        # Only a file's own order says that the run went back. What another host tells late may be long over.
        return teller == self._teller or line["version"] > self._line.get("version", -1)

    def _flat(self, line: dict[str, Any]) -> dict[str, Any]:
        """The evaluation's numbers count more than a step's of the same name."""
        own = {key: line[key] for key in ("loss", "accuracy") if line[key] is not None}
        place = {key: line[key] for key in ("version", "samples", "time_s")}
        return {**self._of_snapshot(), **line["metrics"], **own, **place}

    def _of_snapshot(self) -> dict[str, Any]:
        flat = {key: self._snapshot[key] for key in _OF_SNAPSHOT if self._snapshot.get(key) is not None}
        return {**flat, **(self._snapshot.get("training_metrics") or {})}
