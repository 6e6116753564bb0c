"""Trials of different batch and policy share a Ray cluster, and Optuna chooses them. Each trial is a job of its own.

paceline data digits data/mnist                             # or paceline data mnist data/mnist
python ray_tune.py --trials 4                               # pip install "ray[default,tune]" optuna
"""

import argparse
from pathlib import Path

import ray
from ray import tune
from ray.tune.search.optuna import OptunaSearch

from paceline.integrations.ray import run, trial_resources

PROGRAM = Path(__file__).resolve().with_name("mnist.py")


def trial(config: dict) -> None:
    # run() reports each evaluation to Tune, and the weights at the end.
    run(
        PROGRAM,
        ["--data", config["data"], "--epochs", str(config["epochs"]), "--batch", str(config["batch"])],
        hosts=1,
        resources_per_host={"CPU": 1},
        devices_per_host=2,
        settings={"sync.policy": config["policy"]},
    )


def tuned(data: Path, trials: int, epochs: float) -> tune.ResultGrid:
    space = {
        "data": str(data.resolve()),
        "epochs": epochs,
        "batch": tune.choice([16, 32, 64]),
        "policy": tune.choice(["bsp", "ssp:3", "cgp"]),
    }
    wanted = tune.TuneConfig(metric="accuracy", mode="max", num_samples=trials, search_alg=OptunaSearch(seed=1))
    hosts = trial_resources(hosts=1, resources_per_host={"CPU": 1})
    return tune.Tuner(tune.with_resources(trial, hosts), param_space=space, tune_config=wanted).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default="data")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--epochs", type=float, default=1)
    arguments = parser.parse_args()
    ray.init()  # the cluster that RAY_ADDRESS names, else one of this machine
    results = tuned(arguments.data, arguments.trials, arguments.epochs)
    for result in results:
        said = result.config
        speed = f"{result.metrics['samples_per_s']:.0f} samples/s"
        print(f"batch {said['batch']:2}  {said['policy']:5}  accuracy {result.metrics['accuracy']:.3f}  {speed}")
    best = results.get_best_result()
    print("best:", best.config["batch"], best.config["policy"], "with weights in", best.checkpoint.path)
