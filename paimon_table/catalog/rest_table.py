"""One table of a REST catalog: the server makes its snapshots and schemas visible, and names the newest snapshot.

A writer writes data files, manifests and manifest lists into the table's directory. The server writes the files of
snapshots and schemas there, and the hints. As in Java, readers find all but the newest snapshot by these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from paimon_table.catalog.rest_client import Answer, RestClient, Unanswered
from paimon_table.catalog.rest_schema import schema_changes
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import CommitOutcomeUnknown, ConfigError, SinkUnavailable
from paimon_table.metadata.manifest import ADD, ManifestEntry
from paimon_table.metadata.paths import partition_texts
from paimon_table.metadata.schema_files import read_schema
from paimon_table.metadata.snapshot import UUID_PROPERTY, Snapshot, as_document, from_json
from paimon_table.metadata.table_context import TableContext
from paimon_table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class ServedTable:
    """The server's description of a table."""

    id: str
    """The id of the table; a recreated table has another one."""
    path: str
    schema_id: int
    is_external: bool

    @staticmethod
    def of(answer: Answer, name: TableName) -> ServedTable | None:
        """The description in a response; None if the server has no such table."""
        if not answer.is_found:
            return None
        body = answer.body
        try:
            schema_id, is_external = int(body["schemaId"]), bool(body.get("isExternal"))
            return ServedTable(str(body["id"]), str(body["path"]), schema_id, is_external)
        except (KeyError, ValueError, TypeError) as error:
            raise SinkUnavailable(
                f"the catalog server's response for table {name} lacks its id, path or schemaId ({error!r}); check "
                "catalog.uri and the version of the server"
            ) from error


def table_path(name: TableName) -> tuple[str, ...]:
    return "databases", name.database, "tables", name.table


@dataclass(frozen=True, slots=True)
class ServerSnapshots:
    """``NewestSnapshot`` that asks the server. It stays on the driver: tasks read files and have no token."""

    client: RestClient
    name: TableName

    def load(self) -> Snapshot | None:
        answer = self.client.get(*table_path(self.name), "snapshot")
        if answer.lacks("SNAPSHOT"):
            return None
        if not answer.is_found:
            raise ConfigError(
                f"table {self.name} is no longer in the catalog ({self.client.place}), so it was dropped: restart the "
                "pipeline"
            )
        newest = answer.body.get("snapshot")
        found = newest.get("snapshot") if isinstance(newest, Mapping) else None
        if not isinstance(found, Mapping):
            raise SinkUnavailable(
                f"the catalog server's response for the newest snapshot of {self.name} lacks the snapshot; check "
                "catalog.uri and the version of the server"
            )
        return from_json(json.dumps(found), f"the newest snapshot of {self.name} from the catalog server")

    def __reduce__(self) -> tuple[Any, ...]:
        return _none, ()


def _none() -> None:
    """Replaces the server in a task."""


@dataclass(frozen=True, slots=True)
class RestPublisher:
    """``Publisher`` through the server, for the table with one id."""

    client: RestClient
    name: TableName
    table_id: str
    context: TableContext = field(compare=False)
    """The context of its files, of the newest or an older schema."""

    def publish_schema(self, schema: TableSchema) -> bool:
        """Request the changes since the previous version; the server assigns ids and writes the file."""
        served = ServedTable.of(self.client.get(*table_path(self.name)), self.name)
        self._check_same(served)
        if served is None or served.schema_id != schema.id - 1:
            return False
        before = read_schema(self.context.io, self.context.paths, schema.id - 1)
        answer = self.client.post({"changes": schema_changes(before, schema)}, *table_path(self.name))
        if answer.status == 404 and answer.body.get("resourceType") != "COLUMN":
            self._check_same(None)
        if not answer.is_found:
            return False  # others changed the same columns: the caller plans again
        if not self.context.io.exists(self.context.paths.schema_file(schema.id)):
            raise SinkUnavailable(
                f"{self.context.paths.schema_file(schema.id)} is missing although the catalog server changed table "
                f"{self.name}; check that the server and this machine reach the same storage"
            )
        return True

    def publish_snapshot(
        self, snapshot: Snapshot, base: Snapshot | None = None, entries: Sequence[ManifestEntry] = ()
    ) -> bool:
        """Commit on top of ``base``; if the response is lost or negative, find the outcome of the commit."""
        request: dict[str, Any] = {
            "tableId": self.table_id,
            "baseSnapshotUuid": None if base is None else base.uuid,
            "snapshot": _document(snapshot),
            "statistics": [s.as_json() for s in partition_statistics(self.context, entries)],
        }
        if self._commit(request, snapshot):
            return True
        if base is None or not base.is_same(self.context.snapshots.latest()):
            return False
        # No other commit was faster. The server compares uuids, but it stored the base under version 1.4, which drops
        # the uuid.
        return self._commit({**request, "baseSnapshotUuid": None}, snapshot)

    def _commit(self, request: Mapping[str, Any], snapshot: Snapshot) -> bool:
        unclear: Unanswered | None = None
        try:
            answer = self.client.post(request, *table_path(self.name), "commit")
        except Unanswered as error:
            unclear = error
        else:
            if answer.status == 404:
                self._check_same(None)
            if answer.body.get("success") is True:
                return True
        return self._is_there(snapshot, unclear)

    def _is_there(self, snapshot: Snapshot, unclear: Unanswered | None) -> bool:
        """Whether a snapshot that the server did not confirm is in the table."""
        store = self.context.snapshots
        newest = store.latest()
        present = newest
        if newest is not None and newest.id > snapshot.id:
            present = store.find(snapshot.id)
        if present is not None and present.id == snapshot.id:
            return present.uuid is not None and present.uuid == snapshot.uuid
        if newest is not None and newest.id > snapshot.id:
            raise CommitOutcomeUnknown(
                f"cannot tell whether snapshot {snapshot.id} of table {self.name} was published, because it has "
                "expired; repeat the commit, which looks before it publishes"
            ) from unclear
        if unclear is not None:
            # The server may still do it, so its files stay. It can only succeed on its own base: a repeated commit
            # finds it, or makes it fail.
            raise unclear
        return False  # refused: the base is not what the server has

    def _check_same(self, served: ServedTable | None) -> None:
        if served is None or served.id != self.table_id:
            raise ConfigError(
                f"table {self.name} was dropped, or dropped and recreated, while the pipeline wrote it: restart the "
                "pipeline"
            )


def _document(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot with its uuid twice: servers of Paimon 1.4 keep only the one in the properties."""
    document = as_document(snapshot)
    return {**document, "properties": {**snapshot.properties, UUID_PROPERTY: snapshot.uuid}}


@dataclass(slots=True)
class PartitionStatistics:
    """The changes of one snapshot to a partition; counts of removals are negative."""

    spec: Mapping[str, str]
    """The partition's values as text, by column; empty for a table without partitions."""
    total_buckets: int
    record_count: int = 0
    size_bytes: int = 0
    file_count: int = 0
    newest_file_ms: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "spec": dict(self.spec),
            "recordCount": self.record_count,
            "fileSizeInBytes": self.size_bytes,
            "fileCount": self.file_count,
            "lastFileCreationTime": self.newest_file_ms,
            "totalBuckets": self.total_buckets,
        }


def partition_statistics(ctx: TableContext, entries: Iterable[ManifestEntry]) -> list[PartitionStatistics]:
    """The statistics of each partition of the entries, in the order of their first entry."""
    found: dict[bytes, PartitionStatistics] = {}
    for entry in entries:
        partition, file = entry.bucket.partition, entry.file
        if partition not in found:
            values, fields = ctx.partition_values(partition), ctx.schema.partition_fields
            found[partition] = PartitionStatistics(partition_texts(values, fields, ctx.options), entry.total_buckets)
        sum_, sign = found[partition], 1 if entry.kind == ADD else -1
        sum_.record_count += sign * file.row_count
        sum_.size_bytes += sign * file.file_size_bytes
        sum_.file_count += sign
        sum_.newest_file_ms = max(sum_.newest_file_ms, _instant_ms(file.creation_time_ms or 0))
        sum_.total_buckets = entry.total_buckets
    return list(found.values())


def _instant_ms(wall_clock_ms: int) -> int:
    """The instant of a local time of this machine; files state it without a zone."""
    wall_clock = datetime.fromtimestamp(wall_clock_ms / 1000, UTC).replace(tzinfo=None)
    return int(wall_clock.timestamp() * 1000)
