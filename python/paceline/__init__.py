"""PyTorch programs as workers of Paceline.

    job = paceline.join(model, train_set, optimizer=optimizer, evaluate=validate, batch_size=32, epochs=3)
    for x, y in job:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        job.step(loss)

docs/python.md has the details.
"""

from ._version import __version__
from .devices import device, device_count
from .errors import PacelineError
from .first_seed import seed_program
from .joining import join, run

__all__ = ["PacelineError", "__version__", "device", "device_count", "join", "run"]

seed_program()
