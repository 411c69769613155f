"""Message keys in Avro, of values in Avro."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.connect_schema import connect_struct
from sources.avro.exact_values import exact_value
from sources.avro.framing import Framing
from sources.avro.registry import AVRO, registry_of
from sources.avro.registry_settings import RegistrySettings
from sources.avro.writer_schema import AvroKind
from sources.plain.message_keys import OwnKey


@dataclass(frozen=True, slots=True)
class AvroKeys:
    """See ``message_keys.OwnKeys``."""

    keys: pa.Array
    framing: Framing
    settings: RegistrySettings

    def at(self, position: int) -> OwnKey | None:
        """See ``message_keys.OwnKeys``."""
        frames = self.framing.frames
        code = int(frames.codes[position])
        if code < 0:
            return None
        try:
            node = registry_of(self.settings, AVRO).schema(frames.refs[code])
            value = exact_value(node, self.keys[position].as_py(), int(frames.skipped[position]))
        except MalformedRecord as error:
            raise MalformedRecord(f"the message key cannot be read as Avro: {error}") from None
        record = node.value
        is_record = record is not None and record.kind is AvroKind.RECORD and isinstance(value, dict)
        return OwnKey(value, connect_struct(record, is_plain=True) if record is not None and is_record else None)
