"""Snapshots: their JSON form, and the store that finds them.

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
    """A snapshot's id and uuid: after a rollback another snapshot may have the same id."""

    id: int
    uuid: str | None


BEFORE_THE_FIRST = SnapshotIdentity(0, None)
"""The identity of a table without snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One published state of a table. File names are in ``manifest/``; counts are of stored rows before a merge."""

    id: int
    uuid: str | None = None
    """Random for each attempt, to distinguish the own snapshot from that of another writer after an unclear publish."""
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
        """Whether both are the same snapshot, not two with the same id; early writers wrote no uuid."""
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
"""Keys with text values; all other values, except the kind and the properties, are numbers."""

_VERSION = 3

_ATTEMPTS = 10
"""How often the newest snapshot may expire before a read, before giving up."""

_MOST_DIGITS = 18
"""The most digits of a snapshot id."""

_CHECKSUM = "tidemark.checksum"
"""The property with the checksum in Tidemark's snapshots; not part of ``Snapshot.properties``."""

UUID_PROPERTY = "tidemark.uuid"
"""The property with the uuid, for servers that do not store uuids."""

_IN_PARTS = "x"
"""The prefix of a checksum in two parts."""

_DIGITS = 8
"""The length of each part."""

_SHORT_BYTES = 8192
"""The largest size of a snapshot file whose content is cached."""

_MOST_KNOWN = 4096

_LEFT_OUT = ("uuid", "writerVersion", "operation")
"""Keys that copies lack."""


def to_json(snapshot: Snapshot) -> str:
    """The text of the snapshot file, with keys in Java's order and without unset ones."""
    document = as_document(snapshot)
    document["properties"] = {**snapshot.properties, _CHECKSUM: _checksum(document)}
    return pretty(document)


def as_document(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON without a checksum, because a server may drop unknown keys when it stores the snapshot."""
    document: dict[str, Any] = {"version": _VERSION}
    for key, attribute in _JSON_KEYS:
        value = getattr(snapshot, attribute)
        if value is not None and value != {}:
            document[key] = value
    return document


def from_json_once(data: bytes, path: str) -> Snapshot:
    """As ``from_json``, but parses the same file only once, because a batch reads it several times."""
    return _known(data, path) if len(data) <= _SHORT_BYTES else from_json(data, path)


def from_json(data: str | bytes, path: str = "a snapshot file") -> Snapshot:
    """Read a snapshot, changelog or tag file; unknown keys are ignored.

    Raises CorruptFile, which names ``path``, if a required key is missing or Tidemark's checksum is wrong.
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
    """A value of the file in the form of its attribute; raises ValueError, which names the key, for another kind of
    value."""
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
    """Move the uuid from the properties to its place."""
    uuid = (document.get("properties") or {}).pop(UUID_PROPERTY, None)
    if uuid is not None and document.get("uuid") is None:
        document["uuid"] = uuid


def _check(document: dict[str, Any]) -> None:
    """Raises ValueError if the checksum is wrong or its name is damaged; snapshots of other writers have none."""
    stated = (document.get("properties") or {}).pop(_CHECKSUM, None)
    if not document.get("properties"):
        document.pop("properties", None)
    if stated is None:
        _check_names(document)
    elif not _is_right(str(stated), document):
        raise ValueError("its checksum is wrong")


def _check_names(document: dict[str, Any]) -> None:
    """Raises ValueError if the checksum, or its object, is under another name.

    Unknown keys alone are no damage, because other versions of Paimon have more keys.
    """
    for key, value in document.items():
        if isinstance(value, dict) and _CHECKSUM in value:
            raise ValueError(f"the key {key!r} has the checksum, which belongs to 'properties'")
    properties = document.get("properties") or {}
    for key, value in properties.items():
        rest = {name: other for name, other in properties.items() if name != key}
        if value == _checksum({**document, "properties": rest or None}):
            raise ValueError(f"the property {key!r} has the checksum, whose name is {_CHECKSUM!r}")


def _checksum(document: Mapping[str, Any]) -> str:
    """The checksum of the keys of snapshots, independent of the layout of the text. Tags have the same keys and some
    more.

    It has two parts, because Java omits some keys in tags and changelogs, which are copies of any writer's snapshots.
    """
    copied = [key for key, _ in _JSON_KEYS if key not in _LEFT_OUT]
    return f"{_IN_PARTS}{_digest(document, copied)}{_digest(document, _LEFT_OUT)}"


def _is_right(stated: str, document: Mapping[str, Any]) -> bool:
    """Whether a checksum matches; also one over all keys at once, unless the snapshot is a copy."""
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

    ``exhaustive`` is False if the search reached expired snapshots: the table alone then cannot show the result.
    """

    newest: Snapshot | None
    exhaustive: bool


class NewestSnapshot(Protocol):
    """A server that decides which snapshot of a table is the newest one."""

    def load(self) -> Snapshot | None:
        """The newest snapshot; None for a table without snapshots. Raises SinkUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """The ``snapshot/`` directory of a table. It has no state, so it stays valid after commits of others.

    If a server publishes the snapshots, it names the ``newest`` one; all others are read from the directory.
    """

    io: FileIO
    paths: TablePaths
    newest: NewestSnapshot | None = None

    def latest_id(self) -> int | None:
        """The id of the newest snapshot; None for a table without snapshots.

        It uses the LATEST hint if its snapshot exists and no newer one does; otherwise it lists the directory.
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
        """The target of a rollback in progress; without a rollback, the newest snapshot or an older one.

        It is the LATEST hint, which a rollback writes before it removes any snapshot; None without a hint.
        """
        return self._hint(self.paths.latest_hint)

    def latest(self) -> Snapshot | None:
        """The newest snapshot; a newer one if it expires before the read."""
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
        """The newest snapshot; cheaper if it is still ``known``, the newest one at the last look."""
        if self.newest is not None:
            return self.newest.load()
        if known is not None and known.is_same(self.find(known.id)) and not self._exists(known.id + 1):
            return known
        return self.latest()

    def newest_first(self) -> Iterator[Snapshot]:
        """The existing snapshots, each read on demand; ends at snapshots that have just expired."""
        snapshot = self.latest()
        while snapshot is not None:
            yield snapshot
            snapshot = self.find_unless_lost(snapshot.id - 1) if snapshot.id > 1 else None

    def earliest_id(self) -> int | None:
        """The id of the oldest existing snapshot."""
        hinted = self._hint(self.paths.earliest_hint)
        if hinted is not None and self._exists(hinted):
            return hinted
        return min(self.listed_ids(), default=None)

    def read(self, snapshot_id: int) -> Snapshot:
        """Read one snapshot; raises FileNotFoundError if it does not exist or has expired."""
        path = self.paths.snapshot_file(snapshot_id)
        snapshot = from_json_once(self.io.read(path), path)
        if snapshot.id != snapshot_id:
            raise CorruptFile(f"{path} has the content of snapshot {snapshot.id}; restore it from a backup")
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot; None if it does not exist or has expired."""
        try:
            return self.read(snapshot_id)
        except FileNotFoundError:
            newest = None if self.newest is None else self.newest.load()
            return newest if newest is not None and newest.id == snapshot_id else None

    def find_unless_lost(self, snapshot_id: int) -> Snapshot | None:
        """Read one snapshot; None if it has expired. Raises CorruptFile if it is missing among others.

        Raises CommitConflict if the table was rolled back to before it.
        """
        snapshot = self.find(snapshot_id)
        if snapshot is None and (self.earliest_id() or snapshot_id) < snapshot_id:
            path = self.paths.snapshot_file(snapshot_id)
            if max(self.listed_ids(), default=0) < snapshot_id:
                raise CommitConflict(f"{path} no longer exists: the table has just been rolled back; try again")
            raise CorruptFile(f"{path} is missing; restore it from a backup")
        return snapshot

    def between(self, first: int | None, last: int | None) -> Iterator[Snapshot]:
        """The snapshots of [first, last]; None means the earliest and the latest one.

        Raises ConfigError for snapshots that have expired, even during the read, or do not exist yet.
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
                f"{latest}; choose a range within these"
            )
        for snapshot_id in range(first, last + 1):
            snapshot = self.find_unless_lost(snapshot_id)
            if snapshot is None:
                raise ConfigError(
                    f"snapshot {snapshot_id} of {self.paths.root} expired before it was read; choose a later range"
                )
            yield snapshot

    def changelogs_between(self, first: int | None, last: int | None) -> Iterator[Snapshot]:
        """The snapshots of [first, last] whose changes can be read: as ``between``, and earlier expired ones.

        The expired ones have a long-lived changelog. None means the earliest and the latest one of either kind.
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
        """The expired snapshots with a long-lived changelog, in rising order."""
        return sorted(numbers_of(self.io.list_names(self.paths.changelog_dir), "changelog-"))

    def find_changelog(self, snapshot_id: int) -> Snapshot | None:
        """An expired snapshot from its long-lived changelog, without its index; None if there is none."""
        path = self.paths.changelog_file(snapshot_id)
        try:
            return replace(from_json(self.io.read(path), path), index_manifest=None)
        except FileNotFoundError:
            return None

    def write_latest_hint(self, snapshot_id: int) -> None:
        """Write the hint. A failure must not fail the commit, because a hint only saves a listing."""
        with suppress(OSError):
            self.io.write(self.paths.latest_hint, str(snapshot_id).encode(), durable=False)

    def write_first_hint(self) -> None:
        """Write snapshot 1 as the earliest one, as Java does with the first commit; see ``write_latest_hint``."""
        with suppress(OSError):
            self.io.write(self.paths.earliest_hint, b"1", durable=False)

    def write_earliest_hint(self, snapshot_id: int) -> None:
        """Write the hint durably, together with earlier removals from the directory."""
        self.io.write(self.paths.earliest_hint, str(snapshot_id).encode())

    def search_user(
        self, user: str, latest_id: int | None, after_id: int = 0, since_ms: int | None = None
    ) -> UserSearch:
        """Search for the newest snapshot of ``user``, from ``latest_id`` backwards.

        The search ends at the user's snapshot, at ``after_id`` (exclusive), at the first snapshot older than
        ``since_ms``, or at an expired one. Only in the last case it is not exhaustive.
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

        None does not prove that the user never committed, because its snapshots may have expired. To decide whether to
        skip a commit, use ``search_user``, which distinguishes these cases.
        """
        return self.search_user(user, self.latest_id()).newest

    def at_or_before(self, timestamp_ms: int) -> Snapshot | None:
        """The newest snapshot whose time is not after ``timestamp_ms``; None if all are newer or have expired."""
        low, high = self.earliest_id(), self.latest_id()
        found: Snapshot | None = None
        if low is None or high is None:
            return None
        while low <= high:
            middle = (low + high) // 2
            snapshot = self.find(middle)
            if snapshot is None or snapshot.time_ms <= timestamp_ms:  # a snapshot that has just expired does not count
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
