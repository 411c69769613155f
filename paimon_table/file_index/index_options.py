"""Which columns have a file index, from the ``file-index.*`` options.

Implements ``file-index.bloom-filter.columns`` and the options of each column; ``column[key]`` names the value of one
key of a MAP column. Other types of index are not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paimon_table.errors import ConfigError
from paimon_table.file_index.bloom_filter import MOST_BITS, bits_for
from paimon_table.option_values import fraction, integer, names

BLOOM_FILTER = "bloom-filter"

_PREFIX = f"file-index.{BLOOM_FILTER}."
_COLUMNS = f"{_PREFIX}columns"
_ITEMS = 1_000_000
_FPP = 0.1


@dataclass(frozen=True, slots=True)
class BloomFilterColumn:
    """A column with a bloom filter that is made for ``items`` values and a false positive rate of ``fpp``."""

    column: str
    map_key: str | None = None
    items: int = _ITEMS
    fpp: float = _FPP

    @property
    def name(self) -> str:
        """The name in the options and in the index file."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"


def is_bloom_filter_option(name: str) -> bool:
    return name.startswith(_PREFIX)


def parse_bloom_filters(options: Mapping[str, str]) -> tuple[BloomFilterColumn, ...]:
    """The columns with a bloom filter, in the order of the option.

    Options of a MAP column hold for all of its keys. Raises ConfigError for options of a column that is not named and
    for unreadable values; whether the columns exist and can have an index is checked with the schema.
    """
    listed = tuple(dict.fromkeys(names(_COLUMNS, options.get(_COLUMNS, ""))))
    known = {*listed, *(name.partition("[")[0] for name in listed)}
    for option in filter(is_bloom_filter_option, options):
        column, _, setting = option.removeprefix(_PREFIX).rpartition(".")
        if option != _COLUMNS and (column not in known or setting not in {"items", "fpp"}):
            raise ConfigError(
                f"option {option!r} is unknown; write {_PREFIX}<column>.items or .fpp for a column of {_COLUMNS!r}, "
                f"which names: {', '.join(listed) or 'none'}"
            )
    return tuple(_column(name, options) for name in listed)


def _column(name: str, options: Mapping[str, str]) -> BloomFilterColumn:
    column, bracket, key = name.partition("[")
    is_key = bool(bracket) and name.endswith("]")
    parents = (name, column) if is_key else (name,)
    items, fpp, limited_by = _ITEMS, _FPP, f"{_PREFIX}{name}.items"
    for parent in reversed(parents):
        items_option, fpp_option = f"{_PREFIX}{parent}.items", f"{_PREFIX}{parent}.fpp"
        if items_option in options:
            items, limited_by = integer(1)(items_option, options[items_option]), items_option
        if fpp_option in options:
            fpp = fraction(fpp_option, options[fpp_option])
            if not 0 < fpp < 1:
                raise ConfigError(f"option {fpp_option!r}: {fpp} is no probability; write one between 0 and 1")
    if bits_for(items, fpp) > MOST_BITS:
        raise ConfigError(
            f"option {limited_by!r}: a bloom filter for {items} values with a false positive rate of {fpp} takes more "
            f"than {MOST_BITS} bits; write fewer items or a larger fpp"
        )
    return BloomFilterColumn(column, key[:-1], items, fpp) if is_key else BloomFilterColumn(name, None, items, fpp)
