"""Reading keys and values of a batch one by one, each by the schema that wrote it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.avro.column_names import column_names
from sources.avro.exact_values import exact_value
from sources.avro.framing import BAD_HEADER, NULL, Frames, Framing
from sources.avro.registry import Registry
from sources.avro.writer_schema import AvroKind, Node
from sources.decode_target import KeyFields
from sources.json_changes.exact_parse import parse_exactly
from sources.wording import EMPTY

KeyFormat: TypeAlias = Literal["auto", "avro", "json", "text"]


class RecordReading:
    """The records of one batch."""

    def __init__(
        self, batch: pa.RecordBatch, registry: Registry[Node], key_format: KeyFormat, in_json: str = "debezium-json"
    ) -> None:
        """``in_json`` is the format that reads the same in JSON."""
        self._batch = batch
        self._registry = registry
        self._key_format = key_format
        self._in_json = in_json
        self._framing = {side: Framing(batch, side) for side in ("key", "value")}

    @property
    def values(self) -> Frames:
        return self._framing["value"].frames

    @property
    def keys(self) -> Frames | None:
        """None if keys are not Avro."""
        return None if self._key_format in ("json", "text") else self._framing["key"].frames

    def schema(self, frames: Frames, code: int) -> Node | MalformedRecord:
        """The schema behind a code, or why there is none."""
        try:
            return self._registry.schema(frames.refs[code])
        except MalformedRecord as error:
            return error

    def parsed(self, side: str, position: int) -> Any:
        """The key or the value of a record as in JSON, but with bytes; None if there is none.

        A MalformedRecord has the reason if it cannot be read.
        """
        data = self._batch.column(side)[position].as_py()
        if data is None:
            return None
        if side == "key" and self._key_format == "text":
            return data.decode("utf-8", "replace")
        frames = self.keys if side == "key" else self.values
        code = NULL if frames is None else int(frames.codes[position])
        if frames is None or code < 0:
            is_json = side == "key" and self._key_format != "avro" and code != BAD_HEADER
            return parse_exactly(data) if is_json else MalformedRecord(self.no_schema(side, code, data))
        node = self.schema(frames, code)
        if isinstance(node, MalformedRecord):
            return node
        try:
            return exact_value(node, data, int(frames.skipped[position]))
        except MalformedRecord as error:
            return MalformedRecord(f"{side} cannot be read as Avro of {frames.refs[code]}: {error}")

    def no_schema(self, side: str, code: int, data: bytes) -> str:
        """Why a key or a value names no schema."""
        if code == BAD_HEADER:
            return (
                f"the headers of the record name no usable schema of the {side}. The serializer must write binary Avro"
                " with a globalId, a contentId or a GUID"
            )
        if not data.strip():
            return f"{side} {EMPTY}"
        if data.lstrip()[:1] in (b"{", b"["):
            return f"{side} is JSON, not Avro: use format {self._in_json}, or an Avro converter as {side}.converter"
        return (
            f"{side} names no schema: neither a header nor its first byte does; use a converter with a schema registry"
            f" as {side}.converter"
        )

    def key_fields(self, code: int) -> KeyFields:
        """The names in message keys of a code of ``keys``."""
        assert self.keys is not None
        node = self.schema(self.keys, code)
        value = None if isinstance(node, MalformedRecord) else node.value
        return column_names(value) if value is not None and value.kind is AvroKind.RECORD else ()
