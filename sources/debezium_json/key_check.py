"""Checks message keys against the primary key of the table: whether they identify the row of an event.

A row of the table is one row of the source as long as the message key is the primary key, or part of it. Events whose
message key lacks a column of the primary key need the whole old row: without it the key of the stored row is unknown.

PostgreSQL's default replica identity sends no old row with updates, and only the key with deletes. Debezium then
invents NULL for the other columns, or a default if a column is NOT NULL; its converters turn NULL into the column's
DEFAULT.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sources.debezium_json.ops import UNSTATED
from sources.debezium_json.record_shapes import ENVELOPES, RecordShape
from sources.decode_target import DecodeTarget, KeyFields, KeyRule
from sources.json_changes.change_rows import (
    DELETE,
    UPDATE,
    Events,
    Mask,
    image_column,
    is_null,
)
from sources.json_changes.embedded_schema import EmbeddedSchema


def unusable_key(fields: KeyFields, rule: KeyRule, primary_key: Sequence[str]) -> str:
    """The quarantine reason for a record whose message key does not identify the row."""
    keyed = ", ".join(primary_key)
    remedy = f"set primary_key: [{keyed}] in the rule if these columns identify a row"
    if fields is None:
        return (
            f"the record has no message key, but table {rule.table} has the key of its first records ({keyed}); "
            f"{remedy}"
        )
    return f"the message key is not a JSON object with fields: use JsonConverter as key.converter, or {remedy}"


def unknown_old_key(
    events: Events,
    target: DecodeTarget,
    fields: Sequence[KeyFields],
    lacking: Mask,
    schema: EmbeddedSchema | None,
    shape: RecordShape = ENVELOPES,
) -> dict[int, str]:
    """Events whose old row may have an unknown key, by index, with the reason.

    ``fields`` has the message key of each. ``lacking`` are those whose old row lacks the key.
    """
    beyond = [None if not f else next((c for c in target.primary_key if c not in f), None) for f in fields]
    concerned = np.array([column is not None for column in beyond], np.bool_)
    if not concerned.any():
        return {}
    updates = concerned & np.isin(events.ops, (UPDATE, UNSTATED)) & lacking
    deletes = concerned & (events.ops == DELETE) & ~lacking
    if not target.has_whole_before and deletes.any():
        deletes &= ~_is_whole(events, fields, schema)
    found: dict[int, str] = {}
    for index in np.flatnonzero(updates).tolist():
        if shape.has_old_rows:
            found[index] = (
                f"op u without the old row: {beyond[index]} of the primary key is not in the message key, so the row"
                " may have had another key. Let the source send whole old rows (PostgreSQL: REPLICA IDENTITY FULL)"
            )
        else:
            found[index] = (
                f"the message key lacks {beyond[index]} of the primary key, so the row may have had another key. Choose"
                " a primary_key of fields of the message key, or let the connector write envelopes with whole old rows"
                " (format debezium-json)"
            )
    if not target.has_whole_before:
        for index in np.flatnonzero(deletes).tolist():
            found[index] = (
                f"op d: {beyond[index]} of the primary key is not in the message key, and its value in before may "
                "be invented. Let the source send whole old rows (PostgreSQL: REPLICA IDENTITY FULL), and set "
                "`before: full` in the rule"
            )
    return found


def _is_whole(events: Events, fields: Sequence[KeyFields], schema: EmbeddedSchema | None) -> Mask:
    """The old rows that are certainly whole: a nullable column outside of the key has a value, which is never invented.

    This does not hold for a column with a DEFAULT, which converters write in place of NULL.
    """
    whole = np.zeros(len(events.ops), np.bool_)
    keys = {name for names in fields for name in names or ()}
    for column in () if schema is None else schema.columns:
        if column.is_optional and not column.has_default and column.name not in keys:
            whole |= ~is_null(image_column(events.before, column.name))
    return whole
