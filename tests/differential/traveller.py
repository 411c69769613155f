"""One table on its journey: takes the steps as Java or as Tidemark would, and says what readers see of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from paimon_table.errors import MalformedRecord
from paimon_table.history.branches import BranchStore
from paimon_table.history.removal import carry_out
from paimon_table.history.rollback import plan_rollback, plan_rollback_to_tag, roll_back
from paimon_table.history.tag_removal import plan_tag_removal
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partitions import drop_partitions
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.metadata.paths import BranchPaths
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.reading_options import reading_options
from paimon_table.scan.scan import TableScan
from paimon_table.surroundings import random_uuid
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn, SchemaChange, SetOption, WidenColumn
from paimon_table.write.bucket_writer import WriterEnvironment
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
    Sort,
    Step,
    Tag,
    Write,
    partition_text,
)
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain, rows_plain, sort_key, sorted_rows
from tests.support.table_driver import TableDriver, prepared

Rows = list[list[Plain]]


class Taken(Exception):
    """Somebody took what is to be refused, or did not say why not."""


@dataclass(slots=True)
class Traveller:
    """One table on its journey."""

    java: JavaPaimon
    path: Path
    journey: Journey
    options: Mapping[str, str]
    is_twin: bool = False
    """Whether Java alone writes it."""
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

    # ------------------------------------------------------------ steps of Java

    def _by_java(self, step: Step) -> None:
        java, path = self.java, str(self.path)
        match step:
            case Write(rows=rows, full_compact=full):
                java.write(path, rows, identifier=self.number, compact=full)
            case Compact():
                self._compact_by_java()
            case Overwrite(rows=rows, partition=partition):
                java.overwrite(path, rows, None if partition is None else {self._first: partition})
            case Drop(partition=partition):
                java.drop_partitions(path, {self._first: partition})
            case Tag(name=name):
                java.create_tag(path, name, self.newest_id)
                java.create_branch(path, f"of-{name}", name)
            case DropTag(name=name):
                java.delete_tag(path, name)
            case BranchWrite(tag=name, rows=rows):
                java.write(path, rows, identifier=self.number, options={"branch": f"of-{name}"})
            case FastForward(tag=name):
                java.fast_forward(path, f"of-{name}")
            case RollBack(tag=tag):
                java.rollback(path, None if tag else self.snapshot_ids[step.step], tag)
            case Alter(change=change):
                is_typed = change[0] in ("add", "type")
                java.alter(path, (*change[:2], parse_type(change[2])) if is_typed else _of_option(change))
            case Expire(rows=rows):
                # What the other one has written is committed behind the expiry.
                newest = self.newest_id
                messages = prepared(self._driver(), rows) if rows and not self.is_twin else []
                java.expire(path, _kept(step))
                if messages:
                    self.table.new_commit("tidemark", after=newest).commit(self.number, messages, {})
                    if self.journey.producer == "lookup":
                        self._driver().compact()  # which brings the changelog of what was appended
                elif rows:
                    java.write(path, rows, identifier=self.number)
            case Delete(values=values):
                java.delete(path, "k", values, identifier=self.number)
            case Refused(rows=rows, overwrites=overwrites):
                refused = java.overwrite if overwrites else java.write
                self._refuses(step, lambda: refused(path, rows), WorkerError)
            case Sort():
                own = sorted(java.read(path), key=sort_key, reverse=True)
                java.overwrite(path, own, options={"dynamic-partition-overwrite": "true"})
            case Rescale():
                pass  # Java has none; what a table holds does not depend on it

    def _refuses(self, step: Step, take: Callable[[], object], kind: type[Exception]) -> None:
        try:
            take()
        except kind as error:
            if kind is MalformedRecord and not ("column 'p'" in str(error) and "at most 255" in str(error)):
                raise Taken(f"{step} is refused without place or reason: {error}") from error
            return
        raise Taken(f"{step} is not refused")

    @property
    def _first(self) -> str:
        return self.journey.partition_by[0]

    def _compact_by_java(self) -> None:
        java, path, options = self.java, str(self.path), self.table.options
        if self.waits:
            java.compact_postponed(path, identifier=self.number)
        elif not self.journey.primary_key and options.bucket == -1:
            java.pack(path, identifier=self.number)
        elif options.bucket != POSTPONED:
            java.write(path, [], identifier=self.number, compact=True)

    # ------------------------------------------------------------ steps of Tidemark

    def _by_tidemark(self, step: Step) -> None:
        table = self.table
        ctx = table.context
        match step:
            case Write(rows=rows, full_compact=full):
                self._driver().commit(rows, full_compact=full)
            case Compact():
                self._driver().compact()
            case Overwrite(rows=rows, partition=partition):
                named = None if partition is None else {self._first: self._value(partition)}
                self._driver().overwrite(rows, named)
            case Drop(partition=partition):
                drop_partitions(table, filter(self._is_in(partition), _partitions(table)), self._job())
            case Tag(name=name):
                tags = TagStore(table.io, table.paths)
                create_tag(tags, name, table.paths.snapshot_file(self.newest_id), now=datetime.now, retained_ms=None)
                BranchStore(table.io, table.paths).create(f"of-{name}", tags.read(name))
            case DropTag(name=name):
                plan = plan_tag_removal(ctx, TagStore(table.io, table.paths).read(name))
                carry_out(table.io, table.paths, plan.removal, random_uuid)
            case BranchWrite(tag=name, rows=rows):
                branch = self.branch(name)
                newest = branch.snapshots.latest_id() or 0
                TableDriver(branch, self._lookup_dir, "tidemark", self.number, after=newest).commit(rows)
            case RollBack(tag=tag):
                at = None if tag else self.snapshot_ids[step.step]
                roll_back(ctx, plan_rollback_to_tag(ctx, str(tag)) if at is None else plan_rollback(ctx, at))
            case Rescale(buckets=buckets, partition=partition):
                rescale(table, buckets, self._job(), None if partition is None else self._is_in(partition))
            case Alter(change=change):
                self._driver().evolve([_schema_change(change)])
            case Expire(rows=rows):
                self._expire(step)
            case Refused(rows=rows, overwrites=overwrites):
                driver, before = self._driver(), self.newest_id
                self._refuses(step, lambda: (driver.overwrite if overwrites else driver.commit)(rows), MalformedRecord)
                if self.newest_id != before:
                    raise Taken(f"{step} is in a snapshot")
            case FastForward() | Sort() | Delete():
                raise AssertionError(f"{step} is Java's alone")

    def _expire(self, step: Expire) -> None:
        table = self.table
        if step.rows:
            self.java.prepare(str(self.path), step.rows, identifier=self.number)
        options = parse_options({**table.schema.options, **_kept(step)}, table.schema)
        expire(replace(table.context, options=options), Surroundings())
        if step.rows:
            self.java.commit_prepared()

    @property
    def _lookup_dir(self) -> Path:
        return self.path.parent / f"{self.path.name}-lookup"

    def _driver(self) -> TableDriver:
        return TableDriver(self.table, self._lookup_dir, "tidemark", self.number, after=self.newest_id)

    def _job(self) -> Job:
        return Job(WriterEnvironment(str(self.path.parent / f"{self.path.name}-job")))

    def branch(self, tag: str) -> Table:
        """The branch of a tag, as Tidemark writes it."""
        table = self.table
        found = Table.open_line(table.io, BranchPaths(table.paths.root, f"of-{tag}"))
        assert found is not None
        return found

    def _is_in(self, place: str) -> Callable[[bytes], bool]:
        ctx = self.table.context
        wanted = self._driver()._partition_values({self._first: self._value(place)})[self._first]
        return lambda partition: ctx.partition_values(partition)[0] == wanted

    def _value(self, place: str) -> Plain:
        """The value of the first partition column that a step means by its text."""
        values = {row[1 + self.journey.position(self._first)] for row in self.journey.rows}
        found = [value for value in values if partition_text(value) == place]
        return found[0] if found else place

    # ------------------------------------------------------------ what there is

    def content(self, by: By, **chosen: str) -> Rows:
        """Sorted rows; ``chosen`` may name a ``tag``, a ``branch`` by its tag or a ``snapshot``."""
        return sorted_rows(self.in_order(by, **chosen))

    def in_order(self, by: By, **chosen: str) -> Rows:
        """Rows as they are read."""
        if by is By.JAVA:
            options = {"tag": "scan.tag-name", "branch": "branch", "snapshot": "scan.snapshot-id"}
            given = {options[name]: f"of-{value}" if name == "branch" else value for name, value in chosen.items()}
            return [row[1:] for row in self.java.read(str(self.path), given)]
        if "branch" in chosen:
            table = self.branch(chosen["branch"])
        else:
            table = Table.open_for_reading(str(self.path))
        snapshot, ctx = table.snapshots.latest(), table.context
        if "tag" in chosen:
            snapshot = TagStore(table.io, table.paths).read(chosen["tag"]).snapshot
        elif "snapshot" in chosen:
            snapshot = table.snapshots.read(int(chosen["snapshot"]))
        if snapshot is not None and {"tag", "snapshot"} & set(chosen):
            schema = ctx.schemas[snapshot.schema_id]
            ctx = replace(ctx, schema=schema, options=reading_options(schema))
        scan = TableScan.make(ctx, None, None)
        pieces = (scan.read(split) for split in scan.plan(snapshot))
        return [row for rows in itertools.chain.from_iterable(pieces) for row in rows_plain(rows, ctx.schema.fields)]

    def orders(self, rows: Rows) -> Mapping[str, Rows]:
        """Rows by their bucket key, in their order."""
        out: dict[str, Rows] = {}
        names = self.table.schema.column_names
        for row in rows:
            key = sort_key([row[names.index(name)] for name in self.journey.order_key])
            out.setdefault(key, []).append(row)
        return out

    def changes(self, by: By, after: int) -> Rows:
        """All changes behind a snapshot, in the order of the snapshots; those of one sorted per key."""
        if self.newest_id <= after:
            return []
        if by is By.JAVA:
            found = [change.rows for change in self.java.changes(str(self.path), after + 1)]
        else:
            driver = TableDriver(Table.open_for_reading(str(self.path)), self.path)
            found = [change.rows for change in driver.changes(after + 1)]
        places = self.place_columns()
        return [row for rows in found for row in sorted(rows, key=lambda row: sort_key([row[1 + i] for i in places]))]

    def place_columns(self) -> list[int]:
        """Positions of the columns that say which row of which partition a change is about."""
        names = self.table.schema.column_names
        journey = self.journey
        if not journey.primary_key:
            return list(range(len(names)))
        return [names.index(name) for name in dict.fromkeys((*journey.partition_by, *journey.primary_key))]


def _partitions(table: Table) -> list[bytes]:
    return list(dict.fromkeys(bucket.partition for bucket in table.state().files))


def _kept(step: Expire) -> dict[str, str]:
    number = str(step.kept)
    return {
        "snapshot.num-retained.min": number,
        "snapshot.num-retained.max": number,
        "snapshot.time-retained": "0 ms",
    }


def _of_option(change: tuple[str, ...]) -> tuple[str | None, ...]:
    return change if change[0] != "set" or len(change) == 3 else (*change, None)


def _schema_change(change: tuple[str, ...]) -> SchemaChange:
    match change:
        case ("add", name, sql):
            return AddColumn(name, parse_type(sql))
        case ("type", name, sql):
            return WidenColumn(name, parse_type(sql))
        case ("set", name, value):
            return SetOption(name, value)
        case _:
            raise AssertionError(f"{change} is Java's alone")
