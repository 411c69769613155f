"""Names that a rule computes with and that the records do not have: `$database` and `$schema`.

Rows behind `ExtractNewRecordState` name their table only if the connector adds fields for it. Otherwise the name of the
topic gives the parts, if it has three: in `crm.eu.staff`, `eu` is the schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.config.table_rules import TargetRule
from sources.changes import SourceTable
from sources.expressions.computed import metadata_of
from sources.wording import lack_of_name

_PARTS = ("database", "schema")


def refusal_of_names(rule: TargetRule, source: SourceTable) -> str | None:
    """Why no row of a source table has a key: a key column is a name that the records do not have."""
    for column in rule.primary_key or ():
        text = rule.columns.expressions.get(column, "").strip()
        part = text[1:]
        if text.startswith("$") and part in _PARTS and getattr(source, part) is None:
            return f"column {column} of the primary key would be NULL: {_lack(source, part)}"
    return None


def warnings_of_names(rule: TargetRule, source: SourceTable) -> Iterator[str]:
    """A sentence for each expression that gets NULL for a name and has no alternative."""
    texts = {f"column {name}": text for name, text in rule.columns.expressions.items()}
    if rule.where is not None:
        texts["`where`"] = rule.where
    for place, text in texts.items():
        parts = [part for part in metadata_of(text) if part in _PARTS]
        if len(parts) == 1 and getattr(source, parts[0]) is None:
            lack = _lack(source, parts[0])
            yield f"rule into {rule.into}: {place}: ${parts[0]} is NULL: {lack}"


def _lack(source: SourceTable, part: str) -> str:
    return lack_of_name(part, source.topic, source.database, source.schema, "${}")
