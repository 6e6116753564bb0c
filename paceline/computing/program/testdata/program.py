"""A program for tests, in plain Python: the gradient of weight w is w - sample, the mean over the batch.

The first argument says how it misbehaves, the second in which step ("from 3": in that one and all later ones), the
third in which worker only.
"""
import array
import fcntl
import json
import mmap
import os
import signal
import socket
import struct
import sys
import termios
import time

how = sys.argv[1] if len(sys.argv) > 1 else ""
when = sys.argv[2] if len(sys.argv) > 2 else "1"
connection = socket.socket(fileno=int(os.environ["PACELINE_PROGRAM_FD"]))
# One object for both directions would forget at each write what it has read ahead.
stream, answers = (connection.makefile(mode, encoding="utf-8", newline="\n") for mode in "rw")
SIZES = {"w": 3, "mean": 1, "far.b": 20}
UNITS = [{"name": "near", "tensors": [0, 1], "message_bytes": 8}, {"name": "far", "tensors": [2]}]
memories, offsets, steps = {}, [], 0
expected = []  # the samples of the batches that will come
stages = {}  # key: number; the message that began the iteration


def send(**message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def places(runs):
    """The memory and the byte offset of each tensor."""
    for number in range(len(SIZES)):
        tensor, memory, offset = [run for run in runs if run[0] <= number][-1]
        yield memories[memory], offset + 4 * (offsets[number] - offsets[tensor])


def read(runs):
    return [list(struct.unpack_from(f"{size}f", *place)) for size, place in zip(SIZES.values(), places(runs))]


def write(runs, values):
    for (memory, offset), value in zip(places(runs), values):
        struct.pack_into(f"{len(value)}f", memory, offset, *value)


def model():
    tensors = [{"name": name, "shape": [size]} for name, size in SIZES.items()]
    tensors[1]["kind"] = "statistic"
    if how == "twice-named":
        tensors[2]["name"] = "w"
    return {"type": "model", "tensors": tensors, "samples": 1200, "digest": "numbers", "device": "tpu:0", "batch": 4,
            "optimizer": {"name": "sgd", "lr": 0.5, "momentum": 0.0},
            **({"memory": {"kind": "cuda", "device": "GPU-1", "cards": 1, "words": True}} if how == "words" else {}),
            **({"last": True} if how == "takes-last" else {}),
            **({"optimizer_state": {"steps": 7}} if how == "has-state" else {})}


def step(message):
    weights = read(message["weights"])
    mean = sum(message["samples"]) / len(message["samples"])
    write(message["gradients"], [[w - mean for w in weights[0]], [mean], [0.0] * 20])
    send(type="stepped", loss=mean, metrics={"seed": message["seed"] % 1000})


def bytes_to_read():
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]


def step_with_words(message):
    """This thread reads nothing while it waits for its GPU, and the GPU for the word."""
    word, rows = message["page"], message["page"].get("rows", [])
    is_late = lambda: struct.unpack_from("I", memories[word["memory"]])[0] < word["number"]
    while rows and is_late():
        if bytes_to_read() > 1 << 16 and is_late():
            sys.exit("a long line came before the word that the GPU waits for")
        time.sleep(0.001)
    row = struct.unpack_from("q", memories[word["memory"]], 8)[0]
    weights = read([[0, rows[row], 0]] if rows else message["weights"])[0]
    mean = sum(message["samples"]) / len(message["samples"])
    write(message["gradients"], [[w - mean for w in weights], [mean], [0.0] * 20])
    send(type="stepped", loss=mean, metrics={"early": len(rows), "expected": expected.count(message["samples"])})


def micro_mean(stage, micro):
    size = stage["micro_batch"]
    part = stage["samples"][micro * size:(micro + 1) * size]
    return sum(part) / len(part)


def take_pass(message):
    """Near sends the mean of the micro-batch, which is the loss; far sends it back, and near adds it up."""
    global steps
    steps += 1
    if how == "hang" and steps == int(when):
        time.sleep(1000)
    stage = stages[message["stage"]]
    out, is_near = memories[stage["out"]], stage["units"] == [0, 1]
    received = None if message["bytes"] is None else struct.unpack_from("d", memories[stage["in"]])[0]
    mean = micro_mean(stage, message["micro"])
    if message["type"] == "backward" and is_near:
        stage["sum"] = stage.get("sum", 0) + received
        send(type="passed", bytes=0)
        return
    struct.pack_into("d", out, 0, mean if is_near else received)
    loss = {} if is_near else {"loss": received}
    send(type="passed", bytes=1 << 40 if how == "large" else 8, **loss)


def finish(message):
    stage = stages[message["stage"]]
    own = UNITS[stage["units"][0]]["tensors"]
    for number, (memory, offset) in enumerate(places(stage["gradients"])):
        if number in own:
            values = [stage.get("sum", 5.0)] * list(SIZES.values())[number]
            struct.pack_into(f"{len(values)}f", memory, offset, *values)
    send(type="finished", metrics={"passes": steps})


def misbehave(message):
    if how == "exit":
        sys.exit(3)
    if how == "leave":
        sys.exit(0)
    if how == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "hang":
        time.sleep(1000)
    if how == "rubbish":
        answers.write("what?\n")
        answers.flush()
    if how == "early":
        send(type="done")
    if how == "endless":
        while True:
            answers.write("x" * 100000)
    if how == "error":
        send(type="error", text="ValueError: no", where="train.py:7", traceback="a\nb")
        sys.exit(1)
    if how == "step-and-exit":
        step(message)
        sys.exit(6)
    if how == "no-number":
        send(type="stepped", loss=None)
        return
    if how == "short":
        send(type="out_of_memory", text="no room", where="train.py:3")
        return
    if how == "nan":
        write(message["gradients"], [[float("nan")] * 3, [0.0], [0.0] * 20])
        send(type="stepped", loss=2.5)
        return
    if how == "skip":
        send(type="stepped", loss=None, skipped=True)
        return
    if how == "child":  # the child keeps the socket open
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(4)
    time.sleep(1000)


while line := stream.readline():
    message = json.loads(line)
    kind = message["type"]
    if how == "slow" and kind in ("start", "evaluate"):
        time.sleep(4.5)
    if kind == "start":
        role = message["role"]
        if len(sys.argv) > 3 and message["name"] != sys.argv[3]:
            how = ""
        if how == "model-exit":
            sys.exit("no model today")
        units = {"uncut": "its blocks are not to be found"} if how == "uncut" else {"units": UNITS}
        send(**model(), **(units if message["stages"] else {}))
    elif kind == "layout":
        offsets = message["offsets"]
    elif kind == "map":
        with open(message.get("path") or message["name"], "r+b" if message["write"] else "rb") as file:
            access = mmap.ACCESS_WRITE if message["write"] else mmap.ACCESS_READ
            memories[message["memory"]] = mmap.mmap(file.fileno(), message["bytes"], access=access)
    elif kind == "unmap":
        memories.pop(message["memory"]).close()
    elif kind == "initial":
        write(message["to"], [[1.0, 2.0, 3.0], [0.0], [9.0] * 20])
        send(type="done")
    elif kind == "optimizer_state":
        for number, runs in enumerate(message["to"], 1):
            write(runs, [[0.5 * number] * 3, [0.0], [float(number)] * 20])
        send(type="done")
    elif kind == "last":
        with open(os.environ["END_FILE"], "a") as file:
            file.write(f"{read(message['weights'])[0]}\n")
        send(type="done")
    elif kind == "expect":
        kept = expected[message["dropped"]:] if message.get("dropped") is not None else []
        expected = kept + [batch["samples"] for batch in message["batches"]]
    elif kind == "step" and "page" in message:
        step_with_words(message)
    elif kind == "step":
        steps += 1
        first = int(when.removeprefix("from "))
        if how not in ("", "slow") and (steps == first or when.startswith("from") and steps > first):
            misbehave(message)
        else:
            step(message)
    elif kind == "stage":
        stages[message["stage"]] = message
        send(type="done")
    elif kind in ("forward", "backward", "forward_backward"):
        take_pass(message)
    elif kind == "finish":
        finish(message)
    elif kind == "leave":
        stages.pop(message["stage"], None)
    elif kind == "evaluate":
        while how == "evaluate-late" and not os.path.exists(when):
            time.sleep(0.01)
        send(type="evaluated", metrics={"loss": sum(read(message["weights"])[0]), "accuracy": 0.25, "f1": 0.5})
    elif kind == "end":
        if how == "fails-after":
            time.sleep(0.3)
            sys.exit(5)
        if how == "error-after":
            send(type="done")
            send(type="error", text="ValueError: no room", where="train.py:9", traceback="a\nb")
            sys.exit(1)
        if how == "stays-after":
            time.sleep(1000)
        if how == "tells-end":
            with open(os.environ["END_FILE"], "a") as file:
                file.write(f"{role} {'failed' if message['failed'] else 'done'}{' first' * message['first']}\n")
        break
