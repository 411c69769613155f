"""Plans the offsets of a batch of Kafka, and their shares for tasks. Pure decisions.

Positions are the JSON of Spark's own reader in its checkpoint: either reader continues where the other stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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


def limited(
    begins: Mapping[Place, int], ends: Mapping[Place, int], most: int, turns: Mapping[str, int], topics: int
) -> Positions:
    """The ends of a batch of about ``most`` offsets.

    If more are left, the batch takes every topic without a turn: new tables are created together, and their first
    records take longest. Then topics with the lowest ``turns`` follow, only as many as fill the batch if each gives
    the part of one of ``topics`` at most. So the batch writes to few tables, each of which has a fixed cost. These
    topics get equal numbers of offsets; what one does not have goes to the others. Each of their partitions with
    offsets left advances by at least one offset.
    """
    left: dict[str, dict[Place, int]] = {}
    for place, end in sorted(ends.items()):
        if end > begins[place]:
            left.setdefault(place[0], {})[place] = end - begins[place]
    counts = {topic: sum(places.values()) for topic, places in left.items()}
    room = most if sum(counts.values()) > most else sum(counts.values())
    found = {place: begins[place] for place in ends}
    chosen = sorted(_chosen(counts, room, turns, topics), key=lambda topic: counts[topic])
    for index, topic in enumerate(chosen):
        taken = min(counts[topic], max(1, room // (len(chosen) - index)))
        room -= taken
        for place, count in _in_proportion(left[topic], taken):
            found[place] += count
    return found


def _chosen(counts: Mapping[str, int], room: int, turns: Mapping[str, int], topics: int) -> Iterator[str]:
    part = -(-room // topics)
    for topic in sorted(counts, key=lambda one: (turns.get(one, -1), one)):
        if room <= 0 and topic in turns:
            return
        yield topic
        room -= min(part, counts[topic])


def _in_proportion(left: Mapping[Place, int], taken: int) -> Iterator[tuple[Place, int]]:
    """The offsets of each partition; at least one, so that none waits for ever."""
    total, seen = sum(left.values()), 0
    for place, count in left.items():
        yield place, max(1, (seen + count) * taken // total - seen * taken // total)
        seen += count


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
