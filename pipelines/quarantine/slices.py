"""A slice of a retry: open records that are read again together, frozen in a file until they are where they belong.

    QUARANTINE/retry-ID/slice-N/records.jsonl the lines, with fixes QUARANTINE/retry-ID/slice-N/slice.json written last:
    from now on the slice is to be done QUARANTINE/retry-ID/batch-N/... its records that fail again, as every step
    leaves them

The slice is committed by the commit user of its retry under its number, so that it finds its commit when it is applied
again. The log of facts notes the outcome of its records; then the retry removes ``slice.json``. Edited lines are facts
themselves: the file stays for as long as the log names it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from paimon_table.errors import CorruptFile, SinkUnavailable
from paimon_table.storage.file_io import FileIO, LocalFileIO
from pipelines.bad_records.dead_letters import BadLine, DeadLetters, read_line
from pipelines.bad_records.log import RETRY, Document, Place, QuarantineLog, Sealed, Stretches, places_in
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.checkpoint.document import check_format
from sources.dumps.dump_lines import MALFORMED_PREFIX, NoRecord, line_inside
from sources.dumps.dump_records import records_of_text, refused_line
from sources.wording import counted

_PLAN, _RECORDS, _LOCK = "slice.json", "records.jsonl", "retry.lock"

_POSITIONS = 1 << 62
"""Beyond all positions in a file: the further records of a line with several get places from here on."""


class Slice(Document):
    """The records of a slice, and how the retry applies these records."""

    retry: str
    """Name of the retry: the name of its directory."""
    number: int
    even_if_older: bool
    started_ms: int
    """No commit of the slice can be older."""
    places: Stretches
    """The records; each topic has records of one topic id only."""
    after: Mapping[str, int] = {}
    """By table its newest snapshot when the slice was made: the slice's commits come after it."""
    later: tuple[str, ...] = ()
    """The tables that begin after its records and continue the tables of these."""
    is_edited: bool = False
    """Whether its records were edited by a user, and differ from those in their topics."""

    @property
    def name(self) -> str:
        return f"{self.retry}/slice-{self.number:012d}"

    @property
    def step(self) -> str:
        """The step in which it is applied, by the name of its directory."""
        return f"{self.retry}/batch-{self.number:012d}"

    @property
    def topic_ids(self) -> dict[str, str]:
        return {stretch.topic: stretch.topic_id for stretch in self.places}

    @property
    def records(self) -> list[Place]:
        return [*places_in(self.places)]


class Slices:
    """The slices in the quarantine at ``path``."""

    def __init__(self, io: FileIO, path: str) -> None:
        self._io = io
        self._path = path

    def write(self, slice_: Slice, lines: Sequence[bytes], log: QuarantineLog) -> None:
        """Make the slice durable with the lines of its records."""
        self._io.write(self._file(slice_.name, _RECORDS), b"".join(line + b"\n" for line in lines))
        if slice_.is_edited:
            log.append(Sealed(step=slice_.name, bad={_RECORDS: slice_.places}))
        self._io.write(self._file(slice_.name, _PLAN), slice_.model_dump_json().encode())

    def unfinished(self) -> list[Slice]:
        """The slices of retries that ended early."""
        owners = [name for name in self._io.list_names(self._path) if name.startswith(RETRY)]
        names = [f"{owner}/{name}" for owner in owners for name in self._inside(owner) if name.startswith("slice-")]
        return [self.read(name) for name in names if self._io.exists(self._file(name, _PLAN))]

    def read(self, name: str) -> Slice:
        """A slice by its name. Raises FileNotFoundError if it is done."""
        file = self._file(name, _PLAN)
        data = self._io.read(file)
        try:
            check_format(data, file)
            return Slice.model_validate_json(data)
        except NOT_AS_WRITTEN as error:
            raise CorruptFile(
                f"{file} does not have the content that Tidemark wrote ({error}); its records are still in the "
                "quarantine: "
                f"remove the file"
            ) from error

    def records(self, slice_: Slice, but: Collection[Place]) -> pa.RecordBatch:
        """The records of a slice without the records at ``but``, in the order that a decoder expects."""
        lines = [line for line in self.lines(slice_) if line.record not in but]
        malformed = [line for line in lines if line.topic.startswith(MALFORMED_PREFIX)]
        plain = [line.text for line in lines if not line.topic.startswith(MALFORMED_PREFIX)]
        text = records_of_text(b"\n".join(plain), f"{slice_.name}/{_RECORDS}", 0)
        records = pa.Table.from_batches([text, *map(_reread, malformed)])
        records = records.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
        batches: list[pa.RecordBatch] = records.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=records.schema)

    def lines(self, slice_: Slice) -> list[BadLine]:
        """All its records."""
        texts = self._io.read(self._file(slice_.name, _RECORDS)).split(b"\n")[:-1]
        ids = slice_.topic_ids
        found = [read_line(f"{slice_.name}/{_RECORDS}", number, text) for number, text in enumerate(texts, 1)]
        lines = [line for line in found if isinstance(line, BadLine)]
        if len(lines) != len(slice_.records):
            raise CorruptFile(
                f"{self._path}/{slice_.name}/{_RECORDS} has {counted(len(lines), 'record')}, not the"
                f" {len(slice_.records):,} that were written; they are still in the quarantine: remove"
                f" {slice_.name} below it"
            )
        return [line.of_topic(ids.get(line.topic, "")) for line in lines]

    def forget(self, slice_: Slice) -> None:
        """Remove a slice of which all records are applied, or none."""
        self._io.delete(self._file(slice_.name, _PLAN))
        if not slice_.is_edited:
            self._io.delete_tree(f"{self._path}/{slice_.name}")

    def _inside(self, owner: str) -> list[str]:
        try:
            return self._io.list_names(f"{self._path}/{owner}")
        except NotADirectoryError:
            return []

    def _file(self, name: str, file: str) -> str:
        return f"{self._path}/{name}/{file}"


def _reread(line: BadLine) -> pa.RecordBatch:
    """A dump line that was not a record, read again at the same place; unchanged if it is still not a record."""
    file = line.topic.removeprefix(MALFORMED_PREFIX)
    position = line.offset if 0 <= line.offset < _POSITIONS else 0
    try:
        text = line_inside(line.text)
    except NoRecord as error:
        return refused_line(line.text, file, position, error)
    return records_of_text(text, file, position)


@contextmanager
def alone(records: DeadLetters) -> Iterator[None]:
    """Lock the quarantine. Raises SinkUnavailable while another retry or drop has it.

    Object storage has no lock.
    """
    if not isinstance(records.io, LocalFileIO):
        yield
        return
    records.io.mkdirs(records.path)
    descriptor = os.open(f"{records.path}/{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SinkUnavailable(f"another retry or drop is using {records.location}: wait until it ends") from error
        yield
    finally:
        os.close(descriptor)
