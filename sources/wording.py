"""Words of messages that name many things."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

NAMES_SHOWN = 3
"""Names that fit into a line on something else."""

EMPTY = "is empty: let the producer write null for a tombstone, or skip the record"
"""The end of the reason for a key or value without bytes."""

_SINGLE_SKIPS = {
    "tombstones": "tombstone",
    "control records": "control record",
    "messages": "message",
    "truncates": "truncate",
    "updates and deletes": "update or delete",
    "deletes without a table": "delete without a table",
}
"""The singular for records that give no rows on purpose, by the plural."""


class BadReason(StrEnum):
    """Why a record is in quarantine, in one word of a bounded set; the reason itself says more."""

    NOT_JSON = "not-json"
    """Its value cannot be parsed."""
    NOT_AN_EVENT = "not-an-event"
    """Its value is JSON, but no change event of the format, or one that lacks its row."""
    SCHEMA = "schema"
    """The schema in the record, or the one that it names, cannot be used."""
    KEY = "key"
    """Its key does not identify the row."""
    NULL = "null"
    """It has NULL in a column that is NOT NULL."""
    VALUE = "value"
    """One of its values does not fit the column."""
    NO_TABLE = "no-table"
    """The table of the record cannot be created or written from it."""
    NOT_A_RECORD = "not-a-record"
    """A line of a dump file that is not a record."""
    OTHER = "other"


_BAD_REASONS = (
    (BadReason.NOT_A_RECORD, r"byte "),
    (
        BadReason.NOT_JSON,
        r"value (cannot be read as (Avro|the message)|is JSON, not Avro|names no schema|is not a line of CSV"
        r"|has \S+ fields)|the indexes of the message",
    ),
    (BadReason.VALUE, r"value is a message "),
    (
        BadReason.NOT_AN_EVENT,
        r"\S+: its records are |"
        r"value is not an? |op \S+ without (a row|before and after|(a|the) document)|op \S+: old does not"
        r"|op u (changes|shortens) |\w+ holds no document|removedFields |the document has a field",
    ),
    (BadReason.NOT_JSON, r"value (is not|is nested|has half|is empty|begins with|is (Avro|JSON Schema) )"),
    (
        BadReason.SCHEMA,
        r"(embedded )?schema |the (schema|headers of the record|value names no message|message \S+ has no fields)\b",
    ),
    (
        BadReason.KEY,
        r"_id is |op d: |op u |op \S+: the row does not have the key|(the record has no|the) message key\b"
        r"|\S+: its messages have ",
    ),
    (BadReason.NULL, r"column .*: NULL in a column"),
    (BadReason.VALUE, r"column "),
    (BadReason.NO_TABLE, r"table |into: |\S+: table \S+ is not created"),
)
"""How reasons begin, first match first; reasons of older files of a quarantine have no other mark."""


def bad_reason(reason: str) -> BadReason:
    """The word for a reason, which may be without its values."""
    return next((word for word, begin in _BAD_REASONS if re.match(begin, reason, re.DOTALL)), BadReason.OTHER)


def truncated(op: str, *, may_apply: bool) -> str:
    """Why a table pauses at a TRUNCATE, with the remedy: a resume alone meets the same record again."""
    words = (
        "`schema_changes: {truncate: apply}` in its rule to delete all rows of the table, or `skip` to keep them"
        if may_apply
        else "`schema_changes: {truncate: skip}` in its rule to keep the rows of the table"
    )
    return f"the source table was truncated (op {op}). Set {words}. Run `tidemark reload FILE`, then resume the table"


def lack_of_name(part: str, topic: str, database: str | None, schema: str | None, form: str) -> str:
    """Why a source table has no ``database`` or ``schema``, and what to do; ``form`` is how a file writes names."""
    told = f"neither the records of topic {topic} nor its name show the {part}"
    if part == "schema":
        return f"{told}; " + (f"take {form.format('database')}" if database else "write the name itself")
    field = "let the connector write it (`add.fields=db` of ExtractNewRecordState, format upsert-json or -avro)"
    other = f"take {form.format('schema')}, which is {schema}" if schema else "write the name out"
    return f"{told}; {field}, or {other}"


def sentences(text: object, following: str) -> str:
    """A text and the sentence that follows it; a text of another program may have its own full stop."""
    told = str(text)
    return f"{told}{' ' if told.endswith(('.', '?', '!')) else '. '}{following}"


def first_of(names: Sequence[str], shown: int, kind: str = "") -> list[str]:
    """The first ``shown`` names and, in place of all others, how many ``kind`` they are: ``and 3 more tables``."""
    others = len(names) - shown
    more = kind.removesuffix("s") if others == 1 else kind
    return [*names[:shown], f"and {others:,} more {more}".rstrip()] if others > 0 else list(names)


def counted(number: int, thing: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def skip_words(skipped: Mapping[str, int]) -> list[str]:
    """``1 tombstone``, ``3 of skipped tables``: numbers of records that give nothing, by the words of ``SKIPS``."""
    return [f"{n:,} {_SINGLE_SKIPS.get(word, word) if n == 1 else word}" for word, n in skipped.items()]


def position_words(position: str | None, shown: int = NAMES_SHOWN) -> str:
    """A position of a source (``SliceReader``), for people: where the next record is read."""
    if position is None:
        return "the first record"
    found = json.loads(position)
    if isinstance(found.get("files"), dict):
        places = [f"{name}: {counted(at['records'], 'record')}" for name, at in found["files"].items()]
    elif all(isinstance(offsets, dict) for offsets in found.values()):
        places = [
            f"{topic}-{partition}: {at:,}" for topic, offsets in found.items() for partition, at in offsets.items()
        ]
    else:
        return position
    return ", ".join(first_of(places, shown)) or "the first record"
