"""Parquet files: one record a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

from ..errors import PacelineError
from .files import Files, Opened, Paths, needs
from .source import changed, not_read

_FILES = 64
_REWRITE = "give a whole Parquet file, or leave this one out"


class ParquetFiles(Files):
    """Rows of Parquet files, as dicts of the columns' values.

    `columns`: the ones to read; all of them by default. `row_groups`: how many stay in memory, decompressed; a stream
    reads from `interleave` shards in turn, so each needs one, and one more when it goes on to the next.
    """

    def __init__(self, files: Paths, columns: Sequence[str] | None = None, row_groups: int = 16) -> None:
        super().__init__(files, (".parquet", ".pq"))
        needs("pyarrow.parquet", "pyarrow", "ParquetFiles")
        self._columns = None if columns is None else list(columns)
        self._opened: Opened[tuple[Any, list[int]]] = Opened(self._open, _FILES)
        self._groups: Opened[Any] = Opened(self._read_group, max(row_groups, 1))

    def length(self, shard: int) -> int:
        """Returns the rows that the file's footer says. No more of a file with an address is read for it."""
        if self._remote is None:
            return self._open(shard)[1][-1]
        return int(self.kept_index(shard, "rows 1", lambda: str(self._rows_of(shard)).encode()))

    def read(self, shard: int, records: Sequence[int]) -> list[Any]:
        begins = self._opened.get(shard)[1]
        found: list[Any] = []
        inside = [record for record in records if record < begins[-1]]
        for group, of_group in groupby(inside, lambda record: bisect_right(begins, record) - 1):
            rows = [record - begins[group] for record in of_group]
            table = self._groups.get(shard, group)
            if rows[-1] >= len(table):
                raise changed(self.files[shard], begins[-1], begins[group] + len(table))
            neighbours = rows[-1] - rows[0] == len(rows) - 1
            found += (table.slice(rows[0], len(rows)) if neighbours else table.take(rows)).to_pylist()
        return found

    def _open(self, shard: int) -> tuple[Any, list[int]]:
        """The open file, and the number of the first row in each group, with the file's rows at the end."""
        parquet = needs("pyarrow.parquet", "pyarrow", "ParquetFiles")
        self.size(shard)
        name = self.files[shard]
        try:
            file = self.using(shard, lambda path: parquet.ParquetFile(path, memory_map=True))
        except PacelineError:
            raise
        except Exception as error:
            raise not_read(name, error, _REWRITE) from error
        missing = set(self._columns or ()) - set(file.schema_arrow.names)
        if missing:
            names = ", ".join(file.schema_arrow.names)
            raise PacelineError(f"{name} has no column {min(missing)!r}; choose among these: {names}")
        groups = file.metadata
        rows = (groups.row_group(group).num_rows for group in range(groups.num_row_groups))
        return file, list(accumulate(rows, initial=0))

    def _rows_of(self, shard: int) -> int:
        assert self._remote is not None
        parquet = needs("pyarrow.parquet", "pyarrow", "ParquetFiles")

        def rows(file: Any) -> int | None:
            try:
                return int(parquet.read_metadata(file).num_rows)
            except ValueError:  # the server gives no parts of a file, or the file is damaged: its copy shows that
                return None

        found = self._remote.reading(self.files[shard], rows)
        return self._open(shard)[1][-1] if found is None else found

    def _read_group(self, shard: int, group: int) -> Any:
        self.size(shard)
        try:
            # Arrow's threads do not live on in a forked process.
            return self._opened.get(shard)[0].read_row_group(group, columns=self._columns, use_threads=False)
        except Exception as error:
            raise not_read(self.files[shard], error, _REWRITE) from error
