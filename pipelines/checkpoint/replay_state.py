"""The progress of a replay: a small file in the checkpoint, which outlives the process that works on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import TypeAdapter

from paimon_table.errors import ConfigError
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.reached import Reached

DIRECTORY = "tidemark/replays"


class Kind(StrEnum):
    """The forms of a place of the source."""

    EARLIEST = "earliest"
    TIMESTAMP = "timestamp"
    """``value``: milliseconds since 1970."""
    POSITION = "position"
    """``value``: text in which the source has its positions."""
    PLACES = "places"
    """``value``: as ``POSITION``; ``earliest`` or a time may replace an offset, ``*`` covers unnamed partitions."""


@dataclass(frozen=True, slots=True)
class Point:
    """The begin or end of a range, as the user gave it."""

    kind: Kind
    value: str = ""
    words: str = ""
    """As it was written."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The step in which the table takes over the rebuilt content: recorded before the attempt."""

    user: str
    """Who commits it."""
    tried_at_ms: int
    tag: str
    """Keeps the old content."""
    old_rows: int
    new_rows: int
    counted_at: int | None = None
    """The snapshot of the table whose rows ``old_rows`` are; None: the one before the switch."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of rows in the old and the new content, counted in snapshots that have the same records."""

    old_id: int
    """Snapshot of the table, which a tag keeps."""
    new_id: int
    """Snapshot of the branch; 0: it has none."""
    old_rows: int | None = None
    """None: to be counted."""
    new_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The values of a rebuild in addition to its range."""

    branch: str
    """Where it is built."""
    options: Mapping[str, str | None]
    """Options that the table gets with the new content; None: reset."""
    rules: str
    """Digest of everything that determines the rows of the table."""
    checked_id: int
    """Snapshots of the table up to this one were checked for rows of other writers."""
    allows_missing: bool
    """Whether the new content may lack rows of the table."""
    switch: Switch | None = None
    counts: Counts | None = None
    """None: no count outside the turn was needed."""


@dataclass(frozen=True, slots=True)
class ReplayState:
    """One replay. Positions are in the text of the source."""

    id: str
    table: str
    begin: Point
    end: Point | None
    """None: where the stream is met."""
    topics: tuple[str, ...]
    limit: str | None = None
    """The meaning of ``end``; None until it is known."""
    begun_at_ms: int = 0
    """Its commits cannot be older."""
    reached: Reached | None = None
    """How far it is; None: it has not begun."""
    record_count: int = 0
    failed_count: int = 0
    """Records that could not be read again either."""
    is_done: bool = False
    rebuild: Rebuild | None = None
    """None: the records go into the table as it is."""
    void: str = ""
    """Why it can never continue; empty as long as it can."""

    @property
    def is_begun(self) -> bool:
        return self.reached is not None

    @property
    def number(self) -> int:
        """Of the next slice."""
        return 0 if self.reached is None else self.reached.number

    def same_range(self, other: ReplayState) -> bool:
        """Whether both are to read the same range of the same table."""
        return (self.table, self.begin, self.end) == (other.table, other.begin, other.end)

    @property
    def words(self) -> str:
        until = "the position of the stream" if self.end is None else self.end.words
        return f"from {self.begin.words} to {until}"

    def to_bytes(self) -> bytes:
        """The state as its file has it."""
        return _FORM.dump_json(self, indent=1)

    @classmethod
    def from_bytes(cls, data: bytes) -> ReplayState:
        """The inverse of ``to_bytes``; ignores fields of newer versions. Raises ValueError for anything else."""
        return _FORM.validate_json(data, strict=True)


_FORM = TypeAdapter(ReplayState)


class Replays:
    """The replays of one checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def put(self, state: ReplayState) -> None:
        """Make a state durable."""
        self._checkpoint.write(f"{DIRECTORY}/{state.id}.json", state.to_bytes())

    def get(self, id_: str) -> ReplayState:
        """A replay by its id; ConfigError when there is none."""
        for state in self.all():
            if state.id == id_:
                return state
        raise ConfigError(f"checkpoint {self._checkpoint.location} has no replay {id_!r}")

    def all(self) -> list[ReplayState]:
        """The replays, oldest first."""
        return self._checkpoint.documents(DIRECTORY, ReplayState.from_bytes)

    def unfinished(self, table: str) -> ReplayState | None:
        """The replay of a table that has not ended, or a rebuild whose end no process has recorded."""
        return next(
            (s for s in self.all() if s.table == table and (s.rebuild is not None or not s.is_done)),
            None,
        )

    def end_with(self, topics: Collection[str]) -> None:
        """Stop replays that have begun to read topics which were recreated: their offsets mean other records."""
        for state in self.all() if topics else ():
            hit = sorted({*topics} & {*state.topics}) if state.topics else sorted(topics)
            if hit and state.is_begun and not (state.is_done or state.void):
                self.put(replace(state, void=f"topic {hit[0]} was recreated during the replay"))

    def remove(self, id_: str) -> None:
        """Forget a replay."""
        self._checkpoint.io.delete(f"{self._checkpoint.path}/{DIRECTORY}/{id_}.json")
