"""Tables of a warehouse that another program writes, as far as their snapshots show it; for the cost of a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table import Catalog, CommitKind, Snapshot, TableName, create_schema
from paimon_table.types import parse_type

LONG_AGO_MS = 1_700_000_000_000


def make_table(catalog: Catalog, name: TableName, user: str, snapshot_count: int) -> None:
    """A table of keys with that many snapshots of ``user``, without data."""
    columns = [("id", parse_type("BIGINT")), ("name", parse_type("STRING"))]
    catalog.create(name, create_schema(columns, ["id"], [], {"bucket": "1"}, time_ms=LONG_AGO_MS))
    add_snapshots(catalog, name, user, snapshot_count)


def add_snapshots(
    catalog: Catalog, name: TableName, user: str, count: int, properties: Mapping[str, str] | None = None
) -> None:
    """Publish snapshots of ``user`` on top of those that are there, which change nothing."""
    newest = catalog.files(name).snapshots.latest()
    publisher = catalog.publisher(name)
    for snapshot in _snapshots(0 if newest is None else newest.id, user, count, properties or {}):
        assert publisher.publish_snapshot(snapshot)


def _snapshots(after_id: int, user: str, count: int, properties: Mapping[str, str]) -> Iterator[Snapshot]:
    for snapshot_id in range(after_id + 1, after_id + count + 1):
        yield Snapshot(
            id=snapshot_id,
            uuid=f"{user}-{snapshot_id}",
            schema_id=0,
            base_manifest_list="base",
            delta_manifest_list="delta",
            commit_user=user,
            commit_identifier=snapshot_id,
            commit_kind=CommitKind.APPEND,
            time_ms=LONG_AGO_MS + 60_000 * snapshot_id,
            total_record_count=0,
            delta_record_count=0,
            properties=properties,
        )
