"""A journey of one table: more than rows happens to it, and Tidemark and Java take turns; printed and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, get_args

from tests.support.plain_values import Plain

Row = tuple[Plain, ...]
"""``(kind, values...)``."""


class By(StrEnum):
    JAVA = "java"
    TIDEMARK = "tidemark"


@dataclass(frozen=True, slots=True)
class Write:
    """One commit; ``full_compact`` ends it with a full compaction of all buckets."""

    by: By
    rows: tuple[Row, ...]
    full_compact: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """Everything compacted; postponed rows get buckets, and by Java no more than that."""

    by: By


@dataclass(frozen=True, slots=True)
class Rescale:
    """Another number of buckets, of one partition by its first value or of all; Java has no such step."""

    buckets: int
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Overwrite:
    """INSERT OVERWRITE of a static partition by its first value, or as the table's options say."""

    by: By
    rows: tuple[Row, ...]
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """A partition, by its first value, is dropped."""

    by: By
    partition: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the newest snapshot, and a branch that begins there."""

    by: By
    name: str


@dataclass(frozen=True, slots=True)
class RollBack:
    """Back to what the table was after a step, counted from 1, or to a tag."""

    by: By
    step: int = 0
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class DropTag:
    """A tag is deleted; the branch that began there stays."""

    by: By
    name: str


@dataclass(frozen=True, slots=True)
class BranchWrite:
    """One commit to the branch of a tag."""

    by: By
    tag: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class FastForward:
    """The branch of a tag takes the place of what the table has been since; Tidemark has no such step."""

    tag: str


@dataclass(frozen=True, slots=True)
class Alter:
    """A change as ``JavaPaimon.alter`` takes it, types as SQL; Tidemark adds columns, widens them and sets options."""

    by: By
    change: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expire:
    """All but the newest snapshots go, while a commit of the other one lies between its files and its snapshot."""

    by: By
    kept: int
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Rows of a table without primary key, by the values of column ``k``, are marked in deletion vectors, by Java."""

    values: tuple[Plain, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A write, or INSERT OVERWRITE, of rows whose partition has a name that is too long for a directory."""

    by: By
    rows: tuple[Row, ...]
    overwrites: bool = False


@dataclass(frozen=True, slots=True)
class Sort:
    """Java's compaction by sorting, which overwrites every partition with its own rows in another order."""


Step = (
    Write
    | Compact
    | Rescale
    | Overwrite
    | Drop
    | Tag
    | RollBack
    | DropTag
    | BranchWrite
    | FastForward
    | Alter
    | Expire
    | Delete
    | Refused
    | Sort
)
_KINDS: Mapping[str, type[Step]] = {kind.__name__: kind for kind in get_args(Step)}

DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
"""The text of NULL where steps name a partition."""


def partition_text(value: Plain) -> str:
    """How steps name a partition by a value of its first column."""
    if value is None:
        return DEFAULT_PARTITION
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Journey:
    """Columns are (name, SQL type); the first partition column is the one that steps name."""

    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    steps: tuple[Step, ...]
    twin_options: Mapping[str, str] = field(default_factory=dict)
    """What is different of the table that Java alone writes."""
    kind: str = ""
    """Of those that ``journey_kinds`` draws."""

    @property
    def has_order(self) -> bool:
        """Whether rows of one bucket key are read in the order in which they came."""
        return not self.primary_key and "bucket-key" in self.options

    @property
    def order_key(self) -> tuple[str, ...]:
        return (*self.partition_by, *self.options["bucket-key"].split(","))

    @property
    def tells_all(self) -> bool:
        """Whether the changelog of every write has what it changed in the table."""
        if self.expires_rows:
            return False
        if self.producer == "full-compaction":
            return all(step.full_compact for step in self.steps if isinstance(step, Write))
        return self.producer == "lookup"

    @property
    def producer(self) -> str:
        return self.options.get("changelog-producer", "none")

    @property
    def expires_rows(self) -> bool:
        return "record-level.expire-time" in self.options

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, in the order of the steps."""
        return tuple(row for step in self.steps for row in rows_of(step))

    def with_steps(self, steps: tuple[Step, ...]) -> Journey:
        return replace(self, steps=steps)

    def position(self, column: str) -> int:
        """Of a column among the values of a row."""
        return [name for name, _ in self.columns].index(column)

    def text(self) -> str:
        """JSON with one step a line, which ``from_text`` reads back."""
        head = json.dumps(asdict(self.with_steps(())))
        lines = [json.dumps([type(step).__name__, asdict(step)]) for step in self.steps]
        return "\n".join([head, *lines])


def rows_of(step: Step) -> tuple[Row, ...]:
    """The rows that a step brings."""
    match step:
        case Write(rows=rows) | Overwrite(rows=rows) | BranchWrite(rows=rows) | Expire(rows=rows):
            return rows
        case _:
            return ()


def from_text(text: str) -> Journey:
    """The journey that ``Journey.text`` printed."""
    head, *lines = text.strip().splitlines()
    document: dict[str, Any] = json.loads(head)
    return Journey(
        columns=tuple((name, sql) for name, sql in document["columns"]),
        primary_key=tuple(document["primary_key"]),
        partition_by=tuple(document["partition_by"]),
        options=document["options"],
        steps=tuple(_step(*json.loads(line)) for line in lines),
        twin_options=document["twin_options"],
        kind=document.get("kind", ""),
    )


def _step(kind: str, fields: dict[str, Any]) -> Step:
    if "rows" in fields:
        fields["rows"] = tuple(tuple(row) for row in fields["rows"])
    if "values" in fields:
        fields["values"] = tuple(fields["values"])
    if "change" in fields:
        fields["change"] = tuple(fields["change"])
    if "by" in fields:
        fields["by"] = By(fields["by"])
    return _KINDS[kind](**fields)
