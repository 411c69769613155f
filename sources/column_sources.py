"""The stored facts of a table about its source, besides the names of columns: the option ``OPTION``.

The option records schema changes of the source: former column names, columns that continue in another column of the
table, and dropped columns. So records from before a change are read correctly as long as the table exists, even if the
checkpoint is lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeAlias

OPTION = "tidemark.column-sources"
"""The table option that holds it, as a JSON object."""

Firsts: TypeAlias = Mapping[str, tuple[int, int | None]]
"""Per topic and partition (``place_key``) the offset of the first record of some kind, and Kafka's time of it (ms)."""


@dataclass(frozen=True, slots=True)
class PastName:
    """The meaning of a column name in older records of its source table."""

    means: str | None
    """The present name of the column in the source; None if its values are gone."""
    ends: Mapping[str, int]
    """Per topic and partition (``place_key``) the offset from which on the name has another meaning."""
    until_ms: int | None = None
    """Records of other partitions up to this time are as old; None: no such record is."""

    def covers(self, place: str, offset: int, time_ms: int | None) -> bool:
        """Whether a record is that old. Kafka's time decides if no offset is known."""
        if place in self.ends:
            return offset < self.ends[place]
        return self.until_ms is not None and (time_ms or 0) <= self.until_ms

    def ended(self, place: str, offset: int, time_ms: int | None) -> PastName:
        """From a record on, the name has another meaning."""
        times = [time_ms or 0] if self.until_ms is None else [time_ms or 0, self.until_ms]
        return replace(self, ends={**self.ends, place: offset}, until_ms=min(times))


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """Columns have the names of the source, except as stated here."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former name -> the present name in the source."""
    continued: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of the source -> the columns of the table that have held its values; the last one is for new rows."""
    past: Mapping[str, tuple[PastName, ...]] = field(default_factory=dict)
    """Column name -> its meanings before it was dropped, or reappeared as another column, oldest first."""
    source: str = ""
    """The source table that these names belong to: other source tables have their own."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics that these offsets belong to, if they were known."""
    since: Mapping[str, PastName] = field(default_factory=dict)
    """Column that appeared or reappeared later -> the name had no meaning before: older rows lack it.

    The empty name has the columns with which the table was created.
    """
    gone: Mapping[str, PastName] = field(default_factory=dict)
    """Column that the source has lost and the table keeps -> older records have it. No later column is its new name."""
    left_out: tuple[str, ...] = ()
    """Columns of the newest records that ``columns.drop`` names, or masked columns with only NULL so far.

    A column that replaces them may be the same one under a new name.
    """
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """With several source tables: the masked or dropped columns that the newest records of each lack, by its name."""
    made_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of the table -> the digests of the masks and expressions that made its rows; the filter has no name."""

    @classmethod
    def parsed(cls, text: str | None) -> ColumnSources:
        """From the option; any other text gives no facts."""
        try:
            found = json.loads(text or "{}")
            return cls(
                _names(found.get("renamed", {})),
                {str(name): tuple(map(str, columns)) for name, columns in found.get("continued", {}).items()},
                {str(name): tuple(map(_past_name, names)) for name, names in found.get("past", {}).items()},
                str(found.get("source", "")),
                _names(found.get("topics", {})),
                {str(name): _past_name(one) for name, one in found.get("since", {}).items()},
                {str(name): _past_name(one) for name, one in found.get("gone", {}).items()},
                tuple(map(str, found.get("left_out", ()))),
                {str(name): tuple(map(str, columns)) for name, columns in found.get("lacking", {}).items()},
                {str(name): tuple(map(str, words)) for name, words in found.get("made_by", {}).items()},
            )
        except (ValueError, TypeError, AttributeError, KeyError):
            return cls()

    @property
    def retired(self) -> set[str]:
        """The columns of the table that another one continues, and that never had the name of a source column."""
        return {name for source, names in self.continued.items() for name in names[:-1] if name != source}

    @property
    def text(self) -> str:
        """The value of the option."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        found["past"] = {name: [asdict(one) for one in names] for name, names in self.past.items()}
        found |= {kind: {name: asdict(one) for name, one in found[kind].items()} for kind in ("since", "gone")}
        return json.dumps({k: v for k, v in found.items() if v}, ensure_ascii=False, separators=(",", ":"))

    def with_rename(self, old: str, new: str) -> ColumnSources:
        """A column has a new name, also under all its former names."""
        renamed = {name: new if now == old else now for name, now in self.renamed.items() if name != new}
        since = {new if name == old else name: one for name, one in self.since.items()}
        return replace(self, renamed={**renamed, old: new}, past=self._past_with({old: new}), since=since)

    def with_reused(self, columns: Collection[str], firsts: Firsts) -> ColumnSources:
        """Records have these columns, ``firsts`` first: of two names for one column the older one means another."""
        known = self
        for place, (offset, time_ms) in _by_time(firsts):
            newest: dict[str | None, str] = {}
            for name in sorted(columns, key=lambda name: known._rank(name, place, offset, time_ms)):
                means = known._meaning(name, place, offset, time_ms)
                if means is not None and means in newest:
                    known = known._with_end(newest[means], place, offset, time_ms)
                newest[means] = name
        return known

    def _past(self, name: str, place: str, offset: int, time_ms: int | None) -> PastName | None:
        """The meaning of a name in a record; None if it is the present one."""
        return next((one for one in self.past.get(name, ()) if one.covers(place, offset, time_ms)), None)

    def _meaning(self, name: str, place: str, offset: int, time_ms: int | None) -> str | None:
        past = self._past(name, place, offset, time_ms)
        return self.renamed.get(name, name) if past is None else past.means

    def _rank(self, name: str, place: str, offset: int, time_ms: int | None) -> tuple[int, int]:
        """Sorts names of one column by age."""
        past = self._past(name, place, offset, time_ms)
        if past is not None:
            return (0, past.until_ms or 0)
        return (1, [*self.renamed].index(name)) if name in self.renamed else (2, 0)

    def _with_end(self, name: str, place: str, offset: int, time_ms: int | None) -> ColumnSources:
        """From a record on, a name has another meaning."""
        before, renamed = self.past.get(name, ()), dict(self.renamed)
        past = self._past(name, place, offset, time_ms)
        if past is None:
            past = PastName(renamed.pop(name), {})
            before = (*before, past)
        names = tuple(one.ended(place, offset, time_ms) if one is past else one for one in before)
        return replace(self, renamed=renamed, past={**self.past, name: names})

    def with_new_column(self, column: str, old: str, new: str) -> ColumnSources:
        """The values of a column of the source go into another column of the table from now on."""
        return replace(self, continued={**self.continued, column: (*(self.continued.get(column) or (old,)), new)})

    def without_columns(self, ends: Mapping[str, Mapping[str, int]]) -> ColumnSources:
        """Columns are dropped, by name with the offsets per topic and partition (``place_key``) behind their end."""
        past = self._past_with(dict.fromkeys(ends))
        for name, now in [*self.renamed.items(), *((name, name) for name in ends)]:
            if now in ends:
                past[name] = (*past.get(name, ()), PastName(None, ends[now]))
        renamed = {name: now for name, now in self.renamed.items() if name not in ends and now not in ends}
        continued = {name: columns for name, columns in self.continued.items() if name not in ends}
        since = {name: one for name, one in self.since.items() if name not in ends}
        gone = {name: one for name, one in self.gone.items() if name not in ends}
        return replace(self, renamed=renamed, continued=continued, past=past, since=since, gone=gone)

    def in_topics(self, topics: Mapping[str, str]) -> ColumnSources:
        """The facts that hold for topics with these ids: the meanings from an earlier topic of the name are dropped."""
        is_recreated = any(self.topics.get(topic, id_) != id_ for topic, id_ in topics.items())
        gone = {name: PastName(name, {}) for name in self.gone}
        return replace(self, past={}, since={}, gone=gone) if is_recreated else self

    def with_gone(self, columns: Collection[str], firsts: Firsts) -> ColumnSources:
        """The source has lost columns that the table keeps: from ``firsts`` on their former names mean others."""
        known = self
        for column in [name for name in columns if name not in self.gone and not self.is_before(name, firsts)]:
            since = self.since.get(column, self.since.get(""))
            lacks = {at: one for at, one in firsts.items() if since is None or not since.covers(at, *one)}
            known = replace(known, gone={**known.gone, column: _until(column, lacks)})
            for name in [old for old, now in self.renamed.items() if now == column]:
                for place, first in _by_time(lacks):
                    if known._meaning(name, place, *first) == column:
                        known = known._with_end(name, place, *first)
        return known

    def with_left_out(self, columns: Iterable[str]) -> ColumnSources:
        """The newest records have these columns, which the table does not store."""
        return replace(self, left_out=tuple(sorted({*columns})))

    def with_lacking(self, source: str, columns: Iterable[str]) -> ColumnSources:
        """The newest records of one of several source tables lack these columns."""
        lacking = {**self.lacking, source: tuple(sorted(columns))}
        return replace(self, lacking={name: columns for name, columns in lacking.items() if columns})

    def with_made_by(self, words: Mapping[str, tuple[str, ...]]) -> ColumnSources:
        """Rows are made by these masks and expressions from now on."""
        return replace(self, made_by=words)

    def with_shown(self, columns: Collection[str], firsts: Firsts) -> ColumnSources:
        """Records have columns that are new or were gone, ``firsts`` first: older rows lack them."""
        since, gone = dict(self.since), dict(self.gone)
        for name in columns:
            before = (*self.past.get(name, ()), *([gone[name]] if name in gone else []))
            new = {at: first for at, first in firsts.items() if not any(one.covers(at, *first) for one in before)}
            if new and (name in gone or name not in since):
                since[name] = _until(None, new)
                gone.pop(name, None)
        return replace(self, since=since, gone=gone)

    def is_before(self, name: str, firsts: Firsts) -> bool:
        """Whether a column came later than records, ``firsts`` first: they do not show that the source has lost it."""
        since = self.since.get(name, self.since.get(""))
        return since is not None and all(since.covers(place, *first) for place, first in firsts.items())

    def is_past(self, columns: Collection[str], firsts: Firsts) -> bool:
        """Whether records with these columns, ``firsts`` first, are from before a change in the meaning of a name."""
        ends = [one for name in columns for one in self.past.get(name, ())]
        return any(all(one.covers(place, *first) for place, first in firsts.items()) for one in ends)

    def _past_with(self, names: Mapping[str, str | None]) -> dict[str, tuple[PastName, ...]]:
        """The meanings of names, for columns that were renamed or are gone."""
        return {
            name: tuple(replace(one, means=names.get(one.means, one.means)) if one.means else one for one in before)
            for name, before in self.past.items()
        }


def _by_time(firsts: Firsts) -> list[tuple[str, tuple[int, int | None]]]:
    return sorted(firsts.items(), key=lambda first: first[1][1] or 0)


def _until(means: str | None, firsts: Firsts) -> PastName:
    """The meaning of a name before these records."""
    times = [time_ms for _, time_ms in firsts.values() if time_ms is not None]
    return PastName(means, {place: offset for place, (offset, _) in firsts.items()}, min(times, default=None))


def place_key(topic: str, partition: int) -> str:
    """A topic partition as a name."""
    return f"{topic}/{partition}"


def _names(found: Any) -> dict[str, str]:
    return {str(name): str(other) for name, other in found.items()}


def _past_name(found: Any) -> PastName:
    means, until_ms = found["means"], found["until_ms"]
    ends = {str(place): int(offset) for place, offset in found["ends"].items()}
    return PastName(None if means is None else str(means), ends, None if until_ms is None else int(until_ms))
