"""./dev bench ddp: a program under PyTorch's DistributedDataParallel and under Paceline.

The same network, data, batch of a device, learning rates, momentum and number of samples; the same seeds; by turns.
A clock runs from the first iteration on. Accuracies are measured after the training, of weights that were put aside
while it went on, so they cost nobody anything.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Union

from contenders import DEBIANS, Ddp, Outcome, Paceline, version_of
from places import DATA, executable
from statistics_of import machine, table, with_error
from task import Settings
from throttle import Throttle

Contender = Union[Ddp, Paceline]

AHEAD = ("sync.look_ahead=true",)
PLAIN = Ddp("DDP")
TUNED = Ddp("DDP, batches tuned by hand", "tuned")
DEBIANS_DDP = Ddp("DDP, Debian's PyTorch", python=DEBIANS)
BSP = Paceline("Paceline, `bsp`")
UNEVEN = Paceline("Paceline, `uneven-data`", keys=("parallel=uneven-data",))
UNEVEN_CGP = Paceline("Paceline, `uneven-data` and `cgp`", "cgp", ("parallel=uneven-data", *AHEAD))
ASP = Paceline("Paceline, `asp`, looking ahead", "asp", AHEAD)
CGP = Paceline("Paceline, `cgp`, looking ahead", "cgp", AHEAD)


@dataclass(frozen=True)
class Scenario:
    title: str
    paces: tuple[float, ...]  # milliseconds a batch; 0: as fast as it is
    speeds: tuple[float, ...]  # speeds that a person would assume who tunes by hand
    throttled: int
    epochs: int
    contenders: tuple[Contender, ...]


SCENARIOS = {
    "paced": Scenario(
        "Four devices, 100, 100, 100 and 300 ms a batch",
        (100, 100, 100, 300), (3, 3, 3, 1), -1, 3,
        (PLAIN, DEBIANS_DDP, Ddp("DDP, uneven inputs (Join)", "join"), TUNED, BSP, UNEVEN, ASP, CGP, UNEVEN_CGP),
    ),
    "equal": Scenario(
        "Two equal devices, unpaced",
        (0, 0), (1, 1), -1, 24,
        (PLAIN, DEBIANS_DDP, BSP, ASP, CGP),
    ),
    "straggler": Scenario(
        "Two devices, one held to a third of a processor",
        (0, 0), (3, 1), 1, 8,
        (PLAIN, DEBIANS_DDP, TUNED, BSP, UNEVEN, ASP, CGP, UNEVEN_CGP),
    ),
}  # fmt: skip


def train(scenario: Scenario, contender: Contender, seed: int, epochs: int, rate: float) -> Outcome:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paces = list(scenario.paces)
        told = Settings(seed, epochs, rate, paces, scenario.throttled, folder, DATA / "mnist")
        throttle = Throttle(folder) if scenario.throttled >= 0 else None
        try:
            outcome = contender.train(told, list(scenario.speeds))
        finally:
            if throttle is not None:
                throttle.close()
        if throttle is not None and throttle.rounds == 0:
            raise SystemExit(f"bench: nothing held {contender.title} back")
        return outcome


def ratios(over: Sequence[float | None], under: Sequence[float | None]) -> str:
    both = [one / other for one, other in zip(over, under) if one is not None and other is not None]
    return with_error(both, 2) if both else ""


def rows(outcomes: dict[str, list[Outcome]], target: float) -> list[list[str]]:
    """In the order of the contenders. DDP is the first."""
    to_target = {title: [one.seconds_to(target) for one in all_] for title, all_ in outcomes.items()}
    in_all = {title: [one.seconds for one in all_] for title, all_ in outcomes.items()}
    lines = []
    for title, all_ in outcomes.items():
        reached = [one for one in to_target[title] if one is not None]
        never = len(all_) - len(reached)
        seconds = with_error(reached, 1) if reached else ""
        lines.append([
            title,
            seconds + (f" ({never} never)" if never else ""),
            ratios(to_target[PLAIN.title], to_target[title]),
            with_error(in_all[title], 1),
            ratios(in_all[PLAIN.title], in_all[title]),
            with_error([100 * one.accuracy() for one in all_], 2),
        ])  # fmt: skip
    return lines


def head(target: float) -> list[str]:
    return [
        "",
        f"seconds to {100 * target:g} %",
        "DDP / this",
        "seconds in all",
        "DDP / this",
        "accuracy at the end (%)",
    ]


def present(contenders: Sequence[Contender]) -> list[Contender]:
    if version_of(DEBIANS):
        return list(contenders)
    return [one for one in contenders if one is not DEBIANS_DDP]


def measure(names: Sequence[str], seeds: int, epochs: int, rate: float) -> dict[str, dict[str, list[Outcome]]]:
    """Outcomes for each scenario and contender. Contenders take turns, so other work on the machine slows all."""
    outcomes: dict[str, dict[str, list[Outcome]]] = {name: {} for name in names}
    for seed in range(1, seeds + 1):
        for name in names:
            scenario = SCENARIOS[name]
            for contender in present(scenario.contenders):
                outcome = train(scenario, contender, seed, epochs or scenario.epochs, rate)
                outcomes[name].setdefault(contender.title, []).append(outcome)
                said = f"seed {seed}, {name}: {contender.title}: {outcome.seconds:.1f} s, {outcome.accuracy():.4f}"
                print(said, file=sys.stderr, flush=True)
    return outcomes


def conditions(seeds: int, rate: float) -> str:
    versions = f"PyTorch {version_of(sys.executable)}"
    debians = version_of(DEBIANS)
    versions += f", Debian's {debians}" if debians else "; Debian's PyTorch is not installed and left out"
    samples = "MNIST" if (DATA / "mnist").exists() else "made-up samples, as MNIST is not at ../shared/data"
    return f"{seeds} seeds; learning rate {rate:g}, a cosine; {samples}; {versions}; {machine()}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench ddp", description="a program under DDP and under Paceline")
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    parser.add_argument("--target", type=float, default=0.94, help="the accuracy that seconds are counted to (0.94)")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="some of " + ",".join(SCENARIOS))
    parser.add_argument("--rate", type=float, default=0.05, help="the first learning rate of all (0.05)")
    parser.add_argument("--epochs", type=int, default=0, help="instead of each scenario's own: for a quick look")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.scenarios.split(",")
    if not set(names) <= SCENARIOS.keys() or arguments.seeds < 1 or not 0 < arguments.target < 1:
        parser.error(f"scenarios are {', '.join(SCENARIOS)}, seeds at least 1, and a target is between 0 and 1")
    executable()  # or a word that it is missing, before anything starts
    outcomes = measure(names, arguments.seeds, arguments.epochs, arguments.rate)
    if arguments.json:
        plain = {name: {title: [asdict(one) for one in all_] for title, all_ in those.items()}
                 for name, those in outcomes.items()}  # fmt: skip
        print(json.dumps({"conditions": conditions(arguments.seeds, arguments.rate), "scenarios": plain}))
        return
    for name, those in outcomes.items():
        print(f"{SCENARIOS[name].title}:\n\n{table(head(arguments.target), rows(those, arguments.target))}\n")
    print(conditions(arguments.seeds, arguments.rate))


if __name__ == "__main__":
    main()
