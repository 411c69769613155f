"""The options of upsert formats that are not about the forms of values."""

from __future__ import annotations

from dataclasses import dataclass

from sources.format_options import option


def _fields_problem(text: str) -> str | None:
    """Why no connector takes a list of fields."""
    for entry in text.split(","):
        path, _, renamed = entry.strip().partition(":")
        if not path.strip(".") or path.count(".") > 1 or ":" in renamed or entry.strip().endswith((":", ".")):
            return (
                f"{entry.strip()!r} is not a field; repeat the connector's add.fields: names such as op, source.ts_ms"
                " or op:operation, with commas between them"
            )
    return None


@dataclass(frozen=True, slots=True)
class UpsertPolicies:
    """The meaning of records without rows, by the settings of the transform ExtractNewRecordState."""

    on_tombstone: str = option(
        "delete",
        "If a value is null, `delete` deletes the row of its key, and `skip` does "
        "nothing. Set `skip` if `__deleted` marks the deletes.",
        "skip",
    )
    """``skip`` is for topics where another record says the same (``__deleted``)."""
    metadata: str = option(
        "drop",
        "If rows have metadata fields, such as `__op` and `__lsn`, `drop` leaves them out of the table, "
        "and `keep` stores them as columns.",
        "keep",
    )
    """``__deleted`` is never kept: if it is true, there is no row."""
    add_fields: str = option(
        "auto",
        "The connector's `add.fields`, which names the metadata fields. With `auto`, these are all fields of "
        "envelopes and of their source with the prefix. If the connector renames fields (`op:operation`) or the "
        "prefix is empty, repeat the connector's list.",
        check=_fields_problem,
    )
    add_fields_prefix: str = option("__", "The connector's `add.fields.prefix`; `none` means an empty prefix.")
    add_headers_prefix: str = option("__", "The connector's `add.headers.prefix`; `none` means an empty prefix.")
    unavailable_value: str = option(
        "__debezium_unavailable_value",
        "The connector's `unavailable.value.placeholder`. If a column holds it, the column keeps its earlier value.",
    )
