"""What is true: the records that were produced, and what each table must hold of them. Knows nothing of pipelines.

Keys belong to one partition of one topic for ever (``KEY % 4``), so a table is the union of independent *strands*: the
records of one partition that one source table sends. A strand has a list of records for each generation of its topic.

A table that is in the stream, with all batches done, has all records of the newest generation of each strand. Of an
earlier generation it has a first part, at least as long as it was when the table was seen last: what nobody had read
went with the topic (``on_data_loss: continue``). A table that is behind has a first part of the newest one as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from typing import Any, TypeAlias

PARTITIONS = 4
"""As many as a topic may get; also what keys are divided by."""

Strand: TypeAlias = tuple[str, int]
"""Source table and partition."""

Content: TypeAlias = Mapping[Any, Any]
"""What a table holds, in a form of its kind: see ``Kind``."""


class Kind(StrEnum):
    """What a table makes of records."""

    KEYED = "keyed"
    """The newest row of each key: ``{id: (n, v)}``."""
    SUM = "sum"
    """How much each key has: ``{id: n}``."""
    LOG = "log"
    """Every record once: ``{v: how often}``."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``v`` is another number for each, rising."""

    source: str
    topic: str
    partition: int
    op: str
    key: int
    n: int
    v: int
    is_wide: bool = False
    """``n`` does not fit INT: a bad record until the rule of its table is mended. No other record has its key."""
    is_of_new_column: bool = False
    """It has a column that its table refuses until its rule takes new ones."""


@dataclass
class TrueTable:
    """A table as it must be, and what is known of how far it is."""

    name: str
    kind: Kind
    sources: tuple[str, ...]
    seen: dict[tuple[Strand, int], int] = field(default_factory=dict)
    """By strand and generation: how many records it had, at least, when somebody looked last."""
    is_retired: bool = False
    """No rule will write it any more."""


@dataclass
class Truth:
    """All records, by strand and generation of the topic."""

    topics: Mapping[str, str]
    """The topic of each source table."""
    tables: dict[str, TrueTable]
    strands: dict[Strand, list[list[Record]]] = field(default_factory=dict)
    generations: Counter[str] = field(default_factory=Counter)
    count: int = 0

    def next_v(self) -> int:
        self.count += 1
        return self.count

    def add(self, record: Record) -> None:
        self.strands.setdefault((record.source, record.partition), [[]])[-1].append(record)

    def made_anew(self, topic: str) -> None:
        """The topic starts over."""
        self.generations[topic] += 1
        self._begin_anew(topic, range(PARTITIONS))

    def cut_off(self, topic: str, partition: int) -> None:
        """A partition loses its newest records, so that whoever has not read them never will: as if it began anew."""
        self._begin_anew(topic, [partition])

    def _begin_anew(self, topic: str, partitions: Collection[int]) -> None:
        for (source, partition), generations in self.strands.items():
            if self.topics[source] == topic and partition in partitions:
                generations.append([])

    def strands_of(self, table: TrueTable) -> Iterator[tuple[Strand, list[list[Record]]]]:
        for strand, generations in sorted(self.strands.items()):
            if strand[0] in table.sources:
                yield strand, generations

    def records_of(self, table: TrueTable) -> Iterator[Record]:
        for _, generations in self.strands_of(table):
            for records in generations:
                yield from records

    def check(
        self,
        table: TrueTable,
        held: Content,
        quarantined: Collection[int],
        *,
        is_behind: bool,
        away: Collection[str] = (),
    ) -> None:
        """Fail unless the table holds what it must, or may by what is documented; note how far it is.

        ``quarantined`` are the numbers of open bad records. ``away`` are source tables that no rule leads to it now.
        """
        explained: set[Any] = set()
        for strand, generations in self.strands_of(table):
            keys = {of(record, table.kind) for records in generations for record in records}
            part = {key: held[key] for key in keys if key in held}
            explained |= part.keys()
            lets_go = is_behind or table.is_retired or strand[0] in away
            cuts = self._cuts(table, strand, generations, part, quarantined, lets_go)
            if cuts is None:
                raise AssertionError(self._words(table, strand, generations, part, quarantined))
            table.seen |= {(strand, number): cut for number, cut in enumerate(cuts)}
        unknown = {key: held[key] for key in held if key not in explained}
        assert not unknown, f"table {table.name} has what no record brought: {unknown}"

    def _cuts(
        self,
        table: TrueTable,
        strand: Strand,
        generations: Sequence[Sequence[Record]],
        part: Content,
        quarantined: Collection[int],
        lets_go: bool,
    ) -> tuple[int, ...] | None:
        """How many records of each generation the table has: the most that explain its content; None: none do."""
        newest = len(generations) - 1
        choices = []
        for number, records in enumerate(generations):
            least = table.seen.get((strand, number), 0) if number < newest or lets_go else len(records)
            choices.append(range(len(records), min(least, len(records)) - 1, -1))
        for cuts in product(*choices):
            read = [record for records, cut in zip(generations, cuts, strict=True) for record in records[:cut]]
            if _explains(read, table, part, quarantined):
                return cuts
        return None

    def _words(
        self,
        table: TrueTable,
        strand: Strand,
        generations: Sequence[Sequence[Record]],
        part: Content,
        quarantined: Collection[int],
    ) -> str:
        every = [record for records in generations for record in records]
        right = fold((r for r in every if not r.is_wide), table.kind)
        wide = {r.key if table.kind is not Kind.LOG else r.v: r.v for r in every if r.is_wide}
        wrong = {k: (part.get(k), right.get(k)) for k in sorted({*part, *right}) if part.get(k) != right.get(k)}
        wrong = {k: both for k, both in wrong.items() if k not in wide}
        bad = {k: ("in the table" * (k in part), "in quarantine" * (v in quarantined)) for k, v in wide.items()}
        seen = {number: at for (of, number), at in table.seen.items() if of == strand}
        return (
            f"table {table.name}, source {strand[0]}, partition {strand[1]}: key: (is, must be) {wrong};"
            f" bad records: {bad}; generations of {[len(g) for g in generations]} records, seen {seen}"
        )


def of(record: Record, kind: Kind) -> int:
    """By what the table holds a record."""
    return record.v if kind is Kind.LOG else record.key


def fold(records: Iterable[Record], kind: Kind) -> dict[Any, Any]:
    """What a table of this kind makes of records."""
    held: dict[Any, Any] = {}
    for record in records:
        match kind:
            case Kind.LOG:
                held[record.v] = 1
            case Kind.SUM:
                held[record.key] = held.get(record.key, 0) + record.n
            case Kind.KEYED if record.op == "d":
                held.pop(record.key, None)
            case Kind.KEYED:
                held[record.key] = (record.n, record.v)
    return held


def _explains(read: Sequence[Record], table: TrueTable, part: Content, quarantined: Collection[int]) -> bool:
    """Whether the table holds these records: each bad one of them in the table or in the quarantine, once."""
    good = []
    for record in read:
        is_held, is_open = of(record, table.kind) in part, record.v in quarantined
        if not record.is_wide or is_held:
            good.append(record)
        # The table that took the place of a retired one may have it.
        if record.is_wide and is_held == is_open and (is_held or not table.is_retired):
            return False
    unread = {of(r, table.kind) for r in good}
    return fold(good, table.kind) == dict(part) and part.keys() <= unread
