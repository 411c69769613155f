"""Plays a journey: step by step with one table that both write in turns and a twin that Java writes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from paimon_table.errors import TidemarkError
from paimon_table.history.branches import BranchStore
from paimon_table.history.rollback import plan_rollback, plan_rollback_to_tag, roll_back
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partitions import drop_partitions
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.row_kind import RowKind
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.differential.journey import By, Compact, Drop, Journey, Overwrite, Rescale, RollBack, Step, Tag, Write
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain, sort_key, sorted_rows
from tests.support.table_driver import TableDriver

Rows = list[list[Plain]]


@dataclass(slots=True)
class Traveller:
    """One table on its journey."""

    java: JavaPaimon
    path: Path
    journey: Journey
    options: Mapping[str, str]
    number: int = 0
    """Of the last step."""
    snapshot_ids: dict[int, int] = field(default_factory=dict)
    """Step to the newest snapshot behind it."""

    def create(self) -> None:
        journey = self.journey
        columns = [*journey.columns]
        self.java.create_table(str(self.path), columns, journey.primary_key, journey.partition_by, self.options)

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    @property
    def newest_id(self) -> int:
        return self.table.snapshots.latest_id() or 0

    @property
    def waits(self) -> bool:
        """Whether there are rows that nobody sees yet."""
        return any(bucket.bucket == POSTPONED for bucket in self.table.state().files)

    def take(self, step: Step, by: By) -> None:
        self.number += 1
        self._by_java(step) if by is By.JAVA else self._by_tidemark(step)
        self.snapshot_ids[self.number] = self.newest_id

    # ------------------------------------------------------------ steps

    def _by_java(self, step: Step) -> None:
        java, path = self.java, str(self.path)
        first = self.journey.partition_by[0]
        match step:
            case Write(rows=rows, full_compact=full):
                java.write(path, rows, identifier=self.number, compact=full)
            case Compact():
                if self.waits:
                    java.compact_postponed(path, identifier=self.number)
                elif self.table.options.bucket != POSTPONED:
                    java.write(path, [], identifier=self.number, compact=True)
            case Overwrite(rows=rows, partition=partition):
                java.overwrite(path, rows, None if partition is None else {first: partition})
            case Drop(partition=partition):
                java.drop_partitions(path, {first: partition})
            case Tag(name=name):
                java.create_tag(path, name, self.newest_id)
                java.create_branch(path, f"of-{name}", name)
            case RollBack(tag=tag):
                java.rollback(path, None if tag else self.snapshot_ids[step.step], tag)
            case Rescale():
                pass  # Java has none; what a table holds does not depend on it

    def _by_tidemark(self, step: Step) -> None:
        table = self.table
        ctx = table.context
        match step:
            case Write(rows=rows, full_compact=full):
                self._driver().commit(rows, full_compact=full)
            case Compact():
                self._driver().compact()
            case Overwrite(rows=rows, partition=partition):
                named = None if partition is None else {self.journey.partition_by[0]: partition}
                self._driver().overwrite(rows, named)
            case Drop(partition=partition):
                drop_partitions(table, filter(self._is_in(partition), _partitions(table)), self._job())
            case Tag(name=name):
                tags = TagStore(table.io, table.paths)
                create_tag(tags, name, table.paths.snapshot_file(self.newest_id), now=datetime.now, retained_ms=None)
                BranchStore(table.io, table.paths).create(f"of-{name}", tags.read(name))
            case RollBack(tag=tag):
                at = None if tag else self.snapshot_ids[step.step]
                plan = plan_rollback_to_tag(ctx, str(tag)) if at is None else plan_rollback(ctx, at)
                roll_back(ctx, plan)
            case Rescale(buckets=buckets, partition=partition):
                rescale(table, buckets, self._job(), None if partition is None else self._is_in(partition))

    def _driver(self) -> TableDriver:
        lookup_dir = self.path.parent / f"{self.path.name}-lookup"
        return TableDriver(self.table, lookup_dir, "tidemark", self.number)

    def _job(self) -> Job:
        return Job(WriterEnvironment(str(self.path.parent / f"{self.path.name}-job")))

    def _is_in(self, place: str) -> Callable[[bytes], bool]:
        ctx = self.table.context
        return lambda partition: ctx.partition_values(partition)[0] == place

    # ------------------------------------------------------------ what there is

    def content(self, by: By, **chosen: str) -> Rows:
        """Sorted rows; ``chosen`` may name a ``tag`` or, for Java, a ``branch``."""
        if by is By.JAVA:
            options = {"tag": "scan.tag-name", "branch": "branch"}
            given = {options[name]: value for name, value in chosen.items()}
            return sorted_rows(row[1:] for row in self.java.read(str(self.path), given))
        driver = TableDriver(Table.open_for_reading(str(self.path)), self.path)
        snapshot = TagStore(driver.table.io, driver.table.paths).read(chosen["tag"]).snapshot.id if chosen else None
        return driver.content(snapshot)

    def changes(self, by: By, after: int) -> Rows:
        """All changes behind a snapshot, in the order of the snapshots; those of one sorted per key."""
        if self.newest_id <= after:
            return []
        if by is By.JAVA:
            found = [change.rows for change in self.java.changes(str(self.path), after + 1)]
        else:
            driver = TableDriver(Table.open_for_reading(str(self.path)), self.path)
            found = [change.rows for change in driver.changes(after + 1)]
        return [row for rows in found for row in sorted(rows, key=self._place)]

    def _place(self, row: list[Plain]) -> str:
        return sort_key([row[1 + i] for i in self.place_columns()])

    def place_columns(self) -> list[int]:
        """Positions of the columns that say which row of which partition a change is about."""
        journey = self.journey
        return [journey.position(name) for name in dict.fromkeys((*journey.partition_by, *journey.primary_key))]


def _partitions(table: Table) -> list[bytes]:
    return list(dict.fromkeys(bucket.partition for bucket in table.state().files))


@dataclass(slots=True)
class _Seen:
    """What followers of the changelog have of a table."""

    rows: Rows = field(default_factory=list)

    def follow(self, changes: Iterable[list[Plain]]) -> str | None:
        """Apply changes; the first that does not fit is the answer."""
        for change in changes:
            kind, row = change[0], change[1:]
            if kind in (RowKind.INSERT.short, RowKind.UPDATE_AFTER.short):
                self.rows.append(row)
            elif row in self.rows:
                self.rows.remove(row)
            else:
                return f"{change} takes back what is not there"
        return None


@dataclass(frozen=True, slots=True)
class Found:
    """A difference behind a step, the last one for what tags hold."""

    number: int
    step: Step
    text: str

    @property
    def kind(self) -> str:
        return self.text[:40] if "Error" in self.text[:40] else self.text.partition(":")[0]

    def __str__(self) -> str:
        return f"step {self.number}, {self.step}: {self.text}"


def play(journey: Journey, java: JavaPaimon, directory: Path) -> Found | None:
    """The first difference; None when there is none."""
    table = Traveller(java, directory / "table", journey, journey.options)
    twin = Traveller(java, directory / "twin", journey, {**journey.options, **journey.twin_options})
    seen = _Seen()
    tags: dict[str, Rows] = {}
    for one in (table, twin):
        one.create()
    for number, step in enumerate(journey.steps, start=1):
        by = By.TIDEMARK if isinstance(step, Rescale) else step.by
        before, twin_before = table.newest_id, twin.newest_id
        try:
            table.take(step, by)
            twin.take(step, By.JAVA)
            found = _difference(journey, step, table, twin, (before, twin_before), seen)
        except (TidemarkError, WorkerError) as error:
            found = f"{type(error).__name__}: {error}"
        if isinstance(step, Tag) and not table.waits:  # Java takes the table's options of today for a branch
            tags[step.name] = table.content(By.JAVA)
        if found is not None:
            return Found(number, step, found)
    found = _tags_differ(tags, table)
    return None if found is None else Found(len(journey.steps), journey.steps[-1], found)


def _difference(
    journey: Journey, step: Step, table: Traveller, twin: Traveller, before: tuple[int, int], seen: _Seen
) -> str | None:
    if table.waits and table.table.options.bucket != POSTPONED:
        return None  # rolled back behind a rescale, which comes next: Java takes rows that wait for ordinary ones
    content = table.content(By.JAVA)
    own = table.content(By.TIDEMARK)
    if content != own:
        return _rows_text("content", "read by Java", content, "read by Tidemark", own)
    is_settled = not table.waits and (not journey.expires_rows or isinstance(step, Compact))
    if is_settled:
        theirs = twin.content(By.JAVA)
        if content != theirs:
            return _rows_text("content", "in the twin", theirs, "in the table", content)
    if isinstance(step, RollBack):
        seen.rows = content
        return None
    changes = table.changes(By.JAVA, before[0])
    own_changes = table.changes(By.TIDEMARK, before[0])
    if changes != own_changes:
        return _rows_text("changes", "read by Java", changes, "read by Tidemark", own_changes)
    if isinstance(step, Write) and journey.producer == "lookup" and not journey.expires_rows:
        theirs = twin.changes(By.JAVA, before[1])
        if _told(journey, changes) != _told(journey, theirs):
            return _rows_text("changes", "in the twin", theirs, "in the table", changes)
    if isinstance(step, Overwrite | Drop):
        seen.rows = content
        return None
    if journey.producer == "lookup" and not journey.expires_rows:
        wrong = seen.follow(changes)
        if wrong is not None:
            return wrong
        if sorted_rows(seen.rows) != content:
            return _rows_text("followed changes", "there", sorted_rows(seen.rows), "in the table", content)
    return None


def _told(journey: Journey, changes: Rows) -> Rows:
    """Of rows that move, what goes and what comes: back in its partition, Java gives a key another bucket at times."""
    if set(journey.partition_by) <= set(journey.primary_key):
        return changes
    return [[str(change[0])[0], *change[1:]] for change in changes]


def _tags_differ(tags: Mapping[str, Rows], table: Traveller) -> str | None:
    """Tags that are left, and all branches, hold what the table had then."""
    left = TagStore(table.table.io, table.table.paths).names()
    for name, content in tags.items():
        reads = [("branch", table.content(By.JAVA, branch=f"of-{name}"))]
        if name in left:
            reads += [("tag", table.content(By.JAVA, tag=name)), ("tag", table.content(By.TIDEMARK, tag=name))]
        for what, found in reads:
            if found != content:
                return _rows_text(f"{what} of {name}", "now", found, "then", content)
    return None


def _rows_text(what: str, one: str, rows: Rows, other: str, others: Rows) -> str:
    only_one = [row for row in rows if row not in others]
    only_other = [row for row in others if row not in rows]
    return f"{what}: only {one}: {only_one[:6]}; only {other}: {only_other[:6]} ({len(rows)}, {len(others)} rows)"
