"""Reads shares of a batch in a decode task: librdkafka fetches offset ranges straight into Arrow batches.

Each Python worker keeps one consumer per cluster and properties from batch to batch. Between batches the consumer has
no assignment and asks Kafka for nothing. It fetches all ranges of a share in parallel. A range ends when a record at or
behind its end arrives, or when Kafka says that the partition ends there. The offsets after the last record may
belong to records that compaction removed, aborted transactions and markers, which no consumer sees.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, compress, count, pairwise
from operator import ne

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from paimon_table.errors import SinkUnavailable
from paimon_table.storage.secret import Secret
from sources.changes import RECORD_SCHEMA
from sources.kafka.client_errors import Trouble, error_of, to_debug
from sources.kafka.offset_ranges import OffsetRange, from_bytes
from sources.kafka.stores_look import REPLACED_FILES_UNUSABLE, FileStates, file_states
from sources.positions import Place

log = logging.getLogger(__name__)

_AT_ONCE = 500
"""Records taken from librdkafka at once. Its messages and their Python objects then stay in the caches until Arrow has
their bytes: taking 10,000 at once costs more than twice the time per record."""
_ROWS = 20_000
"""Records of one partition handed on at once: each table's records are decoded by themselves, faster if they are
many."""
_MOST_ROWS = 2 * _ROWS
_BYTES = 32 << 20
"""Records that wait at most: they bound the memory of a task."""
_WAIT_S = 0.05
_LOOK_S = 5.0
"""How long a partition may end before its range until its bounds are requested."""
_MOST_CONSUMERS = 4

_IGNORED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
    }
)
"""Errors of groups, which we only name, and of connections, which librdkafka restores; a permanent one times out."""
_NOT_THERE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})


class OffsetsNotThere(Exception):
    """Kafka lacks planned offsets, and losses are refused. The driver finds the lost records."""


@dataclass(frozen=True, slots=True)
class KafkaShareReader:
    """The ``ShareReader`` of offset ranges. Travels with the code of the tasks."""

    servers: str
    properties: Mapping[str, str | Secret] = field(repr=False)
    """Properties of librdkafka. Secrets stay in their files if the task's process can read them."""
    goes_on_after_loss: bool
    patience_s: float
    """How long missing progress counts as a transient failure."""

    def __call__(self, shares: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for share in shares:
            consumer, trouble = _consumer(self)
            reading = _Reading(self, consumer, trouble, from_bytes(share))
            try:
                yield from reading.batches()
            finally:
                reading.end()


@dataclass(slots=True)
class _Range:
    """The rest of one partition's range."""

    next: int
    end: int
    ends_at_s: float | None = None
    """The time since which the partition has ended before the range."""


class _Reading:
    """The reading of one share."""

    def __init__(
        self, reader: KafkaShareReader, consumer: Consumer, trouble: Trouble, ranges: Sequence[OffsetRange]
    ) -> None:
        self._reader = reader
        self._consumer = consumer
        self._trouble = trouble
        self._left = {one.place: _Range(one.begin, one.end) for one in ranges}
        self._held: dict[Place, list[pa.RecordBatch]] = {}
        self._held_rows: Counter[Place] = Counter()
        self._held_bytes: Counter[Place] = Counter()
        self._record_bytes = 0.0
        """The recent size of a record."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._trouble.clear()
        self._consumer.assign([_partition(place, left.next) for place, left in self._left.items()])
        moved_s = time.monotonic()
        while self._left:
            messages = self._consumer.consume(self._wanted(), _WAIT_S)
            before = self._held_rows.total()
            self._take(messages)
            now_s = time.monotonic()
            if self._held_rows.total() > before or not self._left:
                moved_s = now_s
            elif now_s - moved_s > self._reader.patience_s or (self._trouble.is_lasting and now_s - moved_s > _LOOK_S):
                raise self._trouble.failure()
            self._look_at_ends(now_s)
            for places in self._full():
                yield self._handed_on(places)
                moved_s = time.monotonic()

    def end(self) -> None:
        """Stop fetching, also if the reading is given up midway."""
        with suppress(KafkaException, RuntimeError):
            self._consumer.unassign()

    def _wanted(self) -> int:
        """The number of records to request: at most those of the ranges, and what the memory limit allows."""
        left = sum(one.end - one.next for one in self._left.values())
        fitting = int(_BYTES / self._record_bytes) if self._record_bytes else _AT_ONCE
        return max(1, min(_AT_ONCE, left, fitting))

    def _take(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        errors = list(map(Message.error, messages))
        is_good = not any(errors)
        good = messages if is_good else [m for m, error in zip(messages, errors, strict=True) if error is None]
        self._hold({place: self._in_range(place, of_place) for place, of_place in _by_place(good).items()})
        for message, error in zip(messages, errors, strict=True) if not is_good else ():
            if error is not None:
                self._take_error(error, _place(message), _offset(message))

    def _in_range(self, place: Place, messages: list[Message]) -> list[Message]:
        """The records of one partition that are in its range; notes how far it has been read."""
        left = self._left.get(place)
        if left is None:
            return []
        last = _offset(messages[-1])
        if _offset(messages[0]) < left.next or last >= left.end:
            messages = [message for message in messages if left.next <= _offset(message) < left.end]
        left.ends_at_s = None
        if messages:
            left.next = _offset(messages[-1]) + 1
            self._trouble.clear()
        if last + 1 >= left.end:
            self._finish(place)
        return messages

    def _hold(self, found: Mapping[Place, list[Message]]) -> None:
        """Hold records, of each partition in the order of their offsets, until they are handed on."""
        places = [place for place, messages in found.items() if messages]
        if not places:
            return
        batch = record_batch(places, [found[place] for place in places])
        self._record_bytes = batch.nbytes / batch.num_rows
        first = 0
        for place in places:
            part = batch.slice(first, len(found[place]))
            first += part.num_rows
            if len(places) > 1:  # a slice would keep the records of the other partitions in memory
                part = pa.concat_batches([part])
            self._held.setdefault(place, []).append(part)
            self._held_rows[place] += part.num_rows
            self._held_bytes[place] += part.nbytes

    def _take_error(self, error: KafkaError, place: Place, offset: int) -> None:
        code = error.code()
        left = self._left.get(place)
        if code == KafkaError._PARTITION_EOF:
            if left is not None and offset >= left.end:
                self._finish(place)
            elif left is not None and left.ends_at_s is None:
                left.ends_at_s = time.monotonic()
        elif code in _IGNORED:
            if code != KafkaError.GROUP_AUTHORIZATION_FAILED:
                self._trouble.note(error)
        elif left is None and place[0]:
            return  # of a partition that is done
        elif code in _NOT_THERE and left is not None:
            self._look_at(place, left)
        elif code in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION) and left is not None:
            raise SinkUnavailable(
                f"a record of topic {place[0]} partition {place[1]} at offset {left.next} or later is damaged "
                f"({error.str()}): look for a broken disk or replica of the broker"
            ).without_values()
        else:
            raise self._trouble.failure(error)

    def _finish(self, place: Place) -> None:
        del self._left[place]
        if self._left:
            self._consumer.incremental_unassign([_partition(place)])

    def _look_at_ends(self, now_s: float) -> None:
        for place, left in list(self._left.items()):
            if left.ends_at_s is not None and now_s - left.ends_at_s > _LOOK_S:
                left.ends_at_s = now_s
                self._look_at(place, left)

    def _look_at(self, place: Place, left: _Range) -> None:
        """Find out whether Kafka has planned offsets that do not arrive."""
        try:
            begin, end = self._consumer.get_watermark_offsets(_partition(place), timeout=_LOOK_S, cached=False)
        except KafkaException as error:
            self._trouble.note(error_of(error))
            left.ends_at_s = left.ends_at_s or time.monotonic()
            return
        if begin <= left.next and left.end <= end:
            if left.ends_at_s is None:
                self._seek(place, left.next)
            return  # they will arrive: the leader is new, or a transaction is open again
        if not self._reader.goes_on_after_loss:
            raise OffsetsNotThere(
                f"topic {place[0]} partition {place[1]}: offsets {left.next} to {left.end - 1} were planned, but "
                f"Kafka holds {begin} to {end - 1}"
            )
        if left.next < begin < left.end:
            log.debug("topic %s partition %d continues at %d, not at %d", *place, begin, left.next)
            left.next = begin
            self._seek(place, begin)
        elif begin >= left.end or end <= left.next:
            self._finish(place)
        else:  # cut off in the middle of the range: all remaining records have arrived
            self._finish(place)

    def _seek(self, place: Place, offset: int) -> None:
        """Reassigns the partition: librdkafka no longer fetches one that has failed."""
        self._consumer.incremental_unassign([_partition(place)])
        self._consumer.incremental_assign([_partition(place, offset)])

    def _full(self) -> list[list[Place]]:
        """The partitions whose records are handed on now, alone or together.

        They wait for others of their partition as far as memory allows.
        """
        is_full = self._held_rows.total() >= _MOST_ROWS or self._held_bytes.total() >= _BYTES
        if is_full or (self._held and not self._left):
            return [list(self._held)]
        return [[place] for place, rows in self._held_rows.items() if rows >= _ROWS]

    def _handed_on(self, places: Sequence[Place]) -> pa.RecordBatch:
        parts = [part for place in places for part in self._held.pop(place)]
        for place in places:
            del self._held_rows[place]
            del self._held_bytes[place]
        return pa.concat_batches(parts)


def _by_place(messages: Sequence[Message]) -> dict[Place, list[Message]]:
    """The records of each partition; one frame of Python for each stretch of a partition, none for a record."""
    places: list[Place] = list(zip(map(Message.topic, messages), map(Message.partition, messages), strict=True))
    begins = [0, *compress(count(1), map(ne, places, places[1:]))] if places else []
    found: dict[Place, list[Message]] = {}
    for begin, end in pairwise([*begins, len(places)]):
        found.setdefault(places[begin], []).extend(messages[begin:end])
    return found


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def _offset(message: Message) -> int:
    return message.offset() or 0


def _partition(place: Place, offset: int | None = None) -> TopicPartition:
    return TopicPartition(place[0], place[1]) if offset is None else TopicPartition(place[0], place[1], offset)


class _Consumers(threading.local):
    """The consumers of one thread: of a Python worker, or of a query in the driver."""

    def __init__(self) -> None:
        self.held: dict[tuple[tuple[str, str], ...], tuple[Consumer, Trouble, FileStates]] = {}
        """By their properties; the most recently used is last."""


_consumers = _Consumers()


def _consumer(reader: KafkaShareReader) -> tuple[Consumer, Trouble]:
    """The consumer with these properties, recreated if files that they name were replaced."""
    properties = {n: value.reveal() if isinstance(value, Secret) else value for n, value in reader.properties.items()}
    key, files = tuple(sorted(properties.items())), file_states(properties)
    consumers = _consumers.held
    held = consumers.pop(key, None)
    if held is not None and held[2] == files:
        consumer, trouble, _ = held
    else:
        trouble = Trouble(reader.servers)
        try:
            consumer = Consumer({**properties, "error_cb": trouble.note}, logger=to_debug())
        except KafkaException as error:
            failure = trouble.failure(error_of(error))
            if held is None:
                raise failure from None
            log.warning(REPLACED_FILES_UNUSABLE, reader.servers, failure)
            consumer, trouble, _ = held
        else:
            unused = [] if held is None else [held]
            while len(consumers) >= _MOST_CONSUMERS:
                unused.append(consumers.pop(next(iter(consumers))))
            for one, _, _ in unused:
                one.close()
    consumers[key] = consumer, trouble, files
    return consumer, trouble


_HEADERS = RECORD_SCHEMA.field("headers").type
_TIMESTAMP = RECORD_SCHEMA.field("timestamp").type
_MOST_MS = (2**63 - 1) // 1000


def record_batch(places: Sequence[Place], messages: Sequence[Sequence[Message]]) -> pa.RecordBatch:
    """The records of each place, one place after the other.

    Methods are mapped without frames of Python, which would take longer than the methods.
    """
    flat = messages[0] if len(messages) == 1 else [message for of_place in messages for message in of_place]
    counts = np.asarray([len(of_place) for of_place in messages])
    indices = pa.array(np.repeat(np.arange(len(places), dtype=np.int32), counts))
    topics = pa.array([topic for topic, _ in places], pa.string()).take(indices)
    partitions = np.repeat(np.asarray([partition for _, partition in places], np.int32), counts)
    columns = [
        topics,
        pa.array(partitions),
        pa.array(list(map(Message.offset, flat)), pa.int64()),
        _timestamps(flat),
        pa.array(list(map(Message.key, flat)), pa.binary()),
        pa.array(list(map(Message.value, flat)), pa.binary()),
        _headers(flat),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def _timestamps(messages: Sequence[Message]) -> pa.Array:
    flat = chain.from_iterable(map(Message.timestamp, messages))
    kinds, ms = np.fromiter(flat, np.int64, 2 * len(messages)).reshape(-1, 2).T
    # Kafka accepts times that do not fit into microseconds.
    us = np.clip(ms, -_MOST_MS, _MOST_MS) * 1000
    missing = kinds == TIMESTAMP_NOT_AVAILABLE
    return pa.array(us, pa.int64(), mask=missing if missing.any() else None).cast(_TIMESTAMP)


def _headers(messages: Sequence[Message]) -> pa.Array:
    # Typed like produced messages; consumed ones have a list of pairs.
    found: list[list[tuple[str, bytes | None]] | None] = list(map(Message.headers, messages))
    if not any(found):
        return pa.nulls(len(found), _HEADERS)
    ends = np.cumsum([0, *(len(headers or ()) for headers in found)], dtype=np.int32)
    flat = [header for headers in found for header in headers or ()]
    names = pa.array([name for name, _ in flat], pa.string())
    values = pa.array([value for _, value in flat], pa.binary())
    structs = pa.StructArray.from_arrays([names, values], fields=list(_HEADERS.value_type))
    missing = pa.array([not headers for headers in found])
    return pa.ListArray.from_arrays(pa.array(ends), structs, mask=missing).cast(_HEADERS)
