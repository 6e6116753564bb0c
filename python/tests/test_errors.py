"""An error in a program is one line for those who started the job, and says where it happened."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from fake_member import Member
from scripts import HEAD, LOOP

from paceline.errors import PacelineError
from paceline.small_batches import SmallBatches

# name, what join() is called with, what the error says
REFUSED = {
    "a data loader": ("Net(), torch.utils.data.DataLoader(Points())", "loader.dataset"),
    "an iterable data set": ("Net(), Stream()", "map-style data set"),
    "a generator": ("Net(), iter([1])", "map-style data set"),
    "no length": ("Net(), NoLength()", "give it __len__"),
    "no samples": ("Net(), Points(0)", "has 0 samples"),
    "shuffle": ("Net(), Points(), shuffle=True", "join() takes no shuffle: Paceline shuffles"),
    "a data loader that draws": (
        "Net(), torch.utils.data.DataLoader(Points(), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 64, 64))",
        "num_workers=. Its sampler has no place in a job",
    ),
    "a sampler that draws": (
        "Net(), Points(), sampler=torch.utils.data.WeightedRandomSampler([1.0] * 64, 64)",
        "weight their losses, or name them several times in Subset(train_set, indices)",
    ),
    "a model without values": (
        "nn.Linear(6, 3, device='meta'), Points()",
        "is on the device meta; call model.to_empty(",
    ),
    "a sampler": ("Net(), Points(), sampler=[1, 2]", "join() takes no sampler: Paceline leases the samples"),
    "drop_last": ("Net(), Points(), drop_last=1.5", "drop_last = 1.5 is neither True nor False"),
    "a least batch": ("Net(), Points(), least_batch=0", "least_batch = 0 is not a number of samples"),
    "a misspelt argument": (
        "Net(), Points(), num_worker=1",
        "takes no argument 'num_worker'; did you mean num_workers=?",
    ),
    "an argument like no other": ("Net(), Points(), zzz=1", "takes no argument 'zzz'; help(paceline.join)"),
    "negative workers": ("Net(), Points(), num_workers=-1", "num_workers = -1"),
    "batches ahead and no loader process": (
        "Net(), Points(), prefetch_factor=4",
        "prefetch_factor is for loader processes",
    ),
    "loader processes that stay, and none": (
        "Net(), Points(), num_workers=0, persistent_workers=True",
        "persistent_workers is for loader processes",
    ),
    "a lazy module": ("nn.LazyLinear(3), Points()", "weight has no shape yet"),
    "nothing to train": (
        "nn.Linear(1, 1).requires_grad_(False), Points()",
        "before join(), call requires_grad_() on those",
    ),
    "a wrapped model": ("nn.DataParallel(Net()), Points()", "wrapped in DataParallel"),
    "complex numbers": (
        "nn.Linear(2, 2, dtype=torch.cfloat), Points()",
        "complex64, which Paceline does not know; keep torch.view_as_real()",
    ),
    "overlaps": ("Overlapping(), Points()", "two tensors over the same memory"),
    "evaluate of two": ("Net(), Points(), evaluate=lambda a, b: 1", "evaluate takes the model or nothing"),
    "a strange way of weights": ("Net(), Points(), weights='move'", 'neither "view" nor "copy"'),
    "a module of torch.jit": ("torch.jit.script(nn.Linear(6, 3)), Points()", "ScriptModule of torch.jit"),
    "a scheduler that it does not know": (
        "(net := Net()), Points(), optimizer=with_schedule(net)",
        "has a scheduler, which join() was not given",
    ),
    "a scheduler of steps that is said to count epochs": (
        "(net := Net()), Points(), optimizer=(found := with_schedule(net)), schedule=found.schedule, epochs=3",
        'write schedule_per="step"',
    ),
    "a scaler alone": ("Net(), Points(), scaler=object()", "scaler= needs optimizer="),
    "a schedule alone": ("Net(), Points(), schedule=object()", "schedule= needs optimizer="),
    "no clipping": ("Net(), Points(), clip=0", "clip = 0"),
    "two optimizers": (
        "Net(), Points(), optimizer=[1, 2]",
        "optimizer= takes one optimizer of torch.optim, and not list; give join() one, with a group of parameters for each",
    ),
    "an optimizer's class": ("Net(), Points(), optimizer=torch.optim.SGD", "and not the class SGD"),
    "the model second": ("Points(), Net()", "join() takes a torch.nn.Module first, and not Points"),
    "a model's class": ("Net, Points()", "and not the class Net"),
    "tensors": ("Net(), (torch.zeros(9), torch.zeros(9))", "give it TensorDataset(x, y)"),
    "a folder": ("Net(), 'data/train'", "wants a data set and not the text 'data/train'"),
    "a batch of nothing": ("Net(), Points(), batch_size=0", "batch_size = 0 is not a number of samples"),
    "whole batches": ("Net(), Points(), batch_size=None", "write batch_size=1 and collate_fn=lambda items: items[0]"),
    "half a batch": ("Net(), Points(), batch_size=0.5", "batch_size = 0.5 is not a number of samples"),
    "epochs as a text": ("Net(), Points(), epochs='3'", "epochs = '3' is not a number of epochs"),
    "endless epochs": ("Net(), Points(), epochs=float('inf')", "epochs = inf is not a number of epochs"),
    "a number for evaluate": ("Net(), Points(), evaluate=0.5", "evaluate = 0.5 is not a function"),
    "a number for collate_fn": ("Net(), Points(), collate_fn=5", "collate_fn = 5 is not a function"),
    "a digest that is no text": ("Net(), Points(), digest=5", "digest = 5 is not a text"),
}

KINDS = """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])
class NoLength:
    def __getitem__(self, index):
        return index
class Overlapping(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.zeros(10)
        self.a, self.b = nn.Parameter(whole[:6]), nn.Parameter(whole[4:])
def with_schedule(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 500))
    return optimizer
"""


@pytest.mark.parametrize("what", REFUSED)
def test_what_join_refuses(tmp_path: Path, what: str) -> None:
    arguments, says = REFUSED[what]
    with Member(tmp_path, HEAD + KINDS + f"\njob = paceline.join({arguments})\n", role="probe") as member:
        error = member.receive("error")
        assert (
            says in error["text"]
            and "\n" not in error["text"]
            and error["where"] == f"train.py:{(HEAD + KINDS).count(chr(10)) + 2}"
        )
        assert not error["text"].startswith("PacelineError")
        assert member.wait() == 1


# name, the program, what the error says, its line behind the head's
BODIES = {
    "in the loop's body": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    raise ValueError('two\\nlines')\n",
        "ValueError: two lines",
        4,
    ),
    "in what the body calls": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model(x[:, :2])\n",
        "RuntimeError: mat1 and mat2",
        26 - 29,  # the line at which the model computes
    ),
    "before the loop": (
        "model = Net()\njob = paceline.join(model, Points())\n{}['a']\n",
        "KeyError: 'a'",
        3,
    ),
    "in the data set": (
        "class Bad(Points):\n    def __getitem__(self, index):\n        return self.x[index + 1000]\nmodel = Net()\njob = paceline.join(model, Bad())\n" + LOOP,
        "IndexError: index 1001 is out of bounds",
        3,
    ),
    "in the data set in a loader process": (
        "class Bad(Points):\n    def __getitem__(self, index):\n        return self.x[index + 1000]\nmodel = Net()\njob = paceline.join(model, Bad(), num_workers=1)\n" + LOOP,
        "IndexError: index 1001 is out of bounds",
        3,
    ),
    "in collate_fn in a loader process": (
        "def collate(samples):\n    raise ZeroDivisionError\nmodel = Net()\njob = paceline.join(model, Points(), num_workers=1, collate_fn=collate)\n" + LOOP,
        "ZeroDivisionError",
        2,
    ),
    "an exception that cannot be sent in a loader process": (
        "class Odd(Exception):\n    def __init__(self, a, b):\n        super().__init__(a)\nclass Bad(Points):\n    def __getitem__(self, index):\n        raise Odd('x', lambda: 1)\nmodel = Net()\njob = paceline.join(model, Bad(), num_workers=1)\n" + LOOP,
        "Odd: x",
        6,
    ),
    "step twice": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    job.step(1)\n    job.step(1)\n",
        "job.step() was called twice",
        5,
    ),
    "step too early": (
        "model = Net()\njob = paceline.join(model, Points())\njob.step(1)\n",
        "before the first batch",
        3,
    ),
    "no step": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    pass\n",
        "without job.step(); call it once for each batch; before a `continue` that leaves a batch out, write job.step(loss, skipped=True); leave out what takes a batch before its turn",
        3,
    ),
    "a gradient behind the step": ("model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    job.step(1)\n    model.last.bias.grad.norm()\n",
        "has no attribute 'norm'; if that is a gradient: job.step() has sent it, and there is none behind it", 5),
    "a continue": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    if len(x) < 100:\n        continue\n",
        "before a `continue` that leaves a batch out, write job.step(loss, skipped=True)",
        3,
    ),
    "accumulated gradients": (
        "model = Net()\njob = paceline.join(model, Points())\nfor i, (x, y) in enumerate(job):\n    loss = loss_of(model, x, y)\n    loss.backward()\n    if i % 4 == 3:\n        job.step(loss)\n",
        "once for each batch; to accumulate gradients, give join() a larger batch_size=, and write --set micro_batch=",
        3,
    ),
    "a scaler that join() does not know": (
        "model = Net()\nscaler = torch.amp.GradScaler('cpu')\njob = paceline.join(model, Points())\nfor x, y in job:\n    loss = loss_of(model, x, y)\n    scaler.scale(loss).backward()\n    job.step(loss)\n",
        "give join() scaler=",
        7,
    ),
    "no gradient": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.zero_grad()\n    job.step(loss_of(model, x, y))\n",
        "no parameter of the model got a gradient in 3 batches; call backward()",
        5,
    ),
    "gradients of another model": (
        "import copy\nmodel = Net()\nother = copy.deepcopy(model)\noptimizer = torch.optim.Adam(model.parameters())\njob = paceline.join(model, Points(), optimizer=optimizer)\nfor x, y in job:\n    optimizer.zero_grad()\n    loss = loss_of(other, x, y)\n    loss.backward()\n    job.step(loss)\n",
        "computed with the model that join() got",
        10,
    ),
    "a buffer that came": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.norm.register_buffer('late', torch.zeros(1))\n    job.step(1)\n",
        "the buffer norm.late came after join(), so it would be in no export; register it before join(), or with",
        5,
    ),
    "a parameter that is pruned": (
        "from torch.nn.utils import prune\nmodel = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    prune.l1_unstructured(model.first, 'weight', 0.5)\n    job.step(1)\n",
        "build, prune and parametrize the whole model before",
        6,
    ),
    "the optimizer's step": (
        "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\njob = paceline.join(model, Points(), optimizer=optimizer)\nfor x, y in job:\n    optimizer.step()\n",
        "optimizer.step() was called",
        5,
    ),
    "a loss of many": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    job.step(torch.ones(3))\n",
        "the loss is not one number but a Tensor of shape [3]",
        4,
    ),
    "no loss": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    job.step(None)\n",
        "the loss is not one number but NoneType",
        4,
    ),
    "a parameter that came": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.more = nn.Linear(1, 1)\n    job.step(1)\n",
        "the parameter more.weight came after join()",
        5,
    ),
    "a parameter that went": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    del model.norm\n    job.step(1)\n",
        "the parameter norm.weight was removed",
        5,
    ),
    "a parameter of another shape": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.first.bias.data = torch.zeros(2)\n    job.step(1)\n",
        "first.bias had the shape [8] at join() and has [2] now",
        5,
    ),
    "a parameter that was replaced": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.first.bias = nn.Parameter(torch.zeros(8))\n    job.step(1)\n",
        "the parameter first.bias came after join()",
        5,
    ),
    "a parameter that thaws": (
        "model = Net()\nmodel.first.requires_grad_(False)\njob = paceline.join(model, Points())\nfor x, y in job:\n    model.first.requires_grad_(True)\n    job.step(1)\n",
        "first.weight was frozen at join()",
        6,
    ),
    "join twice": (
        "model = Net()\njob = paceline.join(model, Points())\npaceline.join(model, Points())\n",
        "join() was called twice",
        3,
    ),
    "a break": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    break\n",
        "left before the job's end (by break, return, an exception or next(iter(job))); let it run to its end",
        4,
    ),
    "a first batch alone": (
        "model = Net()\njob = paceline.join(model, Points())\nx, y = next(iter(job))\n",
        "next(iter(job))); let it run to its end, which epochs= or evaluate.stop_at_target sets, and take samples",
        3,
    ),
    "an exception that is followed by long work": (
        "import time\nmodel = Net()\njob = paceline.join(model, Points())\ntry:\n    for x, y in job:\n        raise ValueError('no such thing')\nfinally:\n    time.sleep(4)\n",
        "ValueError: no such thing",
        6,
    ),
    "an exit": (
        "model = Net()\njob = paceline.join(model, Points())\nfor x, y in job:\n    sys.exit(1)\n",
        "left before the job's end",
        4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BODIES)
def test_what_goes_wrong_in_a_program(tmp_path: Path, what: str) -> None:
    body, says, line = BODIES[what]
    with Member(tmp_path, HEAD + body) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        member.order([1, 2, 3])
        error = member.receive()
        while error["type"] == "stepped":
            member.order([1, 2, 3])
            error = member.receive()
        assert error["type"] == "error" and says in error["text"], error
        assert "\n" not in error["text"]
        assert error["where"] == f"train.py:{HEAD.count(chr(10)) + line}", error
        assert member.wait() == (0 if what in ("a break", "a first batch alone") else 1)
        if what not in ("a break", "a first batch alone", "an exit"):
            # A line explains what the package itself refuses.
            assert ("Traceback" in member.log) == bool(re.match(r"\w+(: |$)", error["text"]))
            assert ("in a loader process" in what) == ("in a loader process" in member.log)


def test_a_batch_that_is_too_small_says_which_word_keeps_batches_larger(tmp_path: Path) -> None:
    body = """
def loss_of(model, x, y):
    assert len(x) >= 3, "too few"
    return F.cross_entropy(model(x), y)
job = paceline.join(model := Net(), Points())
"""
    with Member(tmp_path, HEAD + body + LOOP) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        for samples in ([1, 2, 3, 4, 5], [6, 7, 8]):
            member.order(samples)
            assert member.receive()["type"] == "stepped"
        member.order([9, 10])
        error = member.receive("error")
    assert error["text"] == (
        "AssertionError: too few; this batch has 2 samples, and all before it had 3 or more: if the program cannot "
        "compute on so few, give join() least_batch=3, or drop_last=True"
    )


def test_batches_that_are_not_small_get_no_advice() -> None:
    small = SmallBatches()
    norm = ValueError("Expected more than 1 value per channel when training")
    assert "give join() least_batch=2" in small.way_out(1, norm)
    assert small.way_out(1, ValueError("wrong")) == ""  # nothing larger was computed
    small.computed(16)
    assert "least_batch=6" in small.way_out(3, ValueError("wrong"))
    assert small.way_out(16, ValueError("wrong")) == ""
    assert small.way_out(3, PacelineError("wrong")) == ""
    small.computed(2)
    assert small.way_out(3, ValueError("wrong")) == ""


@pytest.mark.parametrize("role", ["worker", "evaluator"])
def test_a_model_that_moves_after_join(tmp_path: Path, role: str) -> None:
    body = """
model = Net()
job = paceline.join(model, Points(), evaluate=lambda: 1.0)
model.to("meta")
"""
    with Member(tmp_path, HEAD + body + LOOP, role=role) as member:
        member.take_model()
        member.map(0, write=False)
        member.map(1, write=True)
        if role == "worker":
            member.order([1, 2, 3])
        else:
            member.send({"type": "evaluate", "weights": [[0, 0, 0]]})
        error = member.receive("error")
        assert error["text"] == "first.weight was on cpu at join() and is on meta now; move the model before join()"


def test_an_error_stream_of_ones_own(tmp_path: Path) -> None:
    body = """
class Tee:
    def write(self, text):
        return sys.__stderr__.write(text)
    def flush(self):
        pass
sys.stderr = Tee()
model = Net()
job = paceline.join(model, Points())
"""
    with Member(tmp_path, HEAD + body + LOOP) as member:
        member.begin()
        member.step([1, 2])
        assert member.end() == 0, member.log


def test_what_fails_before_join(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + "open('/nonexistent/data')\n") as member:
        error = member.receive("error")
        assert error["text"].startswith("FileNotFoundError") and error["where"] == "train.py:30"
        assert member.wait() == 1


def test_a_break_is_told_while_the_script_goes_on(tmp_path: Path) -> None:
    body = """
import time
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    break
time.sleep(20)
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.order([1])
        before = time.monotonic()
        assert "left before" in member.receive("error")["text"]
        assert time.monotonic() - before < 5


def test_a_program_without_a_loop(tmp_path: Path) -> None:
    with Member(tmp_path, HEAD + "job = paceline.join(Net(), Points())\n") as member:
        member.receive("model")
        assert "without a loop over the job" in member.receive("error")["text"]
        assert member.wait() == 0


def test_another_excepthook_is_called_too(tmp_path: Path) -> None:
    body = """
sys.excepthook = lambda kind, error, trace: print("mine:", kind.__name__)
job = paceline.join(Net(), Points())
for x, y in job:
    raise ValueError("oh")
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.order([1])
        assert member.receive("error")["text"] == "ValueError: oh"
        assert member.wait() == 1
        assert "mine: ValueError" in member.log


def test_what_fails_after_the_job_is_the_scripts_own(tmp_path: Path) -> None:
    with Member(
        tmp_path, HEAD + "model = Net()\njob = paceline.join(model, Points())\n" + LOOP + "\n1 / 0\n"
    ) as member:
        member.begin()
        assert member.end() == 1
        assert "ZeroDivisionError" in member.log


def test_an_error_after_a_tensor_changed_ends_well(tmp_path: Path) -> None:
    """The end has to give all tensors memory of their own, changed or not."""
    body = """
model = Net()
job = paceline.join(model, Points())
for x, y in job:
    job.step(1.0)
    del model.norm
    model.norm = nn.Identity()
print("after the loop")
"""
    with Member(tmp_path, HEAD + body) as member:
        member.begin()
        member.step([1])
        assert member.end() == 0, member.log
        assert "after the loop" in member.log
