"""The decoders of the JSON of replication tools: records of a batch -> change rows, quarantine, observations.

records of one topic partition
  -> tombstones and texts that are not UTF-8 leave
  -> heads are judged, records are grouped by source table
  -> row images are read, rewritten by the types of the source, converted column by column
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.rows.python_values import column_values, key_text
from sources.change_columns import OFFSET_COLUMN, OTHER_KEY_COLUMN, UNAVAILABLE_COLUMN
from sources.changes import ChangeBatch, Decoded, SourceTable
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
        decoded = outcome.decoded()
        return replace(decoded, changes=tuple(with_other_keys(change, targets) for change in decoded.changes))

    def _expected(self, topic: str, targets: Mapping[SourceTable, Goal]) -> Expected | None:
        """The source table of a topic that is the only one with a target."""
        found = [(s, goal) for s, goal in targets.items() if s.topic == topic and isinstance(goal, DecodeTarget)]
        if len(found) != 1:
            return None
        ((source, target),) = found
        return Expected(source, reading_plan(self.feed, target, self.forms))


def with_other_keys(change: ChangeBatch, targets: Mapping[SourceTable, Goal]) -> ChangeBatch:
    """The change with the column of other keys: if a moved row lacks values, the row under its old key has them."""
    target, rows = targets.get(change.source), change.rows
    if not isinstance(target, DecodeTarget) or not target.primary_key or UNAVAILABLE_COLUMN not in rows.column_names:
        return change
    kinds, offsets = np.asarray(rows.column(VALUE_KIND)), np.asarray(rows.column(OFFSET_COLUMN))
    lengths = pc.list_value_length(rows.column(UNAVAILABLE_COLUMN))
    has_gaps = np.asarray(pc.fill_null(pc.greater(lengths, 0), False))
    moved = np.zeros(len(kinds), np.bool_)
    moved[1:] = (kinds[1:] == RowKind.INSERT) & (kinds[:-1] == RowKind.DELETE) & (offsets[1:] == offsets[:-1])
    arrived = np.flatnonzero(moved & has_gaps)
    if not len(arrived):
        return change
    texts: list[str | None] = [None] * len(kinds)
    pairs = pa.array(np.column_stack([arrived - 1, arrived]).reshape(-1))
    keys = rows.select(list(target.primary_key)).take(pairs)
    old_and_new = [key_text(key) for key in zip(*map(column_values, keys.columns), strict=True)]
    for number, old, new in zip(arrived.tolist(), old_and_new[::2], old_and_new[1::2], strict=True):
        texts[number - 1], texts[number] = new, old
    return replace(change, rows=rows.append_column(OTHER_KEY_COLUMN, pa.array(texts, pa.string())))
