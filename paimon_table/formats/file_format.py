"""The contract of a format of data files: write and read Arrow tables of known columns.

One module per format implements this; ``registry`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.formats.known_formats import KnownFormat
from paimon_table.options.table_options import TableOptions
from paimon_table.schema.table_schema import TableSchema
from paimon_table.types import DataField, DataType


class DamagedFile(Exception):
    """The bytes are not a whole file of the format."""


class MissingColumn(DamagedFile):
    """A file lacks a column of its schema: either of the two files may be damaged."""


class UnreadableValue(Exception):
    """A value in a file that Arrow's type of its column cannot represent; the text names both."""


DAMAGES = (
    DamagedFile,
    pa.ArrowException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    SystemError,
    EOFError,
    MemoryError,  # a size far beyond the end of the file
)
"""The errors of libraries for damaged bytes."""

_AWS_ERROR = "AWS Error"
"""Part of Arrow's messages about failed requests to S3."""


def is_storage_failure(error: OSError) -> bool:
    """Whether the storage failed; Arrow raises OSError for damaged files too, which say less."""
    return type(error) is not OSError or error.errno is not None or _AWS_ERROR in str(error)


class FormatWriter(Protocol):
    """An open file; all rows have the columns of the first rows."""

    def accepts(self, rows: pa.Table) -> bool:
        """Whether these rows can be in the same file; otherwise they begin another one."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Write one row group, stripe or some blocks; afterwards the stream's position is the size."""
        ...

    def close(self) -> None:
        """Write the rest of the file; the stream stays open."""
        ...


@dataclass(frozen=True, slots=True)
class Restriction:
    """A predicate over the columns of ``schema`` with which a reader may skip parts of a file."""

    predicate: pc.Expression
    schema: pa.Schema


class FormatReader(Protocol):
    """An open file, which returns the requested columns as far as it has them.

    Arrow types may differ if they represent the same values. DamagedFile and errors of pyarrow mean that the file is
    damaged. UnreadableValue means that rows in memory cannot represent a value of the file.
    """

    @property
    def row_count(self) -> int | None:
        """The number of rows by the file's own statistics; None if it has none."""
        ...

    def read(self) -> pa.Table:
        """All rows."""
        ...

    def batches(self, batch_rows: int, restriction: Restriction | None) -> Iterator[tuple[int, pa.Table]]:
        """The rows in file order, at most ``batch_rows`` at a time, each time with the position of the first row."""
        ...


@dataclass(frozen=True, slots=True)
class FileFormat:
    """One format: its properties, and how its files are written and read."""

    known: KnownFormat
    altered: Callable[[pa.Array, DataType], pa.Array | None]
    """Which values of an atomic type come back altered from a file, so that they differ from the rows in memory."""
    open_writer: Callable[[pa.NativeFile, str, pa.Table, TableSchema, str, TableOptions], FormatWriter]
    """Takes the stream, the file's name, the first rows (with the columns of the file), table schema, compression and
    options."""
    open_reader: Callable[[pa.NativeFile, str, Sequence[DataField]], AbstractContextManager[FormatReader]]
    """Takes the stream, the file's name and the wanted columns of the file's schema version."""

    @property
    def name(self) -> str:
        return self.known.name


def none_altered(values: pa.Array, t: DataType) -> pa.Array | None:
    """``FileFormat.altered`` of a format that alters no value."""
    return None
