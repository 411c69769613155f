"""Damage of a table's files, as values: the file, the damage, and what needs the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_table.metadata.holders import Holder, Holding


@dataclass(slots=True)
class Needs:
    """What needs a file: ranges of snapshots of the table or of branches, tags and changelogs."""

    spans: list[tuple[str | None, int, int]] = field(default_factory=list)
    """Branch (None: the table itself), first and last number; rising in each branch."""
    others: list[str] = field(default_factory=list)

    def add(self, holder: Holder) -> None:
        """Note that ``holder`` needs the file; snapshots of a branch must arrive in rising order."""
        if holder.kind is Holding.SNAPSHOT:
            self.add_span(holder.branch, int(holder.name), int(holder.name))
        elif str(holder) not in self.others[-1:]:
            self.others.append(str(holder))

    def add_span(self, branch: str | None, first: int, last: int) -> None:
        if self.spans and self.spans[-1][0] == branch and self.spans[-1][2] >= first - 1:
            first = self.spans.pop()[1]
        self.spans.append((branch, first, last))

    def includes(self, snapshot_id: int) -> bool:
        """Whether a snapshot of the table itself needs the file."""
        return any(branch is None and first <= snapshot_id <= last for branch, first, last in self.spans)

    def __str__(self) -> str:
        return ", ".join([*map(_span_text, self.spans), *self.others])


def _span_text(span: tuple[str | None, int, int]) -> str:
    branch, first, last = span
    numbers = f"snapshot {first}" if first == last else f"snapshots {first} to {last}"
    return numbers if branch is None else f"{numbers} of branch {branch}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A missing or damaged file."""

    path: str
    what: str
    """Such as "is missing", "has 12 bytes instead of 80"."""
    needs: Needs = field(default_factory=Needs)
    partition: bytes | None = None
    """The partition of a data file, as a serialized row; None for other files."""
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class WrongHint:
    """A wrong hint file; readers list the directory instead, which only costs time."""

    path: str
    found: str | None
    """None: the hint must not exist."""
    right: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """The findings of an inspection."""

    damages: tuple[Damage, ...] = ()
    hints: tuple[WrongHint, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    """The snapshots of the table itself, including unreadable ones."""
    file_count: int = 0
    """The number of data, changelog and index files that were checked."""

    @property
    def newest_id(self) -> int | None:
        return max(self.snapshot_ids, default=None)

    @property
    def newest_whole_id(self) -> int | None:
        """The newest undamaged snapshot."""
        return max((i for i in self.snapshot_ids if not any(d.needs.includes(i) for d in self.damages)), default=None)

    @property
    def newest_is_whole(self) -> bool:
        """Whether readers of the newest snapshot meet no damage."""
        return self.newest_id == self.newest_whole_id
