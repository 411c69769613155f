"""The files of a lane's key index on a machine, next to the runs of the index. Processes share them.

They are replaced as a whole. So if two tasks run at the same time, a valid index remains, although it may be older.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import uuid
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.key_index.index_runs import KEYS, Run, Slots
from paimon_table.key_index.key_index import KeyIndex
from paimon_table.key_index.stored_keys import LaneNumber
from paimon_table.lookup.lookup_file import boot_id
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.snapshot import SnapshotIdentity
from paimon_table.storage.outages import local_failure
from paimon_table.storage.private_directory import ensure_private, make_file

_MOST_PENDING = 16
"""The number of assignments that are kept until one is known to be committed: one for each attempt of a batch."""

_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Pending:
    """The changes of a batch that may be committed. Its entries become valid when the table has its files."""

    file_names: frozenset[str]
    """All data files that the lane added."""
    keys: pa.Table
    """Sorted by key, each once."""
    slots: Slots
    buckets: tuple[BucketId, ...]
    """The bucket of each slot."""


_LAYOUT = repr(
    [(made, [(f.name, f.type) for f in fields(made)]) for made in (Pending, KeyIndex, SnapshotIdentity, Run, BucketId)]
).encode()
"""A fingerprint of the classes of saved values."""


class IndexFiles:
    """The saved index of one lane of one table, and its pending changes."""

    def __init__(self, lookup_dir: str, table: str, lane: LaneNumber, key_schema: pa.Schema) -> None:
        """``table`` distinguishes it from other tables and branches. Keys of other types have other files."""
        kind = hashlib.sha1(f"{lane.lanes} {lane.number} {key_schema}".encode()).hexdigest()[:16]
        self._runs = f"{hashlib.sha1(table.encode()).hexdigest()[:16]}/keys-{kind}"
        self._path = Path(lookup_dir) / f"{self._runs}.index"

    def new_run_name(self) -> str:
        return f"{self._runs}-{uuid.uuid4()}"

    def load(self) -> KeyIndex | None:
        """The index that was saved last; None without a readable one."""
        found = _read(self._path)
        return found if isinstance(found, KeyIndex) else None

    def save(self, index: KeyIndex) -> None:
        """Replace the saved index; raises SinkUnavailable if it cannot be written."""
        self._write(self._path, index)

    def pending(self) -> list[Pending]:
        """The changes that may have been committed since the index was saved."""
        found = [_read(path) for path in self._pending_paths()]
        return [one for one in found if isinstance(one, Pending)]

    def add_pending(self, pending: Pending) -> None:
        """Record the changes that may be committed next; if there are too many, drops the oldest. Raises
        SinkUnavailable if it cannot be written."""
        oldest_first = self._pending_paths()
        for path in oldest_first[: max(0, len(oldest_first) - _MOST_PENDING + 1)]:
            path.unlink(missing_ok=True)
        self._write(self._path.with_name(f"{self._path.name}.pending-{uuid.uuid4()}"), pending)

    def forget_pending(self) -> None:
        """Remove all pending assignments; the saved index has the committed ones."""
        for path in self._pending_paths():
            path.unlink(missing_ok=True)

    def _pending_paths(self) -> list[Path]:
        found = []
        for path in self._path.parent.glob(f"{self._path.name}.pending-*"):
            with suppress(FileNotFoundError):
                found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found)]

    def _write(self, path: Path, value: Any) -> None:
        temporary = path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
        try:
            ensure_private(str(path.parent))
            make_file(str(temporary))
            payload = pickle.dumps((boot_id(), value))
            temporary.write_bytes(_digest(payload) + payload)
            os.replace(temporary, path)
        except OSError as error:
            raise local_failure(KEYS.words, path.parent, KEYS.needs, error) from error


def _read(path: Path) -> Any:
    """The value at the path, if this version wrote it since the machine started; None for anything else."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if digest != _digest(payload):
        return None
    boot, value = pickle.loads(payload)
    return value if boot == boot_id() else None


def _digest(payload: bytes) -> bytes:
    """A checksum that also depends on the fields of the classes, so that values of other versions are not read."""
    return hashlib.sha256(_LAYOUT + payload).digest()
