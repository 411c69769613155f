"""A journey of one table: more than rows happens to it, and Tidemark and Java take turns; printed and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

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


Step = Write | Compact | Rescale | Overwrite | Drop | Tag | RollBack
_KINDS: Mapping[str, type[Step]] = {
    kind.__name__: kind for kind in (Write, Compact, Rescale, Overwrite, Drop, Tag, RollBack)
}


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

    @property
    def producer(self) -> str:
        return self.options.get("changelog-producer", "none")

    @property
    def expires_rows(self) -> bool:
        return "record-level.expire-time" in self.options

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
    )


def _step(kind: str, fields: dict[str, Any]) -> Step:
    if "rows" in fields:
        fields["rows"] = tuple(tuple(row) for row in fields["rows"])
    if "by" in fields:
        fields["by"] = By(fields["by"])
    return _KINDS[kind](**fields)
