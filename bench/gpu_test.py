"""./dev gpu-test: everything that only a GPU can show, in at most eight minutes, and one table.

It builds nothing. `./dev gpu-pack` makes build/gpu where Paceline is built: the wheel, and three programs with the
libraries that they need. The machine with the GPU needs this repository, build/gpu, and a Python with PyTorch for CUDA.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACK = HERE.parent / "build" / "gpu"
SECONDS = 480.0  # for all of it
Row = tuple[str, str]


def environment(more: dict[str, str]) -> dict[str, str]:
    libraries = f"{PACK / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "PACELINE_CUDA_DRIVER": "libcuda.so.1",
        **more,
        "PACK_LIBRARIES": libraries,
    }


def run(words: list[str], seconds: float, packed: bool = False, **more: str) -> tuple[int, str]:
    env = environment(more)
    if packed:
        env["LD_LIBRARY_PATH"] = env["PACK_LIBRARIES"]
    try:
        ended = subprocess.run(
            words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=max(1.0, seconds)
        )
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        return 124, text.decode(errors="replace") if isinstance(text, bytes) else text
    return ended.returncode, ended.stdout


def card_tests(left: float) -> list[Row]:
    """Shards in the card's memory against shards in the host's, to the bit, also after their process was killed."""
    rows: list[Row] = []
    programs = {"shards: the host's bytes": "card_test", "shards whose process is killed": "card_deaths_test"}
    for what, name in programs.items():
        status, text = run([str(PACK / "bin" / name)], min(left, 90), packed=True)
        passed = re.search(r"\[  PASSED  \] (\d+)", text)
        failed = re.findall(r"\[  FAILED  \] (\S+) \(", text)
        if status != 0:
            print(text[-4000:], file=sys.stderr)
        result = f"{passed.group(1) if passed else 0} passed" + (f", FAILED: {', '.join(failed)}" if failed else "")
        rows.append((what, result if status in (0, 1) else f"{result}; it ended with {status}"))
    return rows


def bandwidth(left: float) -> list[Row]:
    """Updates of 85 million parameters against the driver's copy."""
    status, text = run([str(PACK / "bin" / "bench_card"), "85"], min(left, 90), packed=True)
    print(text)
    return [("updates of 85 M", "as above" if status == 0 else f"it ended with {status}")]


def package(left: float) -> list[Row]:
    """The package's own tests of a GPU, if pytest is here."""
    folder = HERE.parent / "python"
    tests = ["tests/test_words.py", "tests/test_step.py", "tests/test_absent_weights.py", "tests/test_stages.py"]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", *tests, "-k", "gpu"]
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            env=environment({}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=min(left, 100),
        )
    except subprocess.TimeoutExpired:
        return [("the package on a GPU", "not done in time")]
    last = ended.stdout.strip().splitlines()[-1:] or [""]
    if ended.returncode not in (0, 5):
        print(ended.stdout[-4000:], file=sys.stderr)
    return [("the package on a GPU", last[0])]


def steps(left: float) -> list[Row]:
    """A step of one worker against plain PyTorch with its fused optimizer, in turns."""
    rows: list[Row] = []
    program = HERE / "python" / "program.py"
    started = time.monotonic()
    for model, memory in (("large", "gpu"), ("resnet18", "gpu"), ("transformer", "gpu"), ("large", "host")):
        rest = left - (time.monotonic() - started)
        what = f"step of {model}, weights in the {memory}'s memory"
        if rest < 40:
            rows.append((what, "no time was left"))
            continue
        words = [sys.executable, str(program), "--gpu", "--turns", "3", "--models", model, "--json"]
        status, text = run([*words, "--set", f"cluster.memory={memory}"], min(rest, 150))
        found = [line for line in text.splitlines() if line.startswith("{")]
        if status != 0 or not found:
            print(text[-4000:], file=sys.stderr)
            rows.append((what, f"it ended with {status}"))
            continue
        one = json.loads(found[-1])["models"][model]
        plain, ours = (sum(one[key]) / len(one[key]) for key in ("plain_wall", "wall"))
        cpu = sum(one["cpu"]) / len(one["cpu"]) - sum(one["plain_cpu"]) / len(one["plain_cpu"])
        rows.append((what, f"{plain:.2f} ms plain, {ours:.2f} ms: {ours / plain:.3f}; {cpu:+.1f} ms of processors"))
    return rows


def install() -> str:
    wheels = sorted(PACK.glob("*.whl"))
    if not wheels:
        raise SystemExit(
            f"gpu-test: {PACK} has no wheel; write ./dev gpu-pack where Paceline is built, and bring build/gpu"
        )
    folder = tempfile.mkdtemp(prefix="paceline-wheel-")
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        folder,
        str(wheels[-1]),
    ]
    status, text = run(words, 60)
    if status != 0:
        raise SystemExit(f"gpu-test: the wheel cannot be installed:\n{text}")
    return folder


def main() -> None:
    try:
        import torch
    except ImportError:
        raise SystemExit("gpu-test: this Python has no PyTorch") from None
    if not torch.cuda.is_available():
        raise SystemExit("gpu-test: PyTorch finds no GPU here")
    began = time.monotonic()
    folder = install()
    os.environ["PYTHONPATH"] = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
    os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
    os.environ["PACELINE"] = f"{folder}/paceline/bin/paceline"
    rows: list[Row] = [
        ("card", torch.cuda.get_device_name()),
        ("PyTorch", torch.__version__),
        ("packed", (PACK / "commit").read_text().strip() if (PACK / "commit").exists() else "unknown"),
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
    ]
    parts: list[Callable[[float], list[Row]]] = [card_tests, steps, bandwidth, package]
    for part in parts:
        left = SECONDS - (time.monotonic() - began)
        if left < 20:
            rows.append((part.__name__, "no time was left"))
            continue
        print(f"gpu-test: {part.__name__}", file=sys.stderr, flush=True)
        rows += part(left)
    width = max(len(name) for name, _ in rows)
    print()
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    print(f"{'seconds':<{width}}  {time.monotonic() - began:.0f}")


if __name__ == "__main__":
    main()
