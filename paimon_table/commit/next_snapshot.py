"""The snapshot that follows another one.

Implements what Paimon copies from snapshot to snapshot and what it recomputes. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from paimon_table.commit.delta import Commit, Delta
from paimon_table.metadata.manifest import ManifestFileMeta
from paimon_table.metadata.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ManifestLists:
    """The lists (name, size in bytes) of a delta's changes, the same in every attempt to publish it."""

    of: Delta
    delta_manifests: tuple[ManifestFileMeta, ...]
    delta: tuple[str, int]
    changelog: tuple[str, int] | None


def next_snapshot(
    previous: Snapshot | None,
    request: Commit,
    lists: ManifestLists,
    base: tuple[str, int],
    index_manifest: str | None,
    *,
    schema_id: int,
    commit_user: str,
    uuid: str,
    now_ms: int,
) -> Snapshot:
    """The snapshot of one part of ``request`` after ``previous``; ``base`` is the list of all earlier manifests."""
    delta = lists.of
    watermarks = [w for w in (request.watermark, previous.watermark if previous else None) if w is not None]
    return Snapshot(
        id=(previous.id if previous else 0) + 1,
        uuid=uuid,
        schema_id=schema_id,
        base_manifest_list=base[0],
        base_manifest_list_size=base[1],
        delta_manifest_list=lists.delta[0],
        delta_manifest_list_size=lists.delta[1],
        changelog_manifest_list=lists.changelog[0] if lists.changelog else None,
        changelog_manifest_list_size=lists.changelog[1] if lists.changelog else None,
        index_manifest=index_manifest,
        commit_user=commit_user,
        writer_version=WRITER_VERSION,
        commit_identifier=request.identifier,
        commit_kind=delta.kind,
        # Not before the previous one, so that time travel can use a binary search.
        time_ms=max(now_ms, previous.time_ms if previous else 0),
        total_record_count=(previous.total_record_count if previous else 0) + delta.record_count,
        delta_record_count=delta.record_count,
        changelog_record_count=delta.changelog_record_count if lists.changelog else None,
        watermark=max(watermarks, default=None),
        statistics=request.statistics or _inherited_statistics(previous, schema_id),
        properties=dict(request.properties),
        next_row_id=(previous.next_row_id or 0) if previous else 0,
    )


def _inherited_statistics(previous: Snapshot | None, schema_id: int) -> str | None:
    """The statistics of the previous snapshot, if they are of the same schema version."""
    return previous.statistics if previous is not None and previous.schema_id == schema_id else None


def _writer_version() -> str:
    try:
        return f"tidemark-{version('tidemark')}"
    except PackageNotFoundError:
        return "tidemark"


WRITER_VERSION = _writer_version()
"""What snapshots name as their writer; informational."""
