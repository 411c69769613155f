"""The decoders of the JSON of replication tools: records of a batch -> change rows, quarantine, observations.

records of one topic partition
  -> tombstones and texts that are not UTF-8 leave
  -> heads are judged, records are grouped by source table
  -> row images are read, rewritten by the types of the source, converted column by column
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sources.changes import Decoded, SourceTable
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.present_texts import present_texts
from sources.decode_target import DecodeTarget, Goal
from sources.feeds.feed import Feed
from sources.feeds.feed_options import FeedOptions
from sources.feeds.mysql_types import LATIN1_BYTES
from sources.feeds.sorting import Expected, RecordSorter
from sources.feeds.table_decoding import FeedDecoding, reading_plan
from sources.json_changes.goal_decoding import decode_for_goal
from sources.json_changes.outcome import Outcome
from sources.json_changes.partitions import topic_partitions
from sources.values.encodings import Encoding
from sources.values.value_forms import ValueForms


@dataclass(frozen=True, slots=True)
class FeedDecoder:
    """Decoder of one tool's records; ``binary`` says how that tool writes bytes where it names types."""

    feed: Feed
    options: FeedOptions = field(default_factory=FeedOptions)
    binary: Encoding = LATIN1_BYTES
    forms: ValueForms = field(default_factory=lambda: ValueForms(decimal_format="text"))

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        outcome = Outcome(batch)
        keys = MessageKeys(batch.column("key"))
        for topic, partition, positions in topic_partitions(batch):
            texts, nulls = present_texts(batch, positions, outcome, self.feed.tool)
            outcome.count(tombstones=len(nulls))
            sorter = RecordSorter(self.feed, topic, keys, outcome, self._expected(topic, targets))
            for source, records in sorter.sort(texts).items():
                decoding = FeedDecoding(
                    self.feed, self.options, self.forms, self.binary, topic, partition, outcome, sorter.parsed
                )
                with outcome.of(source):
                    decode_for_goal(decoding, source, [records], targets)
        return outcome.decoded()

    def _expected(self, topic: str, targets: Mapping[SourceTable, Goal]) -> Expected | None:
        """The source table of a topic that is the only one with a target."""
        found = [(s, goal) for s, goal in targets.items() if s.topic == topic and isinstance(goal, DecodeTarget)]
        if len(found) != 1:
            return None
        ((source, target),) = found
        return Expected(source, reading_plan(self.feed, target, self.forms))
