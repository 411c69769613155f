"""Many index files of one lane merged into one local file: sorted hashes, and the bucket of each.

A search in it takes as long as one in a single index file, and the processes of a machine share its pages. It names its
source files and contains nothing else, so it may be removed at any moment. Layout: eight bytes with the length of the
JSON header, the header, 32-bit hashes and 16-bit buckets in the byte order of the machine. Two checksums follow: of all
bytes before the buckets, and of the buckets.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from paimon_table.bucket_assignment.key_places import place_of
from paimon_table.bucket_assignment.owned_buckets import Buckets
from paimon_table.metadata.hash_index import KeyHashes
from paimon_table.rows.sorted_values import SortedValues
from paimon_table.storage.outages import local_failure
from paimon_table.storage.private_directory import ensure_private

RANGE_ROWS = 1 << 20
"""The number of hashes that are merged at a time."""

MAX_BYTES = 4 << 30
"""The largest size of all merged files of a directory; the least recently used are removed first."""

MOST_MAPPED = 1024
"""The number of merged files that a process keeps mapped: the most recently used."""

_PREFIX = "merged-"
_CHECKSUM_BYTES = 4


class MergedHashes:
    """One merged file, mapped into memory. Immutable."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or ValueError if the file is missing or incomplete."""
        self.path = path
        with path.open("rb") as stream:
            prefix = stream.read(8)
            length = int.from_bytes(prefix, "little")
            if length > path.stat().st_size:
                raise ValueError(f"{path} is damaged: its content is not what was written")
            text = stream.read(length)
            header = json.loads(text)
            stream.seek(-2 * _CHECKSUM_BYTES, os.SEEK_END)
            checksums = stream.read()
        self.files: Mapping[int, str] = {int(bucket): name for bucket, name in header["files"].items()}
        """The index file of each bucket."""
        self.row_count = int(header["rows"])
        start, rows = 8 + length, self.row_count
        if path.stat().st_size != start + 6 * rows + len(checksums):
            raise ValueError(f"{path} is cut short")
        shape = (rows,)
        self.hashes: KeyHashes = np.asarray(np.memmap(path, np.int32, "r", start, shape))
        self.buckets: Buckets = np.asarray(np.memmap(path, np.int16, "r", start + 4 * rows, shape))
        if checksums != _checksums(
            zlib.crc32(self.hashes.data, zlib.crc32(prefix + text)), zlib.crc32(self.buckets.data)
        ):
            raise ValueError(f"{path} is damaged: its content is not what was written")
        self._sorted = SortedValues(self.hashes)

    def covered(self, files: Mapping[int, str]) -> list[int]:
        """The buckets whose index file in ``files`` is part of this one."""
        return [bucket for bucket, name in self.files.items() if files.get(bucket) == name]

    def find(self, hashes: KeyHashes) -> Buckets:
        """The bucket of each of the sorted ``hashes``."""
        return place_of(hashes, self._sorted, self.buckets)


class _Mapped:
    """The merged files that a process has mapped. Mapping one again costs a page fault for each page read."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, MergedHashes] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path) -> MergedHashes:
        """Raises OSError or ValueError if the file is missing or incomplete."""
        with self._lock:
            file = self._files.pop(path, None)
        return self.keep(file or MergedHashes(path))

    def keep(self, file: MergedHashes) -> MergedHashes:
        with self._lock:
            self._files[file.path] = file
            while len(self._files) > MOST_MAPPED:
                self._files.popitem(last=False)
        return file

    def let_go(self, directory: Path, present: Collection[Path]) -> None:
        """Unmap the files of a lane that other files replaced."""
        with self._lock:
            for path in [path for path in self._files if path.parent == directory and path not in present]:
                del self._files[path]


_MAPPED = _Mapped()


def newest_merged(directory: Path, wanted: Mapping[int, str]) -> MergedHashes | None:
    """The merged file of a lane with most of the ``wanted`` index files; None if no file has any."""
    best, most = None, 0
    present = list(directory.glob(f"{_PREFIX}*"))
    _MAPPED.let_go(directory, present)
    for path in present:
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
            merged = _MAPPED.open(path)
            count = len(merged.covered(wanted))
            if count > most:
                best, most = merged, count
    if best is not None:
        with suppress(OSError):
            os.utime(best.path)
    return best


def merge(
    directory: Path, old: MergedHashes | None, kept: Sequence[int], added: Mapping[int, tuple[str, KeyHashes]]
) -> MergedHashes:
    """Write a merged file of a lane: the ``kept`` buckets of the ``old`` one and the index files ``added``, by name.

    Removes the lane's other merged files, whose content this one has. Raises SinkUnavailable if it cannot be written.
    """
    files = {bucket: old.files[bucket] for bucket in kept} if old is not None else {}
    files |= {bucket: name for bucket, (name, _) in added.items()}
    path = directory / f"{_PREFIX}{uuid.uuid4()}"
    temporary = directory / f"{path.name[len(_PREFIX) :]}.tmp"
    try:
        ensure_private(str(directory))
        rows = _row_count(old, kept) + sum(len(hashes) for _, hashes in added.values())
        header = json.dumps({"files": files, "rows": rows}).encode()
        header += b" " * (-(8 + len(header)) % 8)
        with temporary.open("wb") as low, temporary.open("r+b") as high:
            before = len(header).to_bytes(8, "little") + header
            low.write(before)
            high.seek(len(before) + 4 * rows)
            sums = zlib.crc32(before), 0
            for hashes, buckets in _merged_ranges(old, kept, added, rows):
                low.write(hashes.tobytes())
                high.write(buckets.tobytes())
                sums = zlib.crc32(hashes.data, sums[0]), zlib.crc32(buckets.data, sums[1])
            high.write(_checksums(*sums))
        merged = _MAPPED.keep(MergedHashes(temporary.rename(path)))
    except OSError as error:
        temporary.unlink(missing_ok=True)
        needs = "dynamic buckets need a local directory with room for the hashes of their keys"
        raise local_failure("key hashes", directory, needs, error) from error
    for other in directory.glob(f"{_PREFIX}*"):
        if other != path:
            other.unlink(missing_ok=True)
    _MAPPED.let_go(directory, [path])
    _make_room(directory.parent, path)
    return merged


def _checksums(*sums: int) -> bytes:
    return b"".join(number.to_bytes(_CHECKSUM_BYTES, "little") for number in sums)


def _row_count(old: MergedHashes | None, kept: Sequence[int]) -> int:
    if old is None or set(old.files) == set(kept):
        return 0 if old is None else old.row_count
    return sum(
        int(np.isin(old.buckets[start : start + RANGE_ROWS], kept).sum())
        for start in range(0, old.row_count, RANGE_ROWS)
    )


def _merged_ranges(
    old: MergedHashes | None, kept: Sequence[int], added: Mapping[int, tuple[str, KeyHashes]], rows: int
) -> Iterator[tuple[KeyHashes, Buckets]]:
    """The merged hashes range by range, so that only one range is in memory."""
    bounds = np.linspace(-(1 << 31), 1 << 31, rows // RANGE_ROWS + 2).astype(np.int64)
    for low, high in pairwise(bounds):
        packed = [
            _packed(hashes[_within(hashes, low, high)], np.int64(bucket)) for bucket, (_, hashes) in added.items()
        ]
        if old is not None:
            within = _within(old.hashes, low, high)
            hashes, buckets = old.hashes[within], old.buckets[within]
            if set(old.files) != set(kept):
                chosen = np.isin(buckets, kept)
                hashes, buckets = hashes[chosen], buckets[chosen]
            packed.append(_packed(hashes, buckets.astype(np.int64)))
        together = np.concatenate(packed)
        together.sort()
        yield (together >> 16).astype(np.int32), (together & 0xFFFF).astype(np.int16)


def _within(hashes: KeyHashes, low: np.int64, high: np.int64) -> slice:
    """Where the sorted hashes from ``low`` to before ``high`` are."""
    start = int(np.searchsorted(hashes, np.int32(low)))
    return slice(start, len(hashes) if high > 0x7FFF_FFFF else int(np.searchsorted(hashes, np.int32(high))))


def _packed(hashes: KeyHashes, buckets: npt.NDArray[np.int64] | np.int64) -> npt.NDArray[np.int64]:
    """Hash and bucket as one number: sorting these numbers is faster than sorting by one array."""
    return (hashes.astype(np.int64) << 16) | buckets


def _make_room(root: Path, built: Path) -> None:
    entries = []
    for path in root.glob(f"*/{_PREFIX}*"):
        with suppress(OSError):
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    used = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries, key=lambda entry: entry[0]):
        if used <= MAX_BYTES:
            break
        if path != built:
            path.unlink(missing_ok=True)
            used -= size
