"""Draws the steps of a journey of a kind: ``journey_kinds`` has what the table is and how often which step happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from paimon_table.types import Root, parse_type
from tests.differential.columns import SCALARS, Column, ValueType
from tests.differential.journey import (
    Alter,
    BranchWrite,
    By,
    Compact,
    Delete,
    Drop,
    DropTag,
    Expire,
    FastForward,
    Journey,
    Overwrite,
    Refused,
    Rescale,
    RollBack,
    Row,
    Sort,
    Step,
    Tag,
    Write,
    partition_text,
)
from tests.differential.journey_kinds import KINDS, TOO_LONG
from tests.support.plain_values import Plain

_WIDER: Mapping[str, tuple[str, ...]] = {
    "INT": ("BIGINT", "DECIMAL(12, 2)", "DOUBLE"),
    "BIGINT": ("DECIMAL(20, 1)",),
    "DECIMAL(10, 2)": ("DECIMAL(30, 4)",),
    "DECIMAL(12, 2)": ("DECIMAL(30, 4)",),
    "TIMESTAMP(3)": ("TIMESTAMP(6)",),
}


def draw_kind(kind: str, seed: int) -> Journey:
    """The journey of a kind and a seed, the same on every machine."""
    return _Drawing(kind, seed).journey()


class _Drawing:
    def __init__(self, kind: str, seed: int) -> None:
        self.rng = random.Random(f"{kind} {seed}")
        self.kind = kind
        self.sketch = KINDS[kind](self.rng)
        self.columns = list(self.sketch.columns)
        self.buckets = int(self.sketch.options["bucket"])
        self.steps: list[Step] = []
        self.past: list[int] = []
        """Steps that a rollback can go back to."""
        self.tags: dict[str, int] = {}
        """Where they were made, those that are left."""
        self.branches: dict[str, tuple[int, list[Column]]] = {}
        """Names of the tags where they began, the step and the columns."""
        self.kept_tags: set[str] = set()
        self.young: set[tuple[Plain, ...]] = set()
        self.added = 0

    def journey(self) -> Journey:
        for _ in range(self.rng.randint(4, 10)):
            for step in self._step():
                self.steps.append(step)
                self._note(step)
        if self.kind in ("postponed", "row-expiry"):
            self.steps.append(Compact(self._by()))
        sketch = self.sketch
        return Journey(
            columns=tuple((column.name, column.type.sql) for column in sketch.columns),
            primary_key=sketch.primary_key,
            partition_by=sketch.partition_by,
            options=sketch.options,
            steps=tuple(self.steps),
            twin_options=sketch.twin_options,
            kind=self.kind,
        )

    # ------------------------------------------------------------ steps

    def _by(self) -> By:
        return self.rng.choice((By.JAVA, By.TIDEMARK))

    def _step(self) -> list[Step]:
        if not self.steps:
            return [Write(self._by(), self._rows(self.rng.randint(2, 6), ("+I",)), self.sketch.full_share == 1)]
        draws: Mapping[str, Callable[[], list[Step]]] = {
            "write": lambda: [self._write()],
            "compact": lambda: [Compact(self._by())],
            "rescale": self._rescale,
            "overwrite": lambda: [self._overwrite()],
            "drop": lambda: [Drop(self._by(), self._place())],
            "tag": self._tag,
            "drop tag": self._drop_tag,
            "roll back": self._roll_back,
            "roll back to tag": self._roll_back_to_tag,
            "branch": self._branch,
            "fast forward": self._fast_forward,
            "alter": self._alter,
            "expire": self._expire,
            "delete": lambda: [Delete(tuple(self.rng.sample(range(1, 7), self.rng.choice((1, 1, 2, 5)))))],
            "refused": lambda: [self._refused()],
            "sort": lambda: [Sort()],
        }
        weights = {"write": 5.0, **self.sketch.weights}
        return list(draws[self.rng.choices(list(weights), list(weights.values()))[0]]())

    def _write(self) -> Write:
        rows = self._rows(self.rng.choice((1, 2, 4, 8)), self.sketch.kinds)
        return Write(self._by(), rows, self.rng.random() < self.sketch.full_share)

    def _place(self) -> str:
        """A partition of the first column, by its text."""
        return partition_text(self.sketch.columns[0].draw(self.rng))

    def _overwrite(self) -> Overwrite:
        rows = self._rows(self.rng.choice((1, 3, 6)), ("+I",), distinct=True)
        if self.rng.random() < 0.5:
            return Overwrite(self._by(), rows)
        first = self.rng.choice(rows)[1]
        rows = self._distinct([(row[0], first, *row[2:]) for row in rows])
        return Overwrite(self._by(), rows, partition_text(first))

    def _refused(self) -> Refused:
        """One row, or among others that could be written, in any place."""
        rows = list(self._rows(self.rng.choice((1, 3)), ("+I",), distinct=True))
        at = self.rng.randrange(len(rows))
        rows[at] = (rows[at][0], self.rng.choice(TOO_LONG), *rows[at][2:])
        return Refused(self._by(), tuple(rows), self.rng.random() < 0.3)

    def _rescale(self) -> list[Step]:
        if self.kind == "postponed":
            return [Rescale(self.rng.choice((1, 2, -2)))]
        return [Rescale(self.rng.choice((1, 2, 3, 4, -1)))]

    def _tag(self) -> list[Step]:
        """Of a snapshot with the newest columns, which are the columns of the branch then."""
        before: list[Step] = [self._write()] if self.kind == "schemas" else []
        return [*before, Tag(self._by(), f"t{len(self.steps)}")]

    def _drop_tag(self) -> list[Step]:
        return [DropTag(self._by(), self.rng.choice(list(self.tags)))] if self.tags else [self._write()]

    def _roll_back(self) -> list[Step]:
        if self.tags and self.rng.random() < 0.5:
            return self._roll_back_to_tag()
        back = RollBack(self._by(), step=self.rng.choice(self.past))
        return [back, *self._same_buckets()]

    def _roll_back_to_tag(self) -> list[Step]:
        if not self.tags:
            return [self._write()]
        return [RollBack(self._by(), tag=self.rng.choice(list(self.tags))), *self._same_buckets()]

    def _same_buckets(self) -> list[Step]:
        """The option stays as it is; nobody may write to partitions that have another number again."""
        return [Rescale(self.buckets)] if self.sketch.weights.get("rescale") and self.buckets != -2 else []

    def _branch(self) -> list[Step]:
        if not self.branches:
            return self._tag()
        name = self.rng.choice(list(self.branches))
        rows = self._rows(self.rng.choice((1, 2, 4)), self.sketch.kinds, columns=self.branches[name][1])
        return [BranchWrite(self._by(), name, rows)]

    def _fast_forward(self) -> list[Step]:
        return [FastForward(self.rng.choice(list(self.branches)))] if self.branches else [self._write()]

    def _expire(self) -> list[Step]:
        rows = self._rows(self.rng.choice((1, 3)), self.sketch.kinds) if self.rng.random() < 0.6 else ()
        return [Expire(self._by(), self.rng.choice((1, 1, 2, 4)), rows)]

    def _note(self, step: Step) -> None:
        number = len(self.steps)
        match step:
            case Rescale(buckets=buckets):
                self.buckets = buckets
            case Tag(name=name):
                self.tags[name] = number
                self.branches[name] = (number, list(self.columns))
            case DropTag(name=name):
                del self.tags[name]
            case RollBack(step=at, tag=tag):
                self._back(at or self.tags[str(tag)])
            case FastForward(tag=tag):
                self._back(self.branches[tag][0] - 1)
                # The tag went along to the branch, and comes back with it.
                self.tags.pop(tag, None)
        self.past.append(number)

    def _back(self, at: int) -> None:
        self.past = [past for past in self.past if past <= at]
        self.tags = {name: made for name, made in self.tags.items() if made <= at}

    # ------------------------------------------------------------ changes of the schema

    def _alter(self) -> list[Step]:
        rng = self.rng
        fixed = {*self.sketch.primary_key, *self.sketch.partition_by, "k"}
        free = [i for i, column in enumerate(self.columns) if column.name not in fixed]
        what = rng.choice(("add", "add", "type", "type", "rename", "drop"))
        by = self._by()
        if what == "add":
            self.added += 1
            column = Column(f"c{self.added}", rng.choice(SCALARS))
            self.columns.append(column)
            return [Alter(by, ("add", column.name, column.type.sql))]
        at = rng.choice(free)
        column = self.columns[at]
        if what == "rename":
            self.added += 1
            self.columns[at] = replace(column, name=f"r{self.added}")
            return [Alter(By.JAVA, ("rename", column.name, f"r{self.added}"))]
        if what == "drop" and len(free) > 1:
            del self.columns[at]
            return [Alter(By.JAVA, ("drop", column.name))]
        wider = [(i, sql) for i in free for sql in _WIDER.get(self.columns[i].type.sql, ())]
        if not wider:
            return [self._write()]
        at, sql = rng.choice(wider)
        column = self.columns[at]
        self.columns[at] = replace(column, type=_widened(column.type, sql))
        is_lossless = (column.type.sql, sql) != ("BIGINT", "DOUBLE")
        return [Alter(by if is_lossless else By.JAVA, ("type", column.name, sql))]

    # ------------------------------------------------------------ rows

    def _rows(
        self, count: int, kinds: tuple[str, ...], distinct: bool = False, columns: list[Column] | None = None
    ) -> tuple[Row, ...]:
        drawn = [self._row(kinds, columns or self.columns) for _ in range(count)]
        return self._distinct(drawn) if distinct or self.sketch.one_row_a_key else tuple(drawn)

    def _row(self, kinds: tuple[str, ...], columns: list[Column]) -> Row:
        row = (self.rng.choice(kinds), *(column.draw(self.rng) for column in columns))
        if self.sketch.ages is None:
            return row
        old, far = self.sketch.ages
        key = row[1:3]
        time = far if key in self.young else row[-1]
        if time != old:
            self.young.add(key)
        return (*row[:-1], time)

    def _distinct(self, rows: list[Row]) -> tuple[Row, ...]:
        """One row a key, the last; of tables without one all rows."""
        if not self.sketch.primary_key:
            return tuple(rows)
        names = [column.name for column in self.columns]
        at = [1 + names.index(name) for name in self.sketch.primary_key]
        return tuple({tuple(row[i] for i in at): row for row in rows}.values())


def _widened(t: ValueType, sql: str) -> ValueType:
    """The same values in another type."""
    parsed = parse_type(sql)

    def draw(rng: random.Random) -> Plain:
        value = t.draw(rng)
        if parsed.root is Root.DECIMAL:
            return f"{float(value):.{parsed.scale}f}"
        if parsed.root is Root.DOUBLE:
            return float(value)
        return value if parsed.root is not Root.TIMESTAMP else f"{value}000"

    return ValueType(sql, draw)
