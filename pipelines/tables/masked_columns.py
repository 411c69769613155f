"""What masks a table's rows were written under: a mask hides what is written from then on, and no older row.

The table remembers its masks in the option ``tidemark.column-sources``, so each new one is told once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from paimon_table import SetOption, Table
from pipelines.config.column_rules import ColumnMask, KeyedHash
from pipelines.config.table_rules import TargetRule
from sources.column_sources import OPTION, ColumnSources

log = logging.getLogger(__name__)


def mask_words(rules: Iterable[TargetRule]) -> dict[str, str]:
    """The masked columns by their names in the table, each with the word for its mask."""
    return {name: _word(mask) for rule in rules for name, (_, mask) in rule.columns.masks.items()}


def with_masks_of(rules: Iterable[TargetRule], table: Table, identifier: str, time_ms: int) -> Table:
    """The table with the masks that ``rules`` put on its columns; warns of older rows that these do not hide.

    All rules are given that write the table. Publishes a schema version where a mask is new. Idempotent.
    """
    rules = list(rules)
    known, wanted = ColumnSources.parsed(table.schema.options.get(OPTION)), mask_words(rules)
    if known.masked == wanted:
        return table
    open_columns = sorted({name for rule in rules for name in _open(rule, table, known.masked, wanted)})
    if open_columns:
        log.warning(
            "table %s: columns.mask hides column %s from now on. Rows that the table has keep the values that they were"
            " written with. To hide these too, rebuild the table from its topics (`tidemark replay FILE --table %s"
            " --rebuild`). Older snapshots, tags and branches show them until they expire or are deleted",
            identifier, ", ".join(open_columns), identifier,
        )  # fmt: skip
    return table.evolve([SetOption(OPTION, known.with_masked(wanted).text)], time_ms)


def _open(rule: TargetRule, table: Table, known: Mapping[str, str], wanted: Mapping[str, str]) -> Iterable[str]:
    """The columns whose older rows another mask has hidden, or none: also under the name that the source has."""
    for stored, (source, _) in rule.columns.masks.items():
        if known.get(stored) != wanted[stored]:
            yield from (name for name in dict.fromkeys((stored, source)) if table.schema.has_column(name))


def _word(mask: ColumnMask) -> str:
    if isinstance(mask, str):
        return mask
    return "hash" if isinstance(mask, KeyedHash) else f"show_last {mask.show_last}"
