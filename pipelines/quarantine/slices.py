"""A slice of a retry: records that leave the quarantine together, durable until they are where they belong.

    QUARANTINE/retry-ID/slice-N/records.jsonl   the lines, mended where they were
    QUARANTINE/retry-ID/slice-N/slice.json      written last: from now on the slice is to be done
    QUARANTINE/retry-ID/slice-N/stored.json     places of records that have come into their tables by another way
    QUARANTINE/retry-ID/batch-N/...             its records that fail again, as the batch code leaves them

The slice is applied by the commit user of its retry under its number, so that applying it again finds what is in the
tables. Then its lines go from the files where they were, which may be done twice as well, then ``slice.json`` goes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from paimon_table.errors import CorruptFile
from paimon_table.storage.file_io import FileIO
from pipelines.bad_records.bad_lines import (
    PLAN,
    RECORDS,
    SLICE,
    BadFile,
    BadLine,
    DamagedLine,
    RecordPlace,
    begun_slices,
    read_line,
)
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.checkpoint.document import check_format, known_fields
from pipelines.quarantine.kept_lines import take_out
from sources.dumps.dump_lines import MALFORMED_PREFIX, NoRecord, line_inside
from sources.dumps.dump_records import records_of_text, refused_line

_STORED = "stored.json"

_POSITIONS = 1 << 62
"""Beyond it is no place in a file; lines behind one that holds several have places too."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Which slice it is, and what becomes of it."""

    retry: str
    """Name of the retry: that of its directory."""
    number: int
    even_if_older: bool
    started_ms: int
    """Its commits cannot be older."""
    record_count: int
    taken: Mapping[str, Sequence[str]]
    """Per file below the quarantine the digests of the lines that the slice took."""
    after: Mapping[str, int] = field(default_factory=dict)
    """By table the newest snapshot when the slice was made: its commits come behind that."""
    is_edited: bool = False
    """Whether its records are as somebody has edited them, and not as their topics have them."""

    @property
    def name(self) -> str:
        return f"{self.retry}/{SLICE}{self.number:012d}"


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


class Slices:
    """The slices in the quarantine at ``path``."""

    def __init__(self, io: FileIO, path: str) -> None:
        self._io = io
        self._path = path

    def write(self, slice_: Slice, lines: Iterable[bytes]) -> None:
        """Make the slice durable with the lines of its records."""
        self._io.write(self._file(slice_.name, RECORDS), b"".join(line + b"\n" for line in lines))
        self._io.write(self._file(slice_.name, PLAN), json.dumps(asdict(slice_)).encode())

    def unfinished(self) -> list[Slice]:
        """The slices of retries that have ended before they were done."""
        return [self.read(name) for name in begun_slices(self._io, self._path)]

    def read(self, name: str) -> Slice:
        """A slice by its name. FileNotFoundError when it is done."""
        file = self._file(name, PLAN)
        data = self._io.read(file)
        try:
            check_format(data, file)
            return Slice(**known_fields(Slice, json.loads(data)))
        except NOT_AS_WRITTEN as error:
            raise CorruptFile(
                f"{file} is not what was written ({error}); its records are still in the quarantine: remove the file"
            ) from error

    def records(self, slice_: Slice) -> pa.RecordBatch:
        """The records in the order in which a decoder wants them."""
        lines = self._io.read(self._file(slice_.name, RECORDS)).split(b"\n")[:-1]
        if len(lines) != slice_.record_count:
            raise CorruptFile(
                f"{self._path}/{slice_.name}/{RECORDS} has {len(lines):,} records, not the {slice_.record_count:,}"
                f" that were written; they are still in the quarantine: remove {slice_.name} below it"
            )
        stored = self._stored(slice_)
        lines = [line for line in lines if not stored or _place(line) not in stored]
        malformed = [line for line in lines if MALFORMED_PREFIX.encode() in line and _is_malformed(line)]
        plain = lines if not malformed else [line for line in lines if not _is_malformed(line)]
        parts = [records_of_text(b"\n".join(plain), f"{slice_.name}/{RECORDS}", 0), *map(_reread, malformed)]
        order = [(name, "ascending") for name in ("topic", "partition", "offset")]
        records = pa.Table.from_batches(parts).sort_by(order)
        batches: list[pa.RecordBatch] = records.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=records.schema)

    def lines(self, slice_: Slice) -> list[BadLine]:
        """The records that it has still to apply."""
        text, stored = self._io.read(self._file(slice_.name, RECORDS)), self._stored(slice_)
        file = BadFile(self._file(slice_.name, RECORDS), slice_.retry, slice_.number, False)
        found = (read_line(file, number, line) for number, line in enumerate(text.split(b"\n")[:-1], 1))
        return [line for line in found if isinstance(line, BadLine) and line.record not in stored]

    def leave_out(self, slice_: Slice, places: Collection[RecordPlace]) -> None:
        """Do not apply the records in these places, which are in their tables."""
        if places:
            text = json.dumps(sorted({*places} | self._stored(slice_)))
            self._io.write(self._file(slice_.name, _STORED), text.encode())

    def _stored(self, slice_: Slice) -> set[RecordPlace]:
        try:
            places = json.loads(self._io.read(self._file(slice_.name, _STORED)))
            return {(topic, partition, offset) for topic, partition, offset in places}
        except FileNotFoundError:
            return set()
        except NOT_AS_WRITTEN as error:
            raise CorruptFile(
                f"{self._path}/{slice_.name}/{_STORED} is not what was written ({error}); it says which records of the"
                f" slice are in their tables: if none are, remove the file; if all are, remove {slice_.name}"
            ) from error

    def take_out(self, slice_: Slice) -> None:
        """Remove the lines of the slice from the files where they were."""
        for place, digests in slice_.taken.items():
            wanted = frozenset(digests)

            def is_taken(line: BadLine | DamagedLine, wanted: frozenset[str] = wanted) -> bool:
                return digest(line.text) in wanted

            take_out(self._io, BadFile(f"{self._path}/{place}", "", 0, True), is_taken)

    def forget(self, slice_: Slice) -> None:
        """The slice is done, or nothing of it was."""
        self._io.delete(self._file(slice_.name, PLAN))
        self._io.delete_tree(f"{self._path}/{slice_.name}")

    def _file(self, name: str, file: str) -> str:
        return f"{self._path}/{name}/{file}"


def _place(line: bytes) -> RecordPlace:
    fields = json.loads(line)
    return (fields["topic"], fields["partition"], fields["offset"])


def _is_malformed(line: bytes) -> bool:
    return str(json.loads(line)["topic"]).startswith(MALFORMED_PREFIX)


def _reread(line: bytes) -> pa.RecordBatch:
    """What was a line of a dump and no record, read again in the place that it had; a line that holds none stays."""
    fields = json.loads(line)
    file, position = fields["topic"].removeprefix(MALFORMED_PREFIX), fields["offset"]
    if not 0 <= position < _POSITIONS:
        position = 0
    try:
        text = line_inside(line)
    except NoRecord as error:
        return refused_line(line, file, position, error)
    return records_of_text(text, file, position)
