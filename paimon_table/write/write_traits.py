"""How a table treats arriving rows, for code that prepares rows for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from paimon_table.data_files.altered_values import key_problems
from paimon_table.merge.aggregation import accumulating_columns
from paimon_table.merge.retracts import RefusedDeletes, can_retract, refused_deletes, takes_update_before
from paimon_table.metadata.paths import limits_names, long_values
from paimon_table.metadata.table_context import TableContext
from paimon_table.types import CHARACTERS

FindProblems = Callable[[pa.Array], Mapping[int, str]]
"""Returns the positions of values that a table cannot store, and the reasons. Picklable."""


@dataclass(frozen=True, slots=True)
class WriteTraits:
    """See the module."""

    wants_update_before: bool
    """Whether an update needs its old row, -U: the changelog repeats it, or aggregation retracts it."""
    accumulating: tuple[str, ...]
    """Columns whose repeated value would count again, as in sums and lists."""
    refused_deletes: RefusedDeletes | None
    """Why a -D would make its key unreadable; None if the table accepts or ignores it."""
    unstorable: Mapping[str, FindProblems]
    """By column, a function that finds values that no file or directory of the table can store."""


def write_traits(ctx: TableContext) -> WriteTraits:
    """The traits of a table."""
    schema, options = ctx.schema, ctx.options
    unstorable: dict[str, FindProblems] = {
        f.name: partial(long_values, f.name)
        for f in schema.partition_fields
        if f.type.root in CHARACTERS and limits_names(ctx.paths.root)
    }
    if not schema.primary_keys:
        return WriteTraits(wants_update_before=False, accumulating=(), refused_deletes=None, unstorable=unstorable)
    repeats_input = options.changelog_producer == "input" and takes_update_before(schema, options)
    return WriteTraits(
        wants_update_before=repeats_input or can_retract(schema, options),
        accumulating=accumulating_columns(schema, options),
        refused_deletes=refused_deletes(schema, options),
        unstorable={**key_problems(schema, options), **unstorable},
    )
