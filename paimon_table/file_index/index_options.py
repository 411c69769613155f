"""Which columns have a file index, from the ``file-index.*`` options.

Implements ``file-index.bloom-filter.columns`` and the options of each column; ``column[key]`` names the value of one
key of a MAP column. Tidemark writes no other types of index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_table.errors import ConfigError
from paimon_table.file_index.index_limits import MOST_BITS, bits_for
from paimon_table.option_declaration import Declaration, declared_in, listed, option
from paimon_table.option_values import fraction, integer, names

BLOOM_FILTER = "bloom-filter"

_PREFIX = f"file-index.{BLOOM_FILTER}."


def _columns(value: str) -> tuple[str, ...]:
    return listed(",".join(name.partition("[")[0] for name in value.split(",")))


BLOOM_FILTER_COLUMNS = Declaration(name=f"{_PREFIX}columns", parse=names, default=(), columns=_columns)
"""The columns with a bloom filter."""


def _probability(name: str, text: str) -> float:
    value = fraction(name, text)
    if not 0 < value < 1:
        raise ConfigError(f"option {name!r}: {value} is not a probability; write one between 0 and 1", option=name)
    return value


@dataclass(frozen=True, slots=True)
class BloomFilterColumn:
    """A column with a bloom filter for ``items`` values and a false positive rate of ``fpp``."""

    column: str
    map_key: str | None = None
    items: int = option("items", integer(1), 1_000_000)
    fpp: float = option("fpp", _probability, 0.1)

    @property
    def name(self) -> str:
        """The name in the options and in the index file."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"


_SETTINGS = {declared.name: field for field, declared in declared_in(BloomFilterColumn).items()}


def is_bloom_filter_option(name: str) -> bool:
    return name.startswith(_PREFIX)


def parse_bloom_filters(options: Mapping[str, str]) -> tuple[BloomFilterColumn, ...]:
    """The columns with a bloom filter, in the order of the option.

    Options of a MAP column apply to all of its keys. Raises ConfigError for options of other columns and for unreadable
    values. The check of the schema verifies that the columns exist and can have an index.
    """
    indexed = tuple(dict.fromkeys(BLOOM_FILTER_COLUMNS.value_in(options)))
    known = {*indexed, *(name.partition("[")[0] for name in indexed)}
    for name in filter(is_bloom_filter_option, options):
        column, _, setting = name.removeprefix(_PREFIX).rpartition(".")
        if name != BLOOM_FILTER_COLUMNS.name and (column not in known or setting not in _SETTINGS):
            raise ConfigError(
                f"option {name!r} is unknown; write {_PREFIX}<column>.items or .fpp for a column of "
                f"{BLOOM_FILTER_COLUMNS.name!r}, which names: {', '.join(indexed) or 'none'}",
                option=name,
            )
    return tuple(_column(name, options) for name in indexed)


def _column(name: str, options: Mapping[str, str]) -> BloomFilterColumn:
    column, bracket, key = name.partition("[")
    is_key = bool(bracket) and name.endswith("]")
    values: dict[str, Any] = {}
    limited_by = f"{_PREFIX}{name}.items"
    for parent in (column, name) if is_key else (name,):
        for setting, declared in declared_in(BloomFilterColumn).items():
            stated = f"{_PREFIX}{parent}.{declared.name}"
            if stated in options:
                values[setting] = declared.parse(stated, options[stated])
                limited_by = stated if setting == "items" else limited_by
    of_column = BloomFilterColumn(column, key[:-1], **values) if is_key else BloomFilterColumn(name, **values)
    items, fpp = of_column.items, of_column.fpp
    if bits_for(items, fpp) > MOST_BITS:
        raise ConfigError(
            f"option {limited_by!r}: a bloom filter for {items} values with a false positive rate of {fpp} takes more "
            f"than {MOST_BITS} bits. Write fewer items or a larger fpp",
            option=limited_by,
        )
    return of_column
