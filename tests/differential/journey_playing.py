"""Plays a journey: step by step with one table that both write in turns and a twin that Java writes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from paimon_table.errors import TidemarkError
from paimon_table.history.branches import BranchStore
from paimon_table.history.tags import TagStore
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.row_kind import RowKind
from paimon_table.table import Table
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
    Rescale,
    RollBack,
    Sort,
    Step,
    Tag,
    Write,
)
from tests.differential.traveller import Rows, Taken, Traveller
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain, rows_plain, sorted_rows


@dataclass(slots=True)
class _Seen:
    """What followers of the changelog have of a table."""

    rows: Rows = field(default_factory=list)
    """Those of the changelog."""
    tags: dict[str, Rows] = field(default_factory=dict)
    """What the table had when it was tagged."""
    branches: dict[str, Rows] = field(default_factory=dict)
    """What branches have, by the tags where they began."""
    snapshots: dict[int, Rows | None] = field(default_factory=dict)
    """What the table had behind steps, by the newest snapshot."""

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


def play(journey: Journey, java: JavaPaimon, python: PythonReaders | None, directory: Path) -> Found | None:
    """The first difference; None when there is none. Without ``python`` Java and Tidemark alone read the table."""
    table = Traveller(java, directory / "table", journey, journey.options)
    twin = Traveller(java, directory / "twin", journey, {**journey.options, **journey.twin_options}, is_twin=True)
    seen = _Seen()
    for one in (table, twin):
        one.create()
    for number, step in enumerate(journey.steps, start=1):
        by = By.TIDEMARK if isinstance(step, Rescale) else getattr(step, "by", By.JAVA)
        before = (table.newest_id, twin.newest_id)
        try:
            table.take(step, by)
            twin.take(step, By.JAVA)
            found = _difference(journey, step, table, twin, before, seen)
        except (TidemarkError, WorkerError, Taken) as error:
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            return Found(number, step, found)
    try:
        found = _orphans_are_needed(table, seen) or _python_differs(table, python)
    except (TidemarkError, WorkerError) as error:
        found = f"{type(error).__name__}: {error}"
    return None if found is None else Found(len(journey.steps), journey.steps[-1], found)


def _difference(
    journey: Journey, step: Step, table: Traveller, twin: Traveller, before: tuple[int, int], seen: _Seen
) -> str | None:
    if table.waits and table.table.options.bucket != POSTPONED:
        return None  # rolled back behind a rescale, which comes next: Java takes rows that wait for ordinary ones
    found, own_found = table.in_order(By.JAVA), table.in_order(By.TIDEMARK)
    content, own = sorted_rows(found), sorted_rows(own_found)
    if content != own:
        return _rows_text("content", "read by Java", content, "read by Tidemark", own)
    is_settled = not table.waits and (not journey.expires_rows or isinstance(step, Compact))
    if is_settled:
        alone = twin.in_order(By.JAVA)
        theirs = sorted_rows(alone)
        if content != theirs:
            return _rows_text("content", "in the twin", theirs, "in the table", content)
    if journey.has_order:
        orders = table.orders(found)
        for what, other in (("read by Tidemark", own_found), ("twin", alone)):
            if table.orders(other) != orders:
                return f"order: {orders}, {what} {table.orders(other)}"
    _note(step, table, seen, content)
    return _branch_differs(step, table, twin, seen) or _changes_differ(
        journey, step, table, twin, before, seen, content
    )


def _note(step: Step, table: Traveller, seen: _Seen, content: Rows) -> None:
    """What the past of the table is by now."""
    newest = table.newest_id
    match step:
        case Tag(name=name) if not table.waits:  # Java takes the table's options of today for a branch
            seen.tags[name] = seen.branches[name] = content
        case DropTag(by=By.JAVA) | Expire(by=By.JAVA):
            # Java does not look at branches when files go; Tidemark does.
            held = {*TagStore(table.table.io, table.table.paths).names()}
            seen.branches = {name: rows for name, rows in seen.branches.items() if name in held}
        case RollBack() | FastForward():
            left = table.table.snapshots
            seen.snapshots = {number: rows for number, rows in seen.snapshots.items() if number <= newest}
            assert left.latest_id() == newest
    if isinstance(step, Alter):
        seen.snapshots[newest] = None  # the newest snapshot is read by the newest schema, and later by its own
    elif newest and newest not in seen.snapshots and not table.waits:
        seen.snapshots[newest] = content


def _branch_differs(step: Step, table: Traveller, twin: Traveller, seen: _Seen) -> str | None:
    if not isinstance(step, BranchWrite):
        return None
    content = table.content(By.JAVA, branch=step.tag)
    for what, rows in (
        ("read by Tidemark", table.content(By.TIDEMARK, branch=step.tag)),
        ("in the twin", twin.content(By.JAVA, branch=step.tag)),
    ):
        if rows != content:
            return _rows_text(f"branch of {step.tag}", "read by Java", content, what, rows)
    seen.branches[step.tag] = content
    return None


def _changes_differ(
    journey: Journey,
    step: Step,
    table: Traveller,
    twin: Traveller,
    before: tuple[int, int],
    seen: _Seen,
    content: Rows,
) -> str | None:
    if isinstance(step, RollBack | FastForward):
        seen.rows = list(content)
        return None
    changes = table.changes(By.JAVA, before[0])
    own_changes = table.changes(By.TIDEMARK, before[0])
    if changes != own_changes:
        return _rows_text("changes", "read by Java", changes, "read by Tidemark", own_changes)
    is_told = journey.tells_all or (journey.producer == "input" and journey.kind != "")
    if isinstance(step, Write | Expire) and is_told and not journey.expires_rows:
        theirs = twin.changes(By.JAVA, before[1])
        if _told(journey, changes) != _told(journey, theirs):
            return _rows_text("changes", "in the twin", theirs, "in the table", changes)
    if isinstance(step, Overwrite | Drop | Sort | Alter | Delete):
        seen.rows = list(content)
        return None
    if journey.tells_all and journey.kind not in _MERGED:
        wrong = seen.follow(changes)
        if wrong is not None:
            return wrong
        if sorted_rows(seen.rows) != content:
            return _rows_text("followed changes", "there", sorted_rows(seen.rows), "in the table", content)
    return None


_MERGED = ("retracts", "groups", "sequences")
"""Kinds with keys that are shown as they came until they are merged, and told as merged."""


def _told(journey: Journey, changes: Rows) -> Rows:
    """Of rows that move, what goes and what comes: back in its partition, Java gives a key another bucket at times."""
    if set(journey.partition_by) <= set(journey.primary_key):
        return changes
    return [[str(change[0])[0], *change[1:]] for change in changes]


def _past_differs(table: Traveller, seen: _Seen) -> str | None:
    """Tags and snapshots that are left, and all branches, hold what the table had then."""
    opened = table.table
    left = TagStore(opened.io, opened.paths).names()
    branches = BranchStore(opened.io, opened.paths).names()
    for name, content in seen.branches.items():
        if f"of-{name}" not in branches:
            return f"branch of {name}: it is gone"
        if found := _now_differs(table, content, branch=name):
            return found
    for name, content in seen.tags.items():
        if name in left and (found := _now_differs(table, content, tag=name)):
            return found
    if table.waits:
        return None  # Java takes the table's options of today
    for number, rows in seen.snapshots.items():
        if rows is None or opened.snapshots.find(number) is None:
            continue
        if found := _now_differs(table, rows, snapshot=str(number)):
            return found
    return None


def _now_differs(table: Traveller, content: Rows, **chosen: str) -> str | None:
    for by in By:
        found = table.content(by, **chosen)
        if found != content:
            return _rows_text(f"past {chosen} by {by}", "now", found, "then", content)
    return None


def _orphans_are_needed(table: Traveller, seen: _Seen) -> str | None:
    """Nothing that anybody needs goes with the files that Java takes for orphans."""
    content = table.content(By.JAVA)
    table.java.remove_orphans(str(table.path), older_than_ms=2**53)
    for by in By:
        found = table.content(by)
        if found != content:
            return _rows_text("orphans", f"now by {by}", found, "then", content)
    return _past_differs(table, seen)


def _python_differs(table: Traveller, python: PythonReaders | None) -> str | None:
    options = table.journey.options
    if python is None or (options.get("merge-engine") == "aggregation" and table.journey.producer == "lookup"):
        return None  # It adds up what Java and Tidemark know as looked up: docs/COMPATIBILITY.md.
    if table.journey.kind == "append-vectors" and "deletion-vectors.bitmap64" in options:
        return None  # It says that it does not know the vectors which Java writes then.
    opened = Table.open_for_reading(str(table.path))
    content = table.content(By.JAVA)
    try:
        read = python.pypaimon(str(table.path))
    except WorkerError as error:
        # It says itself which engines and options it does not know.
        return None if "NotImplementedError" in str(error) else f"{type(error).__name__}: {error}"
    found = [] if read is None else sorted_rows(rows_plain(read, opened.schema.fields))
    return None if found == content else _rows_text("pypaimon", "read by Java", content, "read by pypaimon", found)


def _rows_text(what: str, one: str, rows: Rows, other: str, others: Rows) -> str:
    only_one = [row for row in rows if row not in others]
    only_other = [row for row in others if row not in rows]
    return f"{what}: only {one}: {only_one[:6]}; only {other}: {only_other[:6]} ({len(rows)}, {len(others)} rows)"
