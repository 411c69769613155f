"""The decoder for ``source.format: auto``: decodes each topic in the format that was chosen for it.

If a topic has no format yet, the decoder examines its records and makes no rows. The driver then chooses a format and
keeps it, and the batch is decoded again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from paimon_table.ids import Offset
from sources.auto.looks import BINARY, look_of
from sources.avro.framing import Framing
from sources.avro.registry import AVRO, registry_of
from sources.avro.registry_settings import RegistrySettings
from sources.avro.writer_schema import Node
from sources.changes import DecodeCounts, Decoded, SourceTable, TopicLook
from sources.debezium_avro.envelope_columns import envelope_schema
from sources.decode_target import Decoder, Goal, TopicFormats
from sources.json_changes.partitions import topic_partitions
from sources.plain.protobuf_values import PROTOBUF
from sources.upsert_json.metadata import Metadata

_LOOKED_AT = 100
"""The records of one topic partition that have a value."""
_METADATA = Metadata()
_OF_DEBEZIUM = "io.debezium."
"""The prefix of the schema names of heartbeats, transaction records and schema changes."""
_WITHOUT_LOOK = "debezium-json"
"""The format for topics that so far have only tombstones and control records: it counts them, and gives no rows."""


@dataclass(frozen=True, slots=True)
class AutoDecoder:
    """Has a decoder for each format."""

    decoders: Mapping[str, Decoder]
    registry: RegistrySettings | None
    formats: TopicFormats = field(default_factory=TopicFormats)

    def under(self, formats: TopicFormats) -> AutoDecoder:
        """See ``sources.decode_target.FindsFormats``."""
        return replace(self, formats=formats)

    def decode(self, batch: pa.RecordBatch, targets: Mapping[SourceTable, Goal]) -> Decoded:
        """See ``sources.decode_target.Decoder``."""
        found: list[Decoded] = []
        by_format: dict[str, list[np.ndarray[Any, Any]]] = {}
        looks: dict[str, list[tuple[int, np.ndarray[Any, Any]]]] = {}
        for topic, partition, positions in topic_partitions(batch):
            if topic in self.formats.chosen:
                by_format.setdefault(self.formats.chosen[topic], []).append(positions)
            else:
                looks.setdefault(topic, []).append((partition, positions))
        if looks:
            found.append(self._looked(batch, looks, by_format))
        for name, parts in by_format.items():
            members = np.sort(np.concatenate(parts))
            own = batch if len(members) == batch.num_rows else batch.take(pa.array(members))
            found.append(self.decoders[name].decode(own, targets))
        return _joined(found)

    def _looked(
        self,
        batch: pa.RecordBatch,
        topics: Mapping[str, list[tuple[int, np.ndarray[Any, Any]]]],
        by_format: dict[str, list[np.ndarray[Any, Any]]],
    ) -> Decoded:
        """Inspects topics without a format; counts the records of those that still show none."""
        looks: list[TopicLook] = []
        count = 0
        framing = Framing(batch, "value", has_tails=True)
        for topic, parts in topics.items():
            seen = [self._look(batch, framing, topic, partition, positions) for partition, positions in parts]
            if any(look.tells for look in seen):
                looks += seen
                count += sum(len(positions) for _, positions in parts)
            else:
                earlier = self.formats.earlier.get(topic, _WITHOUT_LOOK)
                name = earlier if earlier in self.decoders else _WITHOUT_LOOK
                by_format.setdefault(name, []).extend(positions for _, positions in parts)
        return Decoded(counts=DecodeCounts(unknown_tables=count), looks=tuple(looks))

    def _look(
        self, batch: pa.RecordBatch, framing: Framing, topic: str, partition: int, positions: np.ndarray[Any, Any]
    ) -> TopicLook:
        seen: Counter[str] = Counter()
        codes = framing.frames.codes
        there = positions[np.asarray(batch.column("value").take(pa.array(positions)).is_valid())]
        for position in there[:_LOOKED_AT].tolist():
            if codes[position] >= 0:
                seen[self._binary(framing, int(codes[position]))] += 1
            else:
                key, value = (batch.column(side)[position].as_py() for side in ("key", "value"))
                seen[look_of(key, value, topic)] += 1
        first = Offset(batch.column("offset")[int(positions[0])].as_py())
        return TopicLook(topic, partition, first, dict(seen))

    def _binary(self, framing: Framing, code: int) -> str:
        """The format of values that name a schema, from the registry's answer."""
        if self.registry is None:
            return BINARY
        ref = framing.frames.refs[code]
        try:
            schema = registry_of(self.registry, AVRO).schema(ref)
        except MalformedRecord:
            pass
        else:
            return _of_schema(schema)
        try:
            registry_of(self.registry, PROTOBUF).schema(ref)
            return "protobuf"
        except MalformedRecord:
            return BINARY


def _of_schema(schema: Node) -> str:
    """The format of the values of a schema."""
    try:
        if envelope_schema(schema) is not None:
            return "debezium-avro"
    except MalformedRecord:
        return "debezium-avro"
    if schema.value is not None and schema.value.name.startswith(_OF_DEBEZIUM):
        return "debezium-avro"
    fields = () if schema.value is None else schema.value.fields
    return "avro" if _METADATA.names.isdisjoint(field.name for field in fields) else "upsert-avro"


def _joined(parts: Iterable[Decoded]) -> Decoded:
    """The combined result for the parts of a batch."""
    all_parts = tuple(parts)
    values: dict[str, Any] = {"counts": sum((part.counts for part in all_parts), DecodeCounts())}
    for one in fields(Decoded):
        if one.name != "counts":
            values[one.name] = tuple(item for part in all_parts for item in getattr(part, one.name))
    return Decoded(**values)
