"""Damage of a table's files, as values: which file, how, and what needs it."""

from __future__ import annotations

from dataclasses import dataclass, field

from paimon_table.metadata.holders import Holder, Holding


@dataclass(slots=True)
class Needs:
    """Who needs a file: ranges of snapshots, of the table or of branches, and tags and changelogs."""

    spans: list[tuple[str | None, int, int]] = field(default_factory=list)
    """Branch (None: the table itself), first and last number; rising in each branch."""
    others: list[str] = field(default_factory=list)

    def add(self, holder: Holder) -> None:
        """``holder`` needs the file; snapshots of a branch come in rising order."""
        if holder.kind is Holding.SNAPSHOT:
            self.add_span(holder.branch, int(holder.name), int(holder.name))
        elif str(holder) not in self.others[-1:]:
            self.others.append(str(holder))

    def add_span(self, branch: str | None, first: int, last: int) -> None:
        if self.spans and self.spans[-1][0] == branch and self.spans[-1][2] >= first - 1:
            first = self.spans.pop()[1]
        self.spans.append((branch, first, last))

    def includes(self, snapshot_id: int) -> bool:
        """Whether a snapshot of the table itself does."""
        return any(branch is None and first <= snapshot_id <= last for branch, first, last in self.spans)

    def __str__(self) -> str:
        return ", ".join([*map(_span_text, self.spans), *self.others])


def _span_text(span: tuple[str | None, int, int]) -> str:
    branch, first, last = span
    numbers = f"snapshot {first}" if first == last else f"snapshots {first} to {last}"
    return numbers if branch is None else f"{numbers} of branch {branch}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not as it must be."""

    path: str
    what: str
    """Such as "is missing", "has 12 bytes instead of 80"."""
    needs: Needs = field(default_factory=Needs)
    partition: bytes | None = None
    """Of a data file, as a serialized row; None for other files."""
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class WrongHint:
    """A wrong hint file; readers list the directory instead, which only costs time."""

    path: str
    found: str | None
    """None: there is none."""
    right: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """The findings of an inspection."""

    damages: tuple[Damage, ...] = ()
    hints: tuple[WrongHint, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    """Of the table itself, those that cannot be read included."""
    file_count: int = 0
    """Data, changelog and index files that were looked for."""

    @property
    def newest_id(self) -> int | None:
        return max(self.snapshot_ids, default=None)

    @property
    def newest_whole_id(self) -> int | None:
        """The newest snapshot that no damage concerns."""
        return max((i for i in self.snapshot_ids if not any(d.needs.includes(i) for d in self.damages)), default=None)

    @property
    def newest_is_whole(self) -> bool:
        """Whether readers of the table as it is now meet none of the damages."""
        return self.newest_id == self.newest_whole_id
