"""A job has no length: the number of batches of a worker depends on its speed."""

from __future__ import annotations


class Unsized:
    """This is true, and its len() raises TypeError, which progress bars and list() expect of such an object."""

    def __len__(self) -> int:
        raise TypeError(
            "a job has no len(), since a faster worker gets more batches; leave it out, and total= of a progress "
            "bar; a schedule may count ceil(samples / (batch_size * paceline.device_count())) steps an epoch"
        )

    def __bool__(self) -> bool:
        return True
