"""The options that define a schema: its keys, and the kind of table. The schema uses them, not the engine."""

from __future__ import annotations

from paimon_table.errors import UnsupportedFeature
from paimon_table.option_declaration import Declaration, never
from paimon_table.option_values import boolean, plain


def _table_type(name: str, text: str) -> str:
    if text.lower() != "table":
        raise UnsupportedFeature(f"option {name!r}: {text!r} is not supported; supported: table", option=name)
    return text.lower()


TYPE = Declaration(name="type", parse=_table_type, default="table", change=never)
BUCKET_KEY = Declaration(name="bucket-key", parse=plain, change=never, is_read=True)
"""Comma-separated names, whose blanks count; the primary key by default."""
PRIMARY_KEY_NULLABLE = Declaration(
    name="primary-key.nullable", parse=boolean, default=False, change=never, is_read=True
)
PRIMARY_KEY = Declaration(name="primary-key", parse=plain, change=never)
PARTITION = Declaration(name="partition", parse=plain, change=never)

KEY_OPTIONS = (PRIMARY_KEY, PARTITION)
"""As in SQL, they set the keys of a new table, and do not stay among the options of a schema."""

STORED_OPTIONS = (TYPE, BUCKET_KEY, PRIMARY_KEY_NULLABLE)
"""They stay among the options of a schema."""
