"""Snapshots: the JSON of one, and finding them.

Implements Paimon's snapshot files (version 3) and their hint files. Snapshot ids are dense from 1; expiry removes the
oldest ones.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from paimon_table.errors import CommitConflict, ConfigError, CorruptFile
from paimon_table.json_text import as_text, as_whole_number, pretty
from paimon_table.metadata.paths import TablePaths
from paimon_table.storage.file_io import FileIO, numbers_of


class CommitKind(StrEnum):
    """The effect of a snapshot: new rows, a rewrite of the same rows, a replacement, statistics."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True)
class SnapshotIdentity:
    """A snapshot by its id and uuid: after a rollback another one may have the same id."""

    id: int
    uuid: str | None


BEFORE_THE_FIRST = SnapshotIdentity(0, None)
"""Stands for a table without snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One published state of a table. File names are names in ``manifest/``; counts are of stored rows before merge."""

    id: int
    uuid: str | None = None
    """Random for each attempt: distinguishes one's own snapshot from a competitor's after an unclear publish."""
    schema_id: int
    base_manifest_list: str
    base_manifest_list_size: int | None = None
    delta_manifest_list: str
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    commit_user: str
    writer_version: str | None = None
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    total_record_count: int
    delta_record_count: int
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None

    @property
    def identity(self) -> SnapshotIdentity:
        return SnapshotIdentity(self.id, self.uuid)

    def is_same(self, other: Snapshot | None) -> bool:
        """Whether both are one snapshot, not two that have had the same id; early writers gave them no uuid."""
        if other is None or self.identity != other.identity:
            return False
        return self.uuid is not None or self == other


_JSON_KEYS = (
    ("uuid", "uuid"),
    ("id", "id"),
    ("schemaId", "schema_id"),
    ("baseManifestList", "base_manifest_list"),
    ("baseManifestListSize", "base_manifest_list_size"),
    ("deltaManifestList", "delta_manifest_list"),
    ("deltaManifestListSize", "delta_manifest_list_size"),
    ("changelogManifestList", "changelog_manifest_list"),
    ("changelogManifestListSize", "changelog_manifest_list_size"),
    ("indexManifest", "index_manifest"),
    ("commitUser", "commit_user"),
    ("writerVersion", "writer_version"),
    ("commitIdentifier", "commit_identifier"),
    ("commitKind", "commit_kind"),
    ("timeMillis", "time_ms"),
    ("totalRecordCount", "total_record_count"),
    ("deltaRecordCount", "delta_record_count"),
    ("changelogRecordCount", "changelog_record_count"),
    ("watermark", "watermark"),
    ("statistics", "statistics"),
    ("properties", "properties"),
    ("nextRowId", "next_row_id"),
    ("operation", "operation"),
)
"""(key of the file, attribute) in the order in which Java writes them."""

_FILES = frozenset({"baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"})
"""Keys whose values are names of files."""

_TEXTS = _FILES | {"uuid", "commitUser", "writerVersion", "operation"}
"""Keys whose values are texts; all other values, except the kind and the properties, are numbers."""

_VERSION = 3

_ATTEMPTS = 10
"""How often the newest snapshot may expire before it is read."""

_MOST_DIGITS = 18
"""Of a snapshot id."""

_CHECKSUM = "tidemark.checksum"
"""Key among the properties of the snapshots that Tidemark writes; not part of ``Snapshot.properties``."""

UUID_PROPERTY = "tidemark.uuid"
"""Key among the properties for the uuid, for servers that do not know uuids and do not store them."""

_IN_PARTS = "x"
"""Begins a checksum in two parts."""

_DIGITS = 8
"""Of each part."""

_SHORT_BYTES = 8192
"""Size of a snapshot file up to which its content is remembered."""

_MOST_KNOWN = 4096

_LEFT_OUT = ("uuid", "writerVersion", "operation")
"""Keys that copies lack."""


def to_json(snapshot: Snapshot) -> str:
    """The text of the snapshot file, keys in Java's order, unset ones left out."""
    document = as_document(snapshot)
    document["properties"] = {**snapshot.properties, _CHECKSUM: _checksum(document)}
    return pretty(document)


def as_document(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON, without our checksum: a server that stores it may leave out keys that it does not know."""
    document: dict[str, Any] = {"version": _VERSION}
    for key, attribute in _JSON_KEYS:
        value = getattr(snapshot, attribute)
        if value is not None and value != {}:
            document[key] = value
    return document


def from_json_once(data: bytes, path: str) -> Snapshot:
    """As ``from_json``; the same file is parsed once, though a batch looks at it several times."""
    return _known(data, path) if len(data) <= _SHORT_BYTES else from_json(data, path)


def from_json(data: str | bytes, path: str = "a snapshot file") -> Snapshot:
    """Read a snapshot, changelog or tag file; unknown keys are ignored.

    CorruptFile, which names ``path``, when a needed key is missing or the checksum that Tidemark writes is wrong.
    """
    try:
        document = json.loads(data)
        _check(document)
        _take_uuid(document)
        values = {name: _value(key, document[key]) for key, name in _JSON_KEYS if document.get(key) is not None}
        return Snapshot(**values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(f"{path} is not readable as a snapshot ({error!r}); restore it from a backup") from error


_known = lru_cache(_MOST_KNOWN)(from_json)


def _value(key: str, value: Any) -> Any:
    """A value of the file as its attribute has it; ValueError, which names the key, for another kind of value."""
    try:
        if key == "properties":
            return {name: as_text(member) for name, member in value.items()}
        if key == "commitKind":
            return CommitKind(value)
        if key not in _TEXTS:
            return as_whole_number(value)
        if key in _FILES and ("/" in as_text(value) or not value):
            raise ValueError(f"expected the name of a file, found {value!r}")
        return as_text(value)
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{key}: {error}") from error


def _take_uuid(document: dict[str, Any]) -> None:
    """Put the uuid in its place where it is kept among the properties."""
    uuid = (document.get("properties") or {}).pop(UUID_PROPERTY, None)
    if uuid is not None and document.get("uuid") is None:
        document["uuid"] = uuid


def _check(document: dict[str, Any]) -> None:
    """ValueError when the checksum is wrong or its name is damaged; snapshots of other writers have none."""
    stated = (document.get("properties") or {}).pop(_CHECKSUM, None)
    if not document.get("properties"):
        document.pop("properties", None)
    if stated is None:
        _check_names(document)
    elif not _is_right(str(stated), document):
        raise ValueError("its checksum is wrong")


def _check_names(document: dict[str, Any]) -> None:
    """ValueError when the checksum stands under another name than its own, or its object does.

    Unknown keys alone say nothing: other versions of Paimon have further keys.
    """
    for key, value in document.items():
        if isinstance(value, dict) and _CHECKSUM in value:
            raise ValueError(f"the key {key!r} holds the checksum, which belongs into 'properties'")
    properties = document.get("properties") or {}
    for key, value in properties.items():
        rest = {name: other for name, other in properties.items() if name != key}
        if value == _checksum({**document, "properties": rest or None}):
            raise ValueError(f"the property {key!r} holds the checksum, which is called {_CHECKSUM!r}")


def _checksum(document: Mapping[str, Any]) -> str:
    """Of the keys that snapshots have, whatever the layout of the text: tags hold the same ones and some more.

    In two parts: Java leaves some keys out of its tags and changelogs, which are copies of snapshots of any writer.
    """
    copied = [key for key, _ in _JSON_KEYS if key not in _LEFT_OUT]
    return f"{_IN_PARTS}{_digest(document, copied)}{_digest(document, _LEFT_OUT)}"


def _is_right(stated: str, document: Mapping[str, Any]) -> bool:
    """Whether a checksum fits; also one of a version that covered all keys at once, unless the snapshot is a copy."""
    is_copy = not any(key in document for key in _LEFT_OUT)
    if not stated.startswith(_IN_PARTS):
        return is_copy or stated == _digest(document, [key for key, _ in _JSON_KEYS])
    right = _checksum(document)
    return stated == right or (is_copy and stated[: len(right) - _DIGITS] == right[:-_DIGITS])


def _digest(document: Mapping[str, Any], keys: Iterable[str]) -> str:
    covered = {key: document[key] for key in keys if document.get(key) is not None}
    return f"{zlib.crc32(_layout(covered).encode()):0{_DIGITS}x}"


_layout = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class UserSearch:
    """The newest snapshot of a commit user, and whether an older one could have been missed.

    ``exhaustive`` is False when the search came to expired snapshots: then no answer can be given from the table alone.
    """

    newest: Snapshot | None
    exhaustive: bool


class NewestSnapshot(Protocol):
    """A server that decides which snapshot of a table is the newest one."""

    def load(self) -> Snapshot | None:
        """The newest snapshot, None for a table without one. Raises SinkUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """The ``snapshot/`` directory of a table. Holds no state, so it can be used after others have committed.

    If a server publishes the snapshots, it names the ``newest`` one; all others are read from the directory.
    """

    io: FileIO
    paths: TablePaths
    newest: NewestSnapshot | None = None

    def latest_id(self) -> int | None:
        """Id of the newest snapshot, None for a table without one.

        The LATEST hint is taken when its snapshot exists and no newer one does; otherwise the directory is listed.
        """
        if self.newest is not None:
            newest = self.newest.load()
            return None if newest is None else newest.id
        hinted = self._hint(self.paths.latest_hint)
        if hinted is not None and self._exists(hinted) and not self._exists(hinted + 1):
            return hinted
        return max(self.listed_ids(), default=None)

    @property
    def rolled_back_to(self) -> int | None:
        """The snapshot that a rollback which is going on goes back to; where there is none, the newest or an older one.

        Both are the LATEST hint, which a rollback writes before it removes any snapshot; None without a hint.
        """
        return self._hint(self.paths.latest_hint)

    def latest(self) -> Snapshot | None:
        """The newest snapshot; a newer one when that expires before it is read."""
        if self.newest is not None:
            return self.newest.load()
        hinted = self._hint(self.paths.latest_hint)
        at_hint = self.find(hinted) if hinted else None
        if at_hint is not None and not self._exists(at_hint.id + 1):
            return at_hint
        for _ in range(_ATTEMPTS):
            newest = max(self.listed_ids(), default=None)
            found = None if newest is None else self.find(newest)
            if newest is None or found is not None:
                return found
        raise CorruptFile(f"{self.paths.snapshot_file(newest or 0)} is missing; restore it from a backup")

    def latest_since(self, known: Snapshot | None) -> Snapshot | None:
        """The newest snapshot; cheaper where that is ``known``, the newest one at the last look, as nearly always."""
        if self.newest is not None:
            return self.newest.load()
        if known is not None and known.is_same(self.find(known.id)) and not self._exists(known.id + 1):
            return known
        return self.latest()

    def newest_first(self) -> Iterator[Snapshot]:
        """The snapshots that have not expired, each read when it is asked for; ends where others have just expired."""
        snapshot = self.latest()
        while snapshot is not None:
            yield snapshot
            snapshot = self.find_unless_lost(snapshot.id - 1) if snapshot.id > 1 else None

    def earliest_id(self) -> int | None:
        """Id of the oldest snapshot that has not expired."""
        hinted = self._hint(self.paths.earliest_hint)
        if hinted is not None and self._exists(hinted):
            return hinted
        return min(self.listed_ids(), default=None)

    def read(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot; FileNotFoundError when it does not exist or has expired."""
        path = self.paths.snapshot_file(snapshot_id)
        snapshot = from_json_once(self.io.read(path), path)
        if snapshot.id != snapshot_id:
            raise CorruptFile(f"{path} holds snapshot {snapshot.id}; restore it from a backup")
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot, None when it does not exist or has expired."""
        try:
            return self.read(snapshot_id)
        except FileNotFoundError:
            newest = None if self.newest is None else self.newest.load()
            return newest if newest is not None and newest.id == snapshot_id else None

    def find_unless_lost(self, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot, None when it has expired; CorruptFile when it is missing among others.

        CommitConflict when it was the newest one, or behind it, and the table has been rolled back.
        """
        snapshot = self.find(snapshot_id)
        if snapshot is None and (self.earliest_id() or snapshot_id) < snapshot_id:
            path = self.paths.snapshot_file(snapshot_id)
            if max(self.listed_ids(), default=0) < snapshot_id:
                raise CommitConflict(f"{path} no longer exists: the table has just been rolled back; try again")
            raise CorruptFile(f"{path} is missing; restore it from a backup")
        return snapshot

    def between(self, first: int | None, last: int | None) -> Iterator[Snapshot]:
        """The snapshots of [first, last]; None stands for the earliest and the latest one.

        Raises ConfigError for snapshots that have expired, also while they are read, or do not exist yet.
        """
        earliest, latest = self.earliest_id(), self.latest_id()
        if earliest is None or latest is None:
            if first is None and last is None:
                return
            raise ConfigError(f"{self.paths.root} has no snapshot yet; write to it first")
        first = earliest if first is None else first
        last = latest if last is None else last
        if first < earliest or last > latest:
            raise ConfigError(
                f"snapshots {first} to {last} of {self.paths.root} cannot be read: it has the snapshots {earliest} to "
                f"{latest}; choose a range inside"
            )
        for snapshot_id in range(first, last + 1):
            snapshot = self.find_unless_lost(snapshot_id)
            if snapshot is None:
                raise ConfigError(
                    f"snapshot {snapshot_id} of {self.paths.root} has expired before it was read; choose a later range"
                )
            yield snapshot

    def changelogs_between(self, first: int | None, last: int | None) -> Iterator[Snapshot]:
        """The snapshots of [first, last] whose changes can be read: as ``between``, and expired ones before them.

        Those have a long-lived changelog. None stands for the earliest and the latest one of either kind.
        """
        earliest, kept = self.earliest_id(), self.changelog_ids()
        oldest = min([*kept[:1], *(() if earliest is None else (earliest,))], default=None)
        start = oldest if first is None else first
        if earliest is None or start is None or oldest is None or start >= earliest or start < oldest:
            yield from self.between(first, last)
            return
        for snapshot_id in range(start, earliest if last is None else min(earliest, last + 1)):
            log = self.find_changelog(snapshot_id)
            if log is None:
                raise ConfigError(
                    f"the changelog of snapshot {snapshot_id} of {self.paths.root} has expired; choose a later range"
                )
            yield log
        if last is None or last >= earliest:
            yield from self.between(earliest, last)

    def changelog_ids(self) -> list[int]:
        """The expired snapshots that have a long-lived changelog, rising."""
        return sorted(numbers_of(self.io.list_names(self.paths.changelog_dir), "changelog-"))

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """An expired snapshot as its long-lived changelog has it, without its index; None when there is none."""
        path = self.paths.changelog_file(snapshot_id)
        try:
            return replace(from_json(self.io.read(path), path), index_manifest=None)
        except FileNotFoundError:
            return None

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Hints only save a listing: a failure to write one must not fail the commit."""
        with suppress(OSError):
            self.io.write(self.paths.latest_hint, str(snapshot_id).encode(), durable=False)

    def write_first_hint(self) -> None:
        """Name snapshot 1 as the earliest one, as Java does with the first commit; see ``write_latest_hint``."""
        with suppress(OSError):
            self.io.write(self.paths.earliest_hint, b"1", durable=False)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Durable, together with earlier removals from the directory."""
        self.io.write(self.paths.earliest_hint, str(snapshot_id).encode())

    def search_user(
        self, user: str, latest_id: int | None, after_id: int = 0, since_ms: int | None = None
    ) -> UserSearch:
        """Look for the newest snapshot of ``user``, from ``latest_id`` back.

        The walk ends at the user's snapshot, at ``after_id`` (exclusive), or at an expired one. It also ends at the
        first snapshot older than ``since_ms``, if nothing of interest can be older. Only in the last case is it not
        exhaustive.
        """
        for snapshot_id in range(latest_id or 0, after_id, -1):
            snapshot = self.find_unless_lost(snapshot_id)
            if snapshot is None:
                return UserSearch(None, exhaustive=False)
            if snapshot.commit_user == user:
                return UserSearch(snapshot, exhaustive=True)
            if since_ms is not None and snapshot.time_ms < since_ms:
                break
        return UserSearch(None, exhaustive=True)

    def newest_of_user(self, user: str) -> Snapshot | None:
        """Newest snapshot of ``user`` that has not expired.

        None does not prove that the user never committed: its snapshots may have expired. To decide on skipping a
        commit, use ``search_user``, which distinguishes the two.
        """
        return self.search_user(user, self.latest_id()).newest

    def at_or_before(self, timestamp_ms: int) -> Snapshot | None:
        """Newest snapshot whose time is not after ``timestamp_ms``; None when all are newer or have expired."""
        low, high = self.earliest_id(), self.latest_id()
        found: Snapshot | None = None
        if low is None or high is None:
            return None
        while low <= high:
            middle = (low + high) // 2
            snapshot = self.find(middle)
            if snapshot is None or snapshot.time_ms <= timestamp_ms:  # one that has just expired is not an answer
                found, low = snapshot, middle + 1
            else:
                high = middle - 1
        return found

    def _exists(self, snapshot_id: int) -> bool:
        return snapshot_id > 0 and self.io.exists(self.paths.snapshot_file(snapshot_id))

    def _hint(self, path: str) -> int | None:
        try:
            data = self.io.read(path)
        except OSError:
            return None
        return int(data) if data.isdigit() and len(data) <= _MOST_DIGITS else None

    def listed_ids(self) -> list[int]:
        """The snapshots that the directory lists, in any order."""
        return numbers_of(self.io.list_names(self.paths.snapshot_dir), "snapshot-")
