"""Which tables the records of their topics may go into once more, in place; a pure decision from schema and options."""

from __future__ import annotations

from paimon_table import Table


def refusal(identifier: str, table: Table, *, ends_early: bool) -> str | None:
    """Why a replay would leave other rows than are right; None where it leaves the same ones.

    Where deletes apply, a row comes back with its insert and goes with its delete, so a replay is right only once it
    has met the stream: with ``ends_early`` it is to end before.
    """
    options, schema = table.options, table.schema
    if not schema.primary_keys:
        return f"table {identifier} has no primary key: every record would add its row a second time"
    if options.merge_engine == "first-row":
        return None
    repeated = table.write_traits.accumulating
    if options.merge_engine == "aggregation" or repeated:
        columns = f" (columns {', '.join(repeated)})" if repeated else ""
        return f"table {identifier} aggregates{columns}: what is in its rows already would count a second time"
    grouped = {name for group in options.field_options.sequence_groups for name in (*group.sequence, *group.protected)}
    values = {name for name in schema.column_names if name not in schema.primary_keys}
    if not options.sequence_fields and not (options.merge_engine == "partial-update" and values <= grouped):
        return (
            f"table {identifier} has no sequence.field: older records would win over newer rows until the replay has"
            " come to them"
        )
    if ends_early and not options.ignore_delete:
        return (
            f"table {identifier} takes deletes: rows that are deleted behind --to would come back. Leave --to out: the"
            " replay then continues until it has met the stream"
        )
    return None
