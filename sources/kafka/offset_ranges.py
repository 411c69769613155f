"""Plans the offsets of a batch of Kafka, and their shares for tasks. Pure decisions.

Positions are the JSON of Spark's own reader in its checkpoint: either reader continues where the other stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sources.positions import Place, Positions

LEAST_PER_TASK = 500
"""With fewer offsets, a further task costs more than it saves."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from ``begin`` up to but without ``end`` of one partition."""

    place: Place
    begin: int
    end: int


def offsets_of(text: str) -> Positions:
    """Spark's text of a position in Kafka as offsets per partition."""
    return {(topic, int(p)): int(at) for topic, places in json.loads(text).items() for p, at in places.items()}


def text_of(positions: Mapping[Place, int]) -> str:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(nested, separators=(",", ":"))


def earlier(position: str, other: str) -> str:
    """The earlier of two positions in each partition; ``other`` determines the partitions."""
    named = offsets_of(position)
    return text_of({place: min(at, named.get(place, at)) for place, at in offsets_of(other).items()})


def limited(begins: Mapping[Place, int], ends: Mapping[Place, int], most: int) -> Positions:
    """The ends of a batch of at most ``most`` offsets, shared in proportion to the offsets left in each partition.

    Each partition with offsets left advances by at least one offset.
    """
    left = {place: end - begins[place] for place, end in ends.items() if end > begins[place]}
    total = sum(left.values())
    if total <= most:
        return {place: max(end, begins[place]) for place, end in ends.items()}
    found, seen = {place: begins[place] for place in ends}, 0
    for place, count in sorted(left.items()):
        taken = (seen + count) * most // total - seen * most // total
        found[place] += max(1, taken)
        seen += count
    return found


def ranges_of(begins: Mapping[Place, int], ends: Mapping[Place, int]) -> list[OffsetRange]:
    return [OffsetRange(place, begins[place], end) for place, end in sorted(ends.items()) if end > begins[place]]


def shared(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """The ranges in as many shares as there are tasks, of similar size, each of neighbours; fewer for few offsets."""
    total = sum(one.end - one.begin for one in ranges)
    size = max(LEAST_PER_TASK, -(-total // max(1, tasks)))
    shares: list[list[OffsetRange]] = []
    room = 0
    for one in ranges:
        begin = one.begin
        while begin < one.end:
            if room <= 0:
                shares.append([])
                room = size
            end = min(one.end, begin + room)
            shares[-1].append(OffsetRange(one.place, begin, end))
            room -= end - begin
            begin = end
    return shares


def to_bytes(share: Sequence[OffsetRange]) -> bytes:
    return json.dumps([[*one.place, one.begin, one.end] for one in share]).encode()


def from_bytes(data: bytes) -> list[OffsetRange]:
    return [OffsetRange((topic, partition), begin, end) for topic, partition, begin, end in json.loads(data)]
