"""Records without a value: each deletes the row that its message key names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord
from paimon_table.types import CHARACTERS
from sources.debezium_json.envelope_split import Heads
from sources.debezium_json.envelopes import unwrapped_key
from sources.debezium_json.event_sorting import TableEvents
from sources.debezium_json.texts import Texts
from sources.decode_target import DecodeTarget, Goal
from sources.json_changes.change_rows import DELETE
from sources.json_changes.embedded_schema import EmbeddedSchema, SchemaCutter
from sources.json_changes.exact_parse import parse_json
from sources.json_changes.outcome import Outcome
from sources.upsert_json.metadata import WHOLE_ROWS
from sources.values.json_values import json_text

_STRUCT = b"Struct{"
"""How the text of a Kafka Connect struct begins, which StringConverter writes for a key with fields."""
_STRUCT_TEXT = (
    "the message key is the text of a struct (Struct{...}), as StringConverter writes it: let the connector use "
    "JsonConverter as key.converter"
)


def deleting(
    keys: pa.Array,
    nulls: npt.NDArray[np.int64],
    outcome: Outcome,
    *,
    skips: bool,
    problem: Callable[[int], str | None] | None = None,
) -> npt.NDArray[np.int64]:
    """The records without a value, by position, that delete the row of their key; counts the others.

    ``keys`` are those of the batch. ``problem`` says why a key cannot be read: such records go to quarantine.
    """
    found = nulls[:0] if skips else nulls[np.asarray(keys.take(pa.array(nulls)).is_valid())]
    outcome.count(tombstones=len(nulls) - len(found))
    problems = {} if problem is None else {p: why for p in found.tolist() if (why := problem(p)) is not None}
    are_structs = pc.starts_with(keys.take(pa.array(found)).cast(pa.binary()), _STRUCT)
    problems |= dict.fromkeys(found[np.asarray(are_structs)].tolist(), _STRUCT_TEXT)
    for position, why in problems.items():
        outcome.quarantine(position, f"{why}; so the record does not identify the row to delete")
    return found[~np.isin(found, [*problems])] if problems else found


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Deletes of one source table whose message keys share an embedded schema (None: no schema)."""

    schema: EmbeddedSchema | None
    events: TableEvents


def deleted_rows(
    keys: pa.Array, positions: npt.NDArray[np.int64], times_ms: pa.Array, goal: Goal, cutter: SchemaCutter
) -> Iterator[DeletedRows]:
    """The deletes of tombstones at ``positions``, and their times in the source, if known.

    ``keys`` are the message keys at these positions, all in UTF-8. A key that is not an object is the value of the
    primary key, if that is one column.
    """
    column = goal.primary_key[0] if isinstance(goal, DecodeTarget) and len(goal.primary_key) == 1 else None
    is_text = column is not None and isinstance(goal, DecodeTarget) and dict(goal.columns)[column].root in CHARACTERS
    for schema, texts, indices in _objects(keys, cutter, column, is_text):
        part = positions[indices]
        lines = pa.array([text + b"\n" for text in texts.to_pylist()], pa.binary())
        heads = Heads(lines, np.ones(len(part), np.bool_)) if len(part) else None
        ops = np.full(len(part), DELETE, np.int8)
        times = times_ms.take(pa.array(indices))
        yield DeletedRows(schema, TableEvents(Texts(texts, part, WHOLE_ROWS), ops, heads, times_ms=times))


def _objects(
    keys: pa.Array, cutter: SchemaCutter, column: str | None, is_text: bool
) -> Iterator[tuple[EmbeddedSchema | None, pa.Array, npt.NDArray[np.int64]]]:
    """The keys as JSON objects, by schema, with their indices."""
    plain: list[int] = []
    for group in cutter.split(keys):
        payloads = group.payloads.to_pylist()
        are_objects = np.array(
            [group.problem is None and p.startswith(b"{") and p.endswith(b"}") for p in payloads], np.bool_
        )
        if are_objects.any():
            yield group.schema, group.payloads.filter(pa.array(are_objects)), group.indices[are_objects]
        plain += group.indices[~are_objects].tolist()
    if plain:
        texts = [_object_text(keys[index].as_py(), column, is_text) for index in plain]
        yield None, pa.array(texts, pa.binary()), np.array(plain, np.int64)


def _object_text(key: bytes, column: str | None, is_text: bool) -> bytes:
    """A key in the form of an object; a key without names gets the name of the column."""
    try:
        whole = parse_json(key)
    except MalformedRecord:
        # Bare text, unless it was meant to be JSON.
        whole = {} if key[:1] in (b"{", b"[", b'"') else key.decode("utf-8")
    value = unwrapped_key(whole)
    if value is None and value is not whole:
        value = {}
    if isinstance(value, dict) or column is None:
        return json_text(value if isinstance(value, dict) else {}).encode()
    if is_text and not isinstance(value, str):
        # A bare text that happens to be a number, or true or false, in JSON.
        value = key.decode("utf-8") if value is whole else json_text(value)
    return (f"{{{json.dumps(column)}:" + json_text(value) + "}").encode()
