"""Ranges of topics read again, between offsets that the stream has passed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession

from sources.kafka.admin import KafkaAdmin
from sources.kafka.lost_records import RecordsLost, loss_words, lost_records
from sources.kafka.offset_ranges import earlier, offsets_of, ranges_of, shared, text_of, to_bytes
from sources.kafka.settings import KafkaSettings
from sources.loss import Loss
from sources.planned_stream import SHARE
from sources.positions import Place
from sources.slices import Slice


class KafkaSlices:
    """The ``SliceReader`` of topics in Kafka."""

    def __init__(
        self,
        settings: KafkaSettings,
        admin: Callable[[], AbstractContextManager[KafkaAdmin]],
        pass_over: Callable[[Sequence[Loss]], None],
    ) -> None:
        """``pass_over`` reports losses if ``on_data_loss`` is ``continue``."""
        self._settings = settings
        self._admin = admin
        self._pass_over = pass_over

    def next(self, begin: str | None, limit: str, topics: Collection[str] | None, most_records: int) -> Slice | None:
        """See ``SliceReader``; partitions share the offsets of a slice in proportion to their remaining records."""
        begins, ends = self._range(begin, limit, topics)
        left = {place: end - begins[place] for place, end in ends.items() if end > begins[place]}
        if not left:
            return None
        total = sum(left.values())
        if total > most_records:
            left = {place: max(1, count * most_records // total) for place, count in left.items()}
        return Slice(
            text_of(begins), text_of({place: at + left.get(place, 0) for place, at in begins.items() if place in ends})
        )

    def topics(self, position: str) -> frozenset[str] | None:
        return frozenset(topic for (topic, _), at in offsets_of(position).items() if at > 0)

    def left(self, begin: str | None, limit: str, topics: Collection[str] | None) -> int | None:
        begins, ends = self._range(begin, limit, topics)
        return sum(max(0, end - begins[place]) for place, end in ends.items())

    def missing(self, begin: str | None, limit: str, topics: Collection[str]) -> str | None:
        """See ``SliceReader``; ignores gaps that compaction left between offsets."""
        ends = {place: at for place, at in offsets_of(limit).items() if not topics or place[0] in topics}
        with self._admin() as admin:
            there = admin.topic_ids()
            bounds = admin.bounds({topic for topic, _ in ends if topic in there})
        begins = offsets_of(begin or "{}")
        losses = lost_records(
            {place: begins.get(place, 0) for place, at in ends.items() if begins.get(place, 0) < at}, bounds
        )
        unread = sorted(set(topics) - {topic for topic, _ in ends})
        told = [loss_words(losses)] if losses else []
        told += [f"topic {topic} is no longer read" for topic in unread]
        return "; ".join(told) or None

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        with self._admin() as admin:
            there = admin.topic_ids()
            names = [name for name in there if (name in topics if topics else self._settings.topics.selects(name))]
            return text_of(admin.offsets_at(names, time_ms))

    def position_at_offsets(self, offsets: Mapping[Place, int]) -> str | None:
        return text_of(offsets)

    def offsets(self, position: str) -> Mapping[Place, int] | None:
        return offsets_of(position)

    def earlier(self, position: str, other: str) -> str:
        return earlier(position, other)

    def ends(self, topics: Collection[str]) -> Mapping[Place, int]:
        with self._admin() as admin:
            return admin.ends(topics)

    def records(self, spark: SparkSession, piece: Slice, topics: Collection[str] | None, slots: int) -> DataFrame:
        ends = offsets_of(piece.end)
        begins = {place: at for place, at in offsets_of(piece.begin or "{}").items() if ends.get(place, at) > at}
        if self._settings.is_direct:
            ranges = ranges_of(begins, {place: ends[place] for place in begins})
            shares = [(bytearray(to_bytes(share)),) for share in shared(ranges, slots)]
            return spark.createDataFrame(shares, f"{SHARE} binary not null")
        options = self._settings.reader_options(slots, len(begins))
        for name in ("subscribe", "subscribePattern", "maxOffsetsPerTrigger"):
            options.pop(name, None)
        partitions: defaultdict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(begins):
            partitions[topic].append(partition)
        options |= {
            "assign": json.dumps(partitions),
            "startingOffsets": text_of(begins),
            "endingOffsets": text_of({place: ends[place] for place in begins}),
        }
        return spark.read.format("kafka").options(**options).load()

    def _range(
        self, begin: str | None, limit: str, topics: Collection[str] | None
    ) -> tuple[dict[Place, int], dict[Place, int]]:
        """The begin and end in each partition of ``topics`` that the stream has read."""
        wanted = {place: at for place, at in offsets_of(limit).items() if topics is None or place[0] in topics}
        with self._admin() as admin:
            there = admin.topic_ids()
            bounds = admin.bounds({topic for topic, _ in wanted if topic in there})
        if begin is None:
            return {place: bounds[place].begin if place in bounds else at for place, at in wanted.items()}, wanted
        known = offsets_of(begin)
        # An unknown partition was added later: the stream has read it from its first record.
        begins = {place: known.get(place, bounds[place].begin if place in bounds else 0) for place in wanted}
        losses = lost_records({place: at for place, at in begins.items() if at < wanted[place]}, bounds)
        if losses and not self._settings.goes_on_after_loss:
            raise RecordsLost(
                f"Kafka no longer holds the records that the table misses: {loss_words(losses)}. Fill the table "
                "from another copy of the source. To continue without them, set `on_data_loss: continue`; their "
                "rows then keep old values until later records change them"
            )
        self._pass_over(losses)
        first = {place: held.begin for place, held in bounds.items()}
        return {
            place: max(at, min(first.get(place, wanted[place]), wanted[place])) for place, at in begins.items()
        }, wanted
