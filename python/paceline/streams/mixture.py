"""Several sources in one stream, by weights."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PacelineError, kind_of
from ..seeding import mix
from .files import Opened
from .order import Pass
from .remote import file_name
from .shuffling import permuted
from .source import is_sized, up_to

_PART = 4096  # records of the mixture; in each, a source has its share as exactly as a whole number can
_MOST_RECORDS = 1 << 32
_MOST_CHANGES = 200  # entries of then=
_INTERLEAVE = 8
_ORDER = (4096, _INTERLEAVE, 16)  # shuffle, interleave and stride of each source
_WINDOW = 2 * 4096


class Mixture:
    """A source of `{name: (source, weight)}`. A pass of it ends once each record of each source was in it.

    So the source with the most records for its weight is read once, and the others again from their beginning in
    another order, as often as their weights want it. Which record stands where is a function of the seed, the weights
    and the lengths. The mixture itself orders its records, so its stream keeps their order but for `shuffle`.
    """

    in_order = True

    def __init__(
        self,
        sources: Mapping[str, tuple[Any, float]],
        seed: int = 0,
        then: Mapping[int, Mapping[str, float]] | None = None,
    ) -> None:
        """then: {record: {name: weight}}, other weights from that record of a pass on, a multiple of 4096.

        A resumed run may have new ones, from any record on that it has not come to.
        """
        if not isinstance(sources, Mapping):
            raise PacelineError(f"a Mixture was given {kind_of(sources)}; give it {{name: (source, weight)}}")
        if not sources:
            raise PacelineError("a Mixture was given no sources; give it {name: (source, weight)}")
        for name, pair in sources.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or not hasattr(pair[0], "shards"):
                raise PacelineError(f"{name!r} in the Mixture is {kind_of(pair)}; write (source, weight)")
            if not is_sized(pair[0]):
                raise PacelineError(
                    f"nobody knows the length of {name!r} in the Mixture before it was read; give the source length= "
                    "or lengths="
                )
            if getattr(pair[0], "window", _WINDOW) < _WINDOW:
                raise PacelineError(
                    f"{name!r} in the Mixture keeps {pair[0].window} records in memory, and {_WINDOW} are needed; "
                    f"give the source window={_WINDOW}"
                )
        self._seed = operator.index(seed)
        self._names = list(sources)
        self._sources = [source for source, _ in sources.values()]
        for source in self._sources:
            if hasattr(source, "opens"):
                source.opens(min(_INTERLEAVE, len(source.shards())))
        self._spans = self._all_spans({name: weight for name, (_, weight) in sources.items()}, then or {})
        # Plain numbers: NumPy's have another repr() in each of its versions, and order() is compared.
        self._lengths = [
            [up_to(source, shard, 1 << 62) for shard in range(len(source.shards()))] for source in self._sources
        ]
        for name, lengths in zip(sources, self._lengths):
            if not sum(lengths):
                raise PacelineError(f"{name!r} in the Mixture has no records; leave it out")
        self._laps: Opened[Pass] = Opened(self._lap, most=4 * len(sources), keep=True)
        self._parts: Opened[list[tuple[int, int]]] = Opened(self._part, most=64, keep=True)
        self._records = 1 + max(
            self._position(source, sum(lengths) - 1) for source, lengths in enumerate(self._lengths)
        )
        if self._records > _MOST_RECORDS:
            raise PacelineError(
                f"a pass of the Mixture has {self._records} records until each record of each source was in it, and "
                f"{_MOST_RECORDS} are possible; give the largest source more weight"
            )

    def shards(self) -> list[str]:
        return [f"part {part} of the mixture" for part in range(-(-self._records // _PART))]

    def length(self, shard: int) -> int:
        return min(self._records - shard * _PART, _PART)

    def read(self, shard: int, records: Sequence[int], number: int = 0) -> list[Any]:
        """number: of the pass. In another pass the sources give their records in another order."""
        wanted: dict[tuple[int, int], list[tuple[int, int]]] = {}  # source and its shard: record, place in the list
        for at, record in enumerate(records):
            source, its_shard, its_record = self._place(shard, record, number)
            wanted.setdefault((source, its_shard), []).append((its_record, at))
        found: list[Any] = [None] * len(records)
        # A source that begins again may give one record twice here.
        numbers = {key: sorted({record for record, _ in places}) for key, places in wanted.items()}
        values = self._read_all(numbers)
        for key, places in wanted.items():
            first: dict[int, int] = {}  # the place in the list of a record's first occurrence
            by_number = dict(zip(numbers[key], values[key]))
            for record, at in places:
                # Who gets a record may write to it, for example in map=.
                found[at] = by_number.pop(record) if record in by_number else copy.deepcopy(found[first[record]])
                first.setdefault(record, at)
        return found

    def record_name(self, shard: int, record: int, number: int) -> str:
        source, its_shard, its_record = self._place(shard, record, number)
        shards = self._sources[source].shards()
        return f"record {its_record} of the shard {shards[its_shard]} of {self._names[source]!r} in the Mixture"

    def _place(self, shard: int, record: int, number: int) -> tuple[int, int, int]:
        """The source, its shard and its record at a place of the mixture."""
        source, its_number = self._parts.get(shard)[record]
        lap, inside = divmod(its_number, sum(self._lengths[source]))
        ((its_shard, its_record),) = self._laps.get(source, lap, number).places(inside, inside + 1)
        return source, its_shard, its_record

    def reading(self, other: Callable[[str, Any], Any]) -> Mixture:
        """The same mixture, whose sources are what `other` makes of their names and of them."""
        mixture = copy.copy(self)
        mixture._sources = [other(name, source) for name, source in zip(self._names, self._sources)]
        mixture._laps = Opened(mixture._lap, most=4 * len(self._sources), keep=True)
        mixture._parts = Opened(mixture._part, most=64, keep=True)
        return mixture

    def _read_all(self, wanted: Mapping[tuple[int, int], list[int]]) -> dict[tuple[int, int], list[Any]]:
        """The records of sources' shards. Readers that other processes share are asked for theirs at once."""
        found: dict[tuple[int, int], list[Any]] = {}
        for number, source in enumerate(self._sources):
            of_source = {shard: records for (one, shard), records in wanted.items() if one == number}
            if of_source and hasattr(source, "read_many"):
                many = source.read_many(of_source)
                found.update(((number, shard), records) for shard, records in many.items())
        for number, shard in wanted:
            if (number, shard) not in found:
                found[number, shard] = self._sources[number].read(shard, wanted[number, shard])
        return found

    def order(self) -> list[tuple[int, str]]:
        """Returns the records of a pass from which other weights hold, and a text for each that says them."""
        names = [[file_name(name) for name in source.shards()] for source in self._sources]
        same = repr((self._seed, self._names, names, self._lengths))
        spans = [span for span in self._spans if span.part * _PART < self._records]
        return [(span.part * _PART, f"{same} {span.shares}") for span in spans]

    def _all_spans(self, first: Mapping[str, float], then: Mapping[int, Mapping[str, float]]) -> list[_Span]:
        spans = [_Span(0, _shares(first), [0] * len(first))]
        are_records = isinstance(then, Mapping) and all(isinstance(record, int) for record in then)
        if not are_records or not all(isinstance(weights, Mapping) for weights in then.values()):
            raise PacelineError("then= of the Mixture is not {record: {name: weight}}; write for example {8192: {…}}")
        if len(then) > _MOST_CHANGES:
            raise PacelineError(f"then= of the Mixture has {len(then)} changes; write at most {_MOST_CHANGES}")
        for record, weights in sorted(then.items()):
            if record <= 0 or record % _PART:
                raise PacelineError(
                    f"then={{{record}: …}} of the Mixture is no multiple of {_PART}; write "
                    f"{max(1, -(-record // _PART)) * _PART}"
                )
            if set(weights) != set(first):
                raise PacelineError(
                    f"then={{{record}: …}} of the Mixture has weights for {', '.join(map(repr, weights))}; write one "
                    f"for each of {', '.join(map(repr, first))}"
                )
            last = spans[-1]
            part = record // _PART
            given = [so_far + (part - last.part) * share for so_far, share in zip(last.given, last.shares)]
            spans.append(_Span(part, _shares({name: weights[name] for name in first}), given))
        return spans

    def _lap(self, source: int, lap: int, number: int) -> Pass:
        lengths = self._lengths[source]
        seed = mix(self._seed, source, number)
        return Pass(len(lengths), lambda shard, most: min(most, lengths[shard]), True, seed, lap, *_ORDER)

    def _part(self, part: int) -> list[tuple[int, int]]:
        """For each record of a part: its source, and its number among all that this source has given."""
        span = next(span for span in reversed(self._spans) if span.part <= part)
        sources = [source for source, share in enumerate(span.shares) for _ in range(share)]
        given = [so_far + (part - span.part) * share for so_far, share in zip(span.given, span.shares)]
        records = []
        for at in permuted(_PART, self._seed, part).tolist():
            source = sources[at]
            records.append((source, given[source]))
            given[source] += 1
        return records

    def _position(self, source: int, number: int) -> int:
        """The position at which a source gives its record of this number."""
        span = next(span for span in reversed(self._spans) if span.given[source] <= number)
        part = span.part + (number - span.given[source]) // span.shares[source]
        return part * _PART + self._parts.get(part).index((source, number))


@dataclass(frozen=True)
class _Span:
    """Parts with the same weights."""

    part: int  # the first one
    shares: list[int]  # each source's records in a part
    given: list[int]  # each source's records in all parts before


def _shares(weights: Mapping[str, float]) -> list[int]:
    """Returns each source's records in a part, by the weights; what is left goes to the largest rests."""
    for name, weight in weights.items():
        if not isinstance(weight, (int, float)) or not 0 < weight < 1e100:
            raise PacelineError(f"the weight of {name!r} is {weight!r}; write a number above 0")
    total = sum(weights.values())
    exact = [weight * _PART / total for weight in weights.values()]
    shares = [int(share) for share in exact]
    by_rest = sorted(range(len(exact)), key=lambda at: shares[at] - exact[at])
    for at in by_rest[: _PART - sum(shares)]:
        shares[at] += 1
    for name, share in zip(weights, shares):
        if not share:
            raise PacelineError(f"the weight of {name!r} is below 1/{_PART} of all; give it more, or leave it out")
    return shares
