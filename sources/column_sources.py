"""What a table remembers about its source besides the names of columns: the option ``OPTION``.

The option records schema changes of the source: former column names, columns that continue in another column of the
table, and dropped columns. So records from before a change are read correctly as long as the table exists, even if the
checkpoint is lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

OPTION = "tidemark.column-sources"
"""The table option that holds it, as a JSON object."""


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """Columns are named as the source names them, unless it says otherwise."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """Former name -> what the source calls the column now."""
    continued: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of the source -> the columns of the table that have held its values, the last one for new rows."""
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Dropped column -> per topic and partition the offset from which on a value in it belongs to another column."""
    topics: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics that these offsets are of, as far as they were known."""
    gone: tuple[str, ...] = ()
    """Columns that the source has lost and the table keeps: they are not former names of a later column."""
    left_out: tuple[str, ...] = ()
    """Columns of the newest records that ``columns.drop`` names, or masked ones with only NULL so far. A column that
    comes in their place may be the same one under a new name."""
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where several source tables meet: which masked or dropped columns the newest records of one lack, by its name."""
    made_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of the table -> the masks and digests of expressions that its rows are made by; the filter has no name."""

    @classmethod
    def parsed(cls, text: str | None) -> ColumnSources:
        """From the option; any other text says nothing."""
        try:
            found = json.loads(text or "{}")
            return cls(
                _names(found.get("renamed", {})),
                {str(name): tuple(map(str, columns)) for name, columns in found.get("continued", {}).items()},
                {str(name): _offsets(ends) for name, ends in found.get("dropped", {}).items()},
                _names(found.get("topics", {})),
                tuple(map(str, found.get("gone", ()))),
                tuple(map(str, found.get("left_out", ()))),
                {str(name): tuple(map(str, columns)) for name, columns in found.get("lacking", {}).items()},
                {str(name): tuple(map(str, words)) for name, words in found.get("made_by", {}).items()},
            )
        except (ValueError, TypeError, AttributeError):
            return cls()

    @property
    def text(self) -> str:
        """The value of the option."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return json.dumps({k: v for k, v in found.items() if v}, ensure_ascii=False, separators=(",", ":"))

    def with_rename(self, old: str, new: str) -> ColumnSources:
        """A column is called otherwise now, and by all its former names."""
        renamed = {name: new if now == old else now for name, now in self.renamed.items() if name != new}
        return replace(self, renamed={**renamed, old: new})

    def with_new_column(self, column: str, old: str, new: str) -> ColumnSources:
        """The values of a column of the source go into another column of the table from now on."""
        return replace(self, continued={**self.continued, column: (*(self.continued.get(column) or (old,)), new)})

    def without_columns(self, ends: Mapping[str, Mapping[str, int]], topics: Mapping[str, str]) -> ColumnSources:
        """Columns are dropped, by name with the offsets per topic and partition (``place_key``) behind their end.

        Offsets in an earlier topic of the name are forgotten.
        """
        recreated = {topic for topic, id_ in topics.items() if self.topics.get(topic, id_) != id_}
        before = {
            name: {place: end for place, end in places.items() if place.rpartition("/")[0] not in recreated}
            for name, places in self.dropped.items()
        }
        dropped = {**{name: places for name, places in before.items() if places}, **ends}
        renamed = {name: now for name, now in self.renamed.items() if now not in ends}
        continued = {name: columns for name, columns in self.continued.items() if name not in ends}
        return replace(self, renamed=renamed, continued=continued, dropped=dropped, topics={**self.topics, **topics})

    def with_gone(self, columns: Collection[str]) -> ColumnSources:
        """The source has lost columns that the table keeps."""
        return replace(self, gone=tuple(dict.fromkeys((*self.gone, *columns))))

    def with_left_out(self, columns: Iterable[str]) -> ColumnSources:
        """The newest records have these columns, of which the table stores nothing."""
        return replace(self, left_out=tuple(sorted({*columns})))

    def with_lacking(self, source: str, columns: Iterable[str]) -> ColumnSources:
        """The newest records of one of several source tables lack these columns."""
        lacking = {**self.lacking, source: tuple(sorted(columns))}
        return replace(self, lacking={name: columns for name, columns in lacking.items() if columns})

    def with_made_by(self, words: Mapping[str, tuple[str, ...]]) -> ColumnSources:
        """Rows are made by these masks and expressions from now on."""
        return replace(self, made_by=words)

    def with_own_columns(self, added: Collection[str]) -> ColumnSources:
        """Columns of these names are added: earlier columns with these names no longer count."""
        renamed = {name: now for name, now in self.renamed.items() if name not in added}
        return replace(self, renamed=renamed, gone=tuple(name for name in self.gone if name not in added))

    def ends(self, topic: str, topic_ids: Mapping[str, str]) -> dict[str, dict[int, int]]:
        """Per dropped column the offsets per partition of a topic; none where it is another topic of the name now."""
        known, now = self.topics.get(topic), topic_ids.get(topic)
        if known is not None and now is not None and known != now:
            return {}
        found: dict[str, dict[int, int]] = {}
        for column, places in self.dropped.items():
            of_topic = (key.rpartition("/") for key in places)
            ends = {int(partition): places[f"{name}/{partition}"] for name, _, partition in of_topic if name == topic}
            if ends:
                found[column] = ends
        return found


def place_key(topic: str, partition: int) -> str:
    """A topic partition as a name."""
    return f"{topic}/{partition}"


def _names(found: Any) -> dict[str, str]:
    return {str(name): str(other) for name, other in found.items()}


def _offsets(found: Any) -> dict[str, int]:
    return {str(place): int(offset) for place, offset in found.items()}
