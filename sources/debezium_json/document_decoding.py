"""Decoding events of MongoDB: each becomes an event of a table in plain JSON, and is decoded as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.changes import Goal, SourceTable
from sources.debezium_json.envelopes import unwrapped_key
from sources.debezium_json.message_keys import MessageKeys
from sources.debezium_json.strange_values import strange_value
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Records, SourceNames, Texts
from sources.json_changes.outcome import Outcome
from sources.mongodb.document_events import DocumentEvents, is_of_mongodb, names_of_collection
from sources.mongodb.extended_json import text_of
from sources.mongodb.options import DocumentOptions
from sources.values.value_forms import ValueForms

_FORMS = ValueForms(decimal_format="text")
"""What documents hold: numbers of decimals as text, bytes as base64."""


def decode_documents(
    records: Records, decoding: TableDecoding, options: DocumentOptions, goals: Mapping[SourceTable, Goal]
) -> None:
    """Decode events of MongoDB, which ``decoding`` has given back, into its outcome."""
    documents = _Documents(records, decoding, options, goals)
    texts, positions = [], []
    keys: list[bytes | None] = [None] * decoding.batch.num_rows
    for index, position in enumerate(records.positions.tolist()):
        envelope = records.parsed(index)
        if not is_of_mongodb(envelope):  # the text is malformed behind what was read of it so far
            decoding.outcome.quarantine(position, strange_value(envelope, decoding.outcome.cell("value", position)))
            continue
        source = documents.source_of(envelope)
        try:
            texts.append(text_of(documents.event(envelope, position)).encode())
            keys[position] = documents.key_text(source, position)
        except MalformedRecord as error:
            del texts[len(positions) :]
            with decoding.outcome.of(source):
                decoding.outcome.quarantine(position, str(error))
        else:
            positions.append(position)
    outcome = Outcome(decoding.batch, documents.parsed)
    plain = replace(
        decoding, schema=None, forms=_FORMS, keys=MessageKeys(pa.array(keys, pa.binary())), outcome=outcome,
        parts_documents=False,
    )  # fmt: skip
    plain.decode(Texts(pa.array(texts, pa.binary()), np.array(positions, np.int64)), goals)
    decoding.outcome.take(outcome)


class _Documents:
    """Reads records of one topic partition as events of tables."""

    def __init__(
        self,
        records: Records,
        decoding: TableDecoding,
        options: DocumentOptions,
        goals: Mapping[SourceTable, Goal],
    ) -> None:
        self._records = records
        self._index_of = {position: index for index, position in enumerate(records.positions.tolist())}
        self._decoding = decoding
        self._options = options
        self._goals = goals
        self._names = SourceNames(decoding.topic)
        self._readers: dict[SourceTable, DocumentEvents] = {}

    def source_of(self, envelope: Mapping[str, Any]) -> SourceTable:
        database, collection = names_of_collection(envelope)
        return self._names.named(database, None, collection)

    def event(self, envelope: Mapping[str, Any], position: int) -> Mapping[str, Any]:
        """Raises MalformedRecord."""
        return self._reader(self.source_of(envelope)).event(envelope, self._key(position))

    def key_text(self, source: SourceTable, position: int) -> bytes | None:
        """The message key with the field of the row; None where there is none. Raises MalformedRecord."""
        key = self._reader(source).key(self._key(position))
        raw: bytes | None = self._decoding.outcome.cell("key", position)
        return raw if key is None else text_of(key).encode()

    def parsed(self, column: str, position: int) -> Any:
        """See ``Outcome.parsed``."""
        envelope = self._records.parsed(self._index_of[position])
        try:
            if column == "value":
                return self.event(envelope, position)
            key = self._key(position)
            return self._reader(self.source_of(envelope)).key(key) or key
        except MalformedRecord as error:
            return error

    def _key(self, position: int) -> Any:
        return unwrapped_key(self._decoding.outcome.parsed("key", position))

    def _reader(self, source: SourceTable) -> DocumentEvents:
        if source not in self._readers:
            goal, unavailable = self._goals.get(source), self._decoding.policies.unavailable_value
            self._readers[source] = DocumentEvents.of(self._options, goal, unavailable)
        return self._readers[source]
