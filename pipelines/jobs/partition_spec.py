"""Partitions on the command line: `dt=2024-01-01` or `dt=2024-01-01,region='a,b'`.

A column takes a value of its type, or the text in the directory name. Single quotes keep commas and blanks, and NULL
stands for itself. Columns that are not named match any value. The whole directory names a partition too.

Directories do not distinguish NULL, blanks and the default name, and `a%2Fb` may be a value or the directory of the
value `a/b`. A spec that matches several different values of the table is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from paimon_table import TableContext
from paimon_table.errors import ConfigError
from paimon_table.maintenance.partitions import PartitionFacts
from paimon_table.nearest_name import did_you_mean
from paimon_table.types import sql
from pipelines.inspect.where_constants import Constant, Unfit, value_of
from sources.wording import first_of

_PART = re.compile(r"\s*([^=,]+?)\s*=\s*('(?:[^']|'')*'|[^,']*)\s*(,|$)")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The value that one column must have: one of its type, if the text is one, or the text of its directory."""

    column: str
    type_name: str
    value: pa.Scalar[Any] | None
    directory_text: str | None
    """None if only a value can be meant."""

    def fits(self, value: pa.Scalar[Any], directory_text: str) -> bool:
        return (self.value is not None and self.value.equals(value)) or self.directory_text == directory_text


def named_partitions(
    ctx: TableContext, partitions: Mapping[bytes, PartitionFacts], specs: Sequence[str]
) -> dict[bytes, PartitionFacts]:
    """The partitions that a spec names. Raises ConfigError for specs that do not fit the table or name no partition."""
    if not ctx.schema.partition_keys:
        raise ConfigError(f"--partition: the table at {ctx.paths.root} has no partitions; leave it out")
    found: dict[bytes, PartitionFacts] = {}
    for spec in specs:
        found |= _named(ctx, partitions, spec)
    return {partition: facts for partition, facts in partitions.items() if partition in found}


def told_partition(ctx: TableContext, partition: bytes, facts: PartitionFacts) -> str:
    """The directory of a partition, with the values that it does not show."""
    default = ctx.options.partition_default_name
    unclear = [column for column, text in _directory_texts(ctx, facts).items() if text == default]
    return f"{facts.directory} ({_spec_of(_values(ctx, partition), unclear)})" if unclear else facts.directory


def _named(ctx: TableContext, partitions: Mapping[bytes, PartitionFacts], spec: str) -> Mapping[bytes, PartitionFacts]:
    """The partitions that one spec names, by values or as a directory."""
    of_directory = {p: facts for p, facts in partitions.items() if facts.directory == spec.strip("/")}
    try:
        parts = _parts(spec)
    except ConfigError:
        if not of_directory:
            raise
        parts = {}
    if any(map(_is_null, parts.values())):
        of_directory = {}
    names_directory = bool(of_directory) and not parts.keys() <= set(ctx.schema.partition_keys)
    wanted = [] if names_directory else [_wanted(ctx, column, text) for column, text in parts.items()]
    of_values = {p: facts for p, facts in partitions.items() if wanted and _fits(ctx, p, facts, wanted)}
    fitting = of_directory | of_values
    if not fitting:
        strange = [f"{one.directory_text!r} is no {one.type_name}; " for one in wanted if one.value is None]
        raise ConfigError(
            f"--partition {spec}: {''.join(strange[:1])}there is no such partition; {_present(partitions)}"
        )
    columns = ctx.schema.partition_keys if of_directory else tuple(parts)
    meant = dict.fromkeys(_spec_of(_values(ctx, partition), columns) for partition in fitting)
    if len(meant) > 1:
        raise ConfigError(
            f"--partition {spec} is ambiguous: {' or '.join(meant)}. Name one of these, or repeat the option to "
            "name several"
        )
    return fitting


def _spec_of(values: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The shortest spec that names these values of the columns and no others."""
    return ",".join(f"{column}={_quoted(values[column])}" for column in columns)


def _quoted(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _is_null(text: str) -> bool:
    return text.upper() == "NULL"


def _values(ctx: TableContext, partition: bytes) -> dict[str, Any]:
    return dict(zip(ctx.schema.partition_keys, ctx.partition_values(partition), strict=True))


def _directory_texts(ctx: TableContext, facts: PartitionFacts) -> dict[str, str]:
    """Column to the text in its directory."""
    names = zip(ctx.schema.partition_keys, facts.directory.split("/"), strict=True)
    return {column: unquote(name.partition("=")[2]) for column, name in names}


def _parts(spec: str) -> dict[str, str]:
    """Column to text as it was written, quotes included."""
    parts: dict[str, str] = {}
    at = 0
    while at < len(spec) or not parts:
        match = _PART.match(spec, at)
        if match is None or match.group(1) in parts:
            raise ConfigError(
                f"--partition {spec}: expected COLUMN=VALUE, or several with commas between them; put a value with a "
                "comma in single quotes"
            )
        parts[match.group(1)] = match.group(2).strip()
        at = match.end()
        if match.group(3) == "," and at == len(spec):
            raise ConfigError(f"--partition {spec}: a column is missing after the last comma")
    return parts


def _wanted(ctx: TableContext, column: str, text: str) -> _Wanted:
    keys = ctx.schema.partition_keys
    if column not in keys:
        raise ConfigError(f"--partition: {column!r} is not a partition column; {did_you_mean(column, keys)}")
    target, type_name = (
        ctx.schema.arrow_schema.field(column).type,
        sql(ctx.schema.field(column).type.with_nullable(True)),
    )
    if _is_null(text):
        return _Wanted(column, type_name, pa.scalar(None, target), None)
    is_quoted = text.startswith("'")
    plain = text[1:-1].replace("''", "'") if is_quoted else text
    try:
        value = value_of(Constant("boolean" if pa.types.is_boolean(target) else "text", plain), target)
    except Unfit:
        value = None
    return _Wanted(column, type_name, value, None if is_quoted and value is not None else plain)


def _fits(ctx: TableContext, partition: bytes, facts: PartitionFacts, wanted: Sequence[_Wanted]) -> bool:
    values, texts = _values(ctx, partition), _directory_texts(ctx, facts)
    for one in wanted:
        field = ctx.schema.arrow_schema.field(one.column)
        if not one.fits(pa.array([values[one.column]], field.type)[0], texts[one.column]):
            return False
    return True


def _present(partitions: Mapping[bytes, PartitionFacts]) -> str:
    if not partitions:
        return "the table has none"
    return f"the table has {', '.join(first_of([facts.directory for facts in partitions.values()], _SHOWN))}"
