"""Samples of topics: which records are looked at, and topics that the user may not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sources.changes import RECORD_SCHEMA
from sources.kafka.failures import NotAllowed
from sources.kafka.offset_ranges import from_bytes
from sources.kafka.sampling import KafkaSampler
from sources.kafka.settings import KafkaSettings
from sources.positions import Bounds
from sources.samples import TopicFacts
from sources.topics import TopicSelection


class ScriptedReader:
    """Reads every offset of ranges, but refuses shares with one of the topics ``refused``."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def __call__(self, shares: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for share in shares:
            for one in reversed(from_bytes(share)):
                if one.place[0] in self.refused:
                    raise NotAllowed(f"not {one.place[0]}")
                rows = [
                    {"topic": one.place[0], "partition": one.place[1], "offset": n} for n in range(one.begin, one.end)
                ]
                yield pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def sampler(*refused: str) -> KafkaSampler:
    made = KafkaSampler(KafkaSettings("127.0.0.1:1", TopicSelection(), {}))
    made._reader = ScriptedReader(*refused)  # type: ignore[assignment]
    return made


FACTS = {name: TopicFacts({(name, p): Bounds(10 * p, 10 * p + 9, 10 * p + 9) for p in range(2)}) for name in ("a", "b")}


def places(batch: pa.RecordBatch) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in batch.to_pylist()]


def test_a_sample_has_the_first_and_the_newest_records_in_order() -> None:
    found = sampler().sample(FACTS, 8, {("b", 1): 17})

    first, last = map(places, found.batches)
    assert first == [
        *((t, p, 10 * p + n) for t, p in (("a", 0), ("a", 1), ("b", 0)) for n in (0, 1)),
        ("b", 1, 17),
        ("b", 1, 18),
    ]
    assert last == [(t, p, 10 * p + n) for t, p in (("a", 0), ("a", 1), ("b", 0)) for n in (7, 8)]
    assert (found.counts, found.unreadable) == ({"a": 18, "b": 18}, {})


def test_topics_that_may_not_be_read_are_told_and_the_others_read() -> None:
    found = sampler("a").sample(FACTS, 4)

    assert {place[0] for batch in found.batches for place in places(batch)} == {"b"}
    assert found.unreadable == {"a": "this user may not read it; grant Read on the topic"}
    assert sampler("a", "b").sample(FACTS, 4).batches == ()
