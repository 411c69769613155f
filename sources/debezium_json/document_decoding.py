"""Decoding events of MongoDB: each becomes an event of a table in plain JSON, and is decoded as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_table.errors import MalformedRecord
from sources.changes import SourceTable
from sources.debezium_json.envelopes import unwrapped_key
from sources.debezium_json.message_keys import KeyForms
from sources.debezium_json.strange_values import strange_value
from sources.debezium_json.table_decoding import TableDecoding
from sources.debezium_json.texts import Records, SourceNames, Texts
from sources.decode_target import Goal, KeyFields
from sources.json_changes.outcome import Outcome
from sources.mongodb.document_events import ID, KEY_FIELD, DocumentEvents, is_of_mongodb, names_of_collection
from sources.mongodb.extended_json import text_of
from sources.mongodb.options import DocumentOptions
from sources.values.value_forms import ValueForms

_FORMS = ValueForms(decimal_format="text")
"""The forms of values in documents: decimals as text, bytes as base64."""


def decode_documents(
    records: Records, decoding: TableDecoding, options: DocumentOptions, goals: Mapping[SourceTable, Goal]
) -> None:
    """Decode events of MongoDB, which ``decoding`` has given back, into its outcome."""
    documents = _Documents(records, decoding, options, goals)
    texts, positions = [], []
    for index, position in enumerate(records.positions.tolist()):
        envelope = records.parsed(index)
        if not is_of_mongodb(envelope):  # the text is malformed after the part that was read
            decoding.outcome.quarantine(position, strange_value(envelope, decoding.outcome.cell("value", position)))
            continue
        source, reader = documents.reader(envelope)
        try:
            event = reader.event(envelope, partial(documents.key, index))
            if event["after"] is None:
                reader.key(documents.key(index))
        except MalformedRecord as error:
            with decoding.outcome.of(source):
                decoding.outcome.quarantine(position, str(error))
        else:
            texts.append(text_of(event).encode())
            positions.append(position)
    outcome = Outcome(decoding.batch, documents.parsed)
    plain = replace(
        decoding,
        schema=None,
        forms=_FORMS,
        keys=DocumentKeys(decoding.keys),
        outcome=outcome,
        parts_documents=False,
        are_documents=True,
    )
    plain.decode(Texts(pa.array(texts, pa.binary()), np.array(positions, np.int64)), goals)
    decoding.outcome.take(outcome)


@dataclass(frozen=True, slots=True)
class DocumentKeys:
    """Message keys; a key of the MongoDB connector gets the field name of the row. See ``KeyForms``."""

    keys: KeyForms

    @property
    def fields(self) -> list[KeyFields]:
        return [(ID,) if fields == (KEY_FIELD,) else fields for fields in self.keys.fields]

    def codes(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        return self.keys.codes(positions)


class _Documents:
    """Records of one topic partition as events of tables."""

    def __init__(
        self,
        records: Records,
        decoding: TableDecoding,
        options: DocumentOptions,
        goals: Mapping[SourceTable, Goal],
    ) -> None:
        self._outcome = decoding.outcome
        self._records = records
        self._index_of = {position: index for index, position in enumerate(records.positions.tolist())}
        self._options = options
        self._goals = goals
        self._names = SourceNames(decoding.topic)
        self._unavailable = decoding.policies.unavailable_value
        self._readers: dict[tuple[str | None, str | None], tuple[SourceTable, DocumentEvents]] = {}

    def reader(self, envelope: Mapping[str, Any]) -> tuple[SourceTable, DocumentEvents]:
        """The source table of an event, and what reads its documents."""
        names = names_of_collection(envelope)
        if names not in self._readers:
            source = self._names.named(names[0], None, names[1])
            goal = self._goals.get(source)
            self._readers[names] = source, DocumentEvents.of(self._options, goal, self._unavailable)
        return self._readers[names]

    def key(self, index: int) -> Any:
        """A parsed message key: None without a key, a MalformedRecord if it is not JSON."""
        return unwrapped_key(self._outcome.parsed("key", int(self._records.positions[index])))

    def parsed(self, column: str, position: int) -> Any:
        """See ``Outcome.parsed``."""
        index = self._index_of[position]
        envelope = self._records.parsed(index)
        _, reader = self.reader(envelope)
        try:
            if column == "value":
                return reader.event(envelope, partial(self.key, index))
            key = self.key(index)
            return reader.key(key) or key
        except MalformedRecord as error:
            return error
