"""Draws a journey from a seed: the bucket mode goes round, everything else is random among what both define alike.

What depends on when compactions run is left out, or every commit compacts all: the two pick at other times.
docs/PARITY.md has what Java does otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.differential.journey import (
    By,
    Compact,
    Drop,
    Journey,
    Overwrite,
    Rescale,
    RollBack,
    Row,
    Step,
    Tag,
    Write,
)
from tests.support.plain_values import Plain

MODES = ("fixed", "cross-partition", "dynamic", "cross-partition", "postponed")
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PLACES = ("x", "y", "a b=c:%")
"""No slash: Java's lookup files have the values of the partition in their names."""

OLD_S, FAR_S = 1_000_000_000, 4_000_000_000
"""Times of rows that have expired, and of rows that stay for decades."""

_ADDS = ("+I", "+I", "+U")
_ALL_KINDS = ("+I", "+I", "+I", "+U", "-U", "-D")


def draw_journey(seed: int) -> Journey:
    """The journey of a seed, the same on every machine."""
    return _Drawing(seed).journey()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"journey {seed}")
        self.mode = MODES[seed % len(MODES)]
        self.engine = ENGINES[seed // len(MODES) % len(ENGINES)]
        self.moves = self.mode == "cross-partition"
        self.two_columns = self.rng.random() < 0.25
        self.expires = not self.moves and self.engine == "deduplicate" and self.rng.random() < 0.3
        self.deletes = self.engine == "deduplicate" or (self.engine != "first-row" and self.rng.random() < 0.4)
        self.compacts_all = self.deletes and self.engine != "deduplicate" and self.mode != "postponed"
        if self.mode == "postponed" and self.engine != "deduplicate":
            self.deletes = False
        self.stays = self.moves and self.deletes and self.engine != "deduplicate"
        """Java takes a delete that names another partition for an insert."""
        self.options = self._options()
        self.past: list[int] = []
        """Steps that a rollback can go back to."""
        self.tags: list[tuple[str, int]] = []
        self.young: set[tuple[Plain, ...]] = set()
        self.homes: dict[tuple[Plain, ...], Plain] = {}
        """Where the rows of keys are that stay in their partition until they are deleted."""
        self.past_homes: dict[int, dict[tuple[Plain, ...], Plain]] = {}
        self.steps: list[Step] = []

    def journey(self) -> Journey:
        for _ in range(self.rng.randint(4, 10)):
            for step in self._step():
                self.steps.append(step)
                self._note(step)
        if self.mode == "postponed" or self.expires:
            self.steps.append(self._compact())
        columns = [("p", "STRING"), ("k", "INT"), ("v", "INT"), ("s", "STRING"), ("n", "BIGINT")]
        partition_by = ["p"]
        if self.two_columns:
            columns.insert(2, ("q", "INT"))
            partition_by.append("q")
        key = ["k", *partition_by[1:]] if self.moves else ["k", *partition_by]
        twin = {} if self.moves else {"bucket": "1"}
        return Journey(tuple(columns), tuple(key), tuple(partition_by), self.options, tuple(self.steps), twin)

    # ------------------------------------------------------------ options

    def _options(self) -> dict[str, str]:
        rng = self.rng
        self.buckets = {"fixed": rng.choice((1, 2, 3)), "postponed": -2}.get(self.mode, -1)
        options = {"bucket": str(self.buckets), "merge-engine": self.engine}
        producers = ["none", "lookup"] if self.engine == "first-row" else ["none", "lookup", "lookup", "input"]
        options["changelog-producer"] = "none" if self.mode == "postponed" else rng.choice(producers)
        if self.mode != "fixed":
            options["dynamic-bucket.initial-buckets"] = rng.choice(("1", "1", "2"))
            options["dynamic-bucket.target-row-num"] = rng.choice(("1", "2", "3", "2000000"))
        if self.mode == "postponed":
            options["postpone.default-bucket-num"] = rng.choice(("1", "2", "3"))
        if rng.random() < 0.5:
            options["dynamic-partition-overwrite"] = "false"
        if rng.random() < 0.3:
            options["file.format"] = rng.choice(("orc", "avro"))
        if self.engine != "first-row" and self.mode != "postponed" and rng.random() < 0.25:
            options["deletion-vectors.enabled"] = "true"
        options["num-sorted-run.compaction-trigger"] = rng.choice(("2", "3", "5"))
        if self.expires:
            options |= {"record-level.expire-time": "1 d", "record-level.time-field": "n"}
        if self.engine == "aggregation":
            options |= {"fields.v.aggregate-function": "sum", "fields.n.aggregate-function": rng.choice(("max", "sum"))}
        if self.deletes and self.engine in ("partial-update", "aggregation"):
            options[f"{self.engine}.remove-record-on-delete"] = "true"
            if self.engine == "aggregation":
                options["fields.n.aggregate-function"] = "sum"
        return options

    # ------------------------------------------------------------ steps

    def _by(self) -> By:
        return self.rng.choice((By.JAVA, By.TIDEMARK))

    def _step(self) -> list[Step]:
        rng = self.rng
        if not self.steps:
            return [Write(self._by(), tuple(self._homed([self._row("+I") for _ in range(rng.randint(1, 6))])))]
        kinds: list[tuple[float, Callable[[], list[Step]]]] = [
            (5, lambda: [self._write()]),
            (2 if self.mode == "postponed" or self.expires else 1, lambda: [self._compact()]),
            (0 if self.moves else 2, self._rescale),
            (1 if self.mode != "postponed" else 0, self._overwrite),
            (1, lambda: [Drop(self._by(), rng.choice(PLACES))]),
            (1, lambda: [Tag(self._by(), f"t{len(self.steps)}")]),
            (1, self._roll_back),
        ]
        weights, draws = zip(*kinds, strict=True)
        return list(rng.choices(draws, weights)[0]())

    def _compact(self) -> Compact:
        """Postponed rows by Tidemark where they count once compacted: the worker's copy of Java's job does not."""
        is_half = self.mode == "postponed" and (self.engine == "first-row" or self.expires)
        return Compact(By.TIDEMARK if is_half else self._by())

    def _write(self) -> Write:
        rows = [self._row() for _ in range(self.rng.choice((1, 2, 4, 8)))]
        rows = self._homed(rows)
        full = self.compacts_all or (self.mode != "postponed" and self.rng.random() < 0.15)
        return Write(self._by(), tuple(rows), full)

    def _homed(self, rows: list[Row]) -> list[Row]:
        return [self._at_home(row) for row in self._one_a_key(rows)] if self.stays else rows

    def _rescale(self) -> list[Step]:
        """A single partition is followed by all: until then nobody may write to the others."""
        if self.mode == "postponed":
            return [Rescale(self.rng.choice((1, 2, -2)))]
        number = self.rng.choice((1, 2, 3, 4, -1))
        if number > 0 and self.buckets > 0 and self.rng.random() < 0.5:
            return [Rescale(number, self.rng.choice(PLACES)), Rescale(number)]
        return [Rescale(number)]

    def _overwrite(self) -> list[Step]:
        """Of tables whose rows move the whole: a key may be in a partition that stays."""
        rows = self._one_a_key([self._row("+I") for _ in range(self.rng.choice((1, 3, 6)))])
        is_dynamic = self.options.get("dynamic-partition-overwrite") != "false"
        if self.moves and is_dynamic:
            return [self._write()]
        place = None
        if not self.moves and self.rng.random() < 0.5:
            place = self.rng.choice(PLACES)
            rows = [(row[0], place, *row[2:]) for row in rows]
            rows = self._one_a_key(rows)
        return [Overwrite(self._by(), tuple(rows), place)]

    def _roll_back(self) -> list[Step]:
        if self.tags and self.rng.random() < 0.5:
            name, at = self.rng.choice(self.tags)
            back = RollBack(self._by(), tag=name)
        else:
            at = self.rng.choice(self.past)
            back = RollBack(self._by(), step=at)
        # The option stays as it is; nobody may write to partitions that have another number again.
        return [back] if self.moves or self.buckets == -2 else [back, Rescale(self.buckets)]

    def _note(self, step: Step) -> None:
        number = len(self.steps)
        match step:
            case Rescale(buckets=buckets):
                self.buckets = buckets
            case Drop(partition=place):
                self.homes = {key: home for key, home in self.homes.items() if home != place}
            case Overwrite(rows=rows):
                self.homes = {self._key(row): row[1] for row in rows}
            case Tag(name=name):
                self.tags.append((name, number))
            case RollBack(step=at, tag=tag):
                at = at or next(position for name, position in self.tags if name == tag)
                self.homes = dict(self.past_homes[at])
                self.past = [past for past in self.past if past <= at]
                self.tags = [(name, position) for name, position in self.tags if position <= at]
        self.past.append(number)
        self.past_homes[number] = dict(self.homes)

    # ------------------------------------------------------------ rows

    def _one_a_key(self, rows: list[Row]) -> list[Row]:
        first = 2 if self.moves else 1
        last = 4 if self.two_columns else 3
        return list({row[first:last]: row for row in rows}.values())

    def _key(self, row: Row) -> tuple[Plain, ...]:
        return row[2 : 4 if self.two_columns else 3]

    def _at_home(self, row: Row) -> Row:
        """A delete names the partition of the row, or the key has none and it is an insert."""
        key = self._key(row)
        if str(row[0]).startswith("-") and key in self.homes:
            return ("-D", self.homes.pop(key), *row[2:])
        self.homes.setdefault(key, row[1])
        return ("+I", *row[1:])

    def _row(self, kind: str | None = None) -> Row:
        rng = self.rng
        kind = kind or rng.choice(_ALL_KINDS if self.deletes else _ADDS)
        place: Plain = None if self.moves and rng.random() < 0.05 else rng.choice(PLACES)
        inner = (rng.randint(1, 2),) if self.two_columns else ()
        number = rng.randint(0, 5)
        value = None if rng.random() < 0.2 else rng.randint(-3, 9)
        text = None if rng.random() < 0.3 else rng.choice(("a", "é", "", "long " * 9))
        key = (place, rng.randint(1, 6), *inner)
        return (kind, *key, value, text, self._time(kind, key) if self.expires else number)

    def _time(self, kind: str, key: tuple[Plain, ...]) -> Plain:
        """Never goes back, and deletes never expire: otherwise compactions decide what is left."""
        if kind.startswith("-") or self.rng.random() < 0.6:
            self.young.add(key)
        return FAR_S if key in self.young else OLD_S
