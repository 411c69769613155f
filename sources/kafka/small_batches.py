"""Reads batches of few records in the driver, which takes less time than a job of Spark."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from confluent_kafka import KafkaException

from paimon_table.errors import TidemarkError
from sources.kafka.offset_ranges import OffsetRange, to_bytes
from sources.kafka.share_fetching import KafkaShareReader, OffsetsNotThere
from sources.positions import Place

log = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""How long Kafka may not answer here. Tasks wait longer, and a stop of the query can cancel them."""

MOST_BYTES = 32 << 20


class SmallBatches:
    """The ``ReadHere`` of Kafka: leaves a batch to the tasks if its records are large or anything fails."""

    def __init__(self, reader: KafkaShareReader) -> None:
        self._reader = replace(reader, patience_s=min(_PATIENCE_S, reader.patience_s))
        self._most_records: float = float("inf")
        """So many records have had too many bytes."""

    def __call__(self, planned: Mapping[Place, tuple[int, int]]) -> list[pa.RecordBatch] | None:
        ranges = [OffsetRange(place, begin, end) for place, (begin, end) in planned.items() if end > begin]
        if sum(one.end - one.begin for one in ranges) >= self._most_records:
            return None
        records: list[pa.RecordBatch] = []
        size = 0
        try:
            for batch in self._reader([to_bytes(ranges)]):
                records.append(batch)
                size += batch.nbytes
                if size > MOST_BYTES:
                    self._most_records = sum(one.num_rows for one in records)
                    return None
        except (TidemarkError, OffsetsNotThere, KafkaException) as error:
            log.debug("the driver cannot read a small batch, so tasks read it: %s", error)
            return None
        return records
