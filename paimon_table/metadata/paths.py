"""Names and places of a table's files.

Implements Paimon's directory layout and the text of partition directories. Readers rebuild that text from the
manifest's partition row, so it must match byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import MalformedRecord, UnsupportedFeature
from paimon_table.metadata.bucket_id import POSTPONED
from paimon_table.metadata.data_file import DataFileMeta
from paimon_table.options.table_options import TableOptions
from paimon_table.types import CHARACTERS, TIMESTAMPS, DataField, DataType, Root, timestamp_unit


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths below the directory of one table, given without a trailing slash."""

    root: str

    @property
    def schema_dir(self) -> str:
        return f"{self.root}/schema"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.root}/snapshot"

    @property
    def manifest_dir(self) -> str:
        return f"{self.root}/manifest"

    @property
    def changelog_dir(self) -> str:
        """The directory of long-lived changelogs."""
        return f"{self.root}/changelog"

    @property
    def latest_changelog_hint(self) -> str:
        return f"{self.changelog_dir}/LATEST"

    @property
    def earliest_changelog_hint(self) -> str:
        return f"{self.changelog_dir}/EARLIEST"

    @property
    def tag_dir(self) -> str:
        return f"{self.root}/tag"

    @property
    def consumer_dir(self) -> str:
        return f"{self.root}/consumer"

    @property
    def branch_dir(self) -> str:
        return f"{self.root}/branch"

    @property
    def latest_hint(self) -> str:
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        return f"{self.snapshot_dir}/EARLIEST"

    def schema_file(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot_file(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def changelog_file(self, snapshot_id: int) -> str:
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    def tag_file(self, name: str) -> str:
        return f"{self.tag_dir}/tag-{name}"

    def consumer_file(self, name: str) -> str:
        return f"{self.consumer_dir}/consumer-{name}"

    def branch(self, name: str) -> TablePaths:
        """The paths of a branch's schemas, snapshots, tags and consumers; the files that they name are below the table
        itself."""
        return TablePaths(f"{self.branch_dir}/branch-{name}")

    def statistics_file(self, name: str) -> str:
        return f"{self.root}/statistics/{name}"

    def manifest_file(self, name: str) -> str:
        """A manifest, a manifest list or an index manifest."""
        return f"{self.manifest_dir}/{name}"

    def index_file(self, name: str) -> str:
        """A file of deletion vectors, unless the index manifest gives it an external path."""
        return f"{self.root}/index/{name}"

    def bucket_dir(self, partition_path: str, bucket: int) -> str:
        """The directory of a bucket's data files; ``partition_path`` is the result of ``partition_path()``."""
        below = f"{partition_path}/" if partition_path else ""
        return f"{self.root}/{below}bucket-{'postpone' if bucket == POSTPONED else bucket}"

    @staticmethod
    def data_file(bucket_dir: str, file: DataFileMeta) -> str:
        """Path of a data or changelog file, which may be outside the table directory."""
        return external_file(file.external_path) if file.external_path else f"{bucket_dir}/{file.file_name}"

    @staticmethod
    def extra_files(bucket_dir: str, file: DataFileMeta) -> tuple[str, ...]:
        """The paths of a data file's extra files in its directory, such as its index."""
        directory = external_file(file.external_path).rpartition("/")[0] if file.external_path else bucket_dir
        return tuple(f"{directory}/{name}" for name in file.extra_files)


@dataclass(frozen=True, slots=True)
class BranchPaths(TablePaths):
    """Paths of a branch that is written as a table.

    The branch has its own line of versions; it shares the table's directories for manifests, index and data files.
    """

    name: str

    @property
    def line(self) -> TablePaths:
        """The paths of the branch's schemas, snapshots and tags."""
        return TablePaths(self.root).branch(self.name)

    @property
    def schema_dir(self) -> str:
        return self.line.schema_dir

    @property
    def snapshot_dir(self) -> str:
        return self.line.snapshot_dir

    @property
    def changelog_dir(self) -> str:
        return self.line.changelog_dir

    @property
    def tag_dir(self) -> str:
        return self.line.tag_dir

    @property
    def consumer_dir(self) -> str:
        return self.line.consumer_dir

    @property
    def branch_dir(self) -> str:
        """Branches have no branches, so this directory is always missing."""
        return self.line.branch_dir


def external_file(uri: str) -> str:
    """The path for ``FileIO`` of a file whose manifest has a URI (``data-file.external-paths``).

    Raises UnsupportedFeature for an unsupported storage.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return uri
    match scheme:
        case "file":
            return "/" + rest.lstrip("/")
        case "s3" | "s3a":
            return f"s3:{rest}"
        case _:
            raise UnsupportedFeature(
                f"{uri} is outside of its table (data-file.external-paths), on storage {scheme!r}, which is not "
                "supported; read the table with Paimon's own readers"
            )


# ---------------------------------------------------------------- partition directories

_ESCAPED = frozenset(chr(c) for c in range(0x20)) | frozenset("\x7f\"#%'*/:=?\\{}[]^")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_LONGEST_NAME_BYTES = 255
"""The limit for names of files and directories in POSIX file systems."""


def partition_path(values: Sequence[Any], fields: Sequence[DataField], options: TableOptions) -> str:
    """Relative directory of a partition, ``k=v/k=v``; empty for an unpartitioned table.

    ``values`` are Python values as ``binary_row.deserialize_row`` gives them: dates as date or epoch day, times as time
    or milliseconds, timestamps as datetime or an int in the unit of the Arrow form. Null and blank texts become the
    default partition name.
    """
    texts = partition_texts(values, fields, options)
    return "/".join(_directory_name(name, text) for name, text in texts.items())


def partition_texts(values: Sequence[object], fields: Sequence[DataField], options: TableOptions) -> dict[str, str]:
    """The values of a partition as texts, by column; see ``partition_path``."""
    texts = {}
    for value, field in zip(values, fields, strict=True):
        text = "" if value is None else _value_text(value, field.type, options.legacy_partition_name)
        texts[field.name] = text if text.strip() else options.partition_default_name
    return texts


def check_directory_names(root: str, path: str) -> None:
    """Check that a partition, by its ``partition_path()``, can be a directory below the table ``root``. Raises
    MalformedRecord.
    """
    if not limits_names(root):
        return
    for name in path.split("/"):
        column, _, value = name.partition("=")
        problem = _name_problem(name, unquote(value))
        if problem is not None:
            raise MalformedRecord(f"partition column {unquote(column)!r} of {root}: {problem}")


def limits_names(root: str) -> bool:
    """Whether partitions of a table are directories; object stores have none and accept every name."""
    return "://" not in root


def long_values(column: str, values: pa.Array) -> dict[int, str]:
    """The positions of texts in a partition column that are too long for a file system, and the reason."""
    escaped_at_most = 3 * pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    suspects = np.flatnonzero(escaped_at_most > _LONGEST_NAME_BYTES - len(_directory_name(column, "").encode()))
    texts = ((int(i), values[int(i)].as_py()) for i in suspects)
    problems = ((i, _name_problem(_directory_name(column, text), text)) for i, text in texts if text.strip())
    return {i: problem for i, problem in problems if problem is not None}


def _directory_name(column: str, text: str) -> str:
    return f"{escape_path_name(column)}={escape_path_name(text)}"


def _name_problem(name: str, value: str) -> str | None:
    size_bytes = len(name.encode())
    if size_bytes <= _LONGEST_NAME_BYTES:
        return None
    return (
        f"the value that begins with {value[:20]!r} makes the name of its directory {size_bytes} bytes long, but file "
        f"systems allow at most {_LONGEST_NAME_BYTES}. Partition by a column with shorter values"
    )


def escape_path_name(text: str) -> str:
    """``text`` with ``%XX`` for the characters that Paimon escapes in directory names."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def _value_text(value: Any, column_type: DataType, legacy: bool) -> str:
    root = column_type.root
    if root in CHARACTERS:
        return str(value)
    if root is Root.BOOLEAN:
        return "true" if value else "false"
    if root is Root.DECIMAL:
        return f"{Decimal(value):.{column_type.scale}f}"
    if root in {Root.FLOAT, Root.DOUBLE}:
        return _java_float(float(value), single=root is Root.FLOAT)
    if root is Root.DATE:
        day = value if isinstance(value, int) else (value - _EPOCH_DAY).days
        return str(day) if legacy else _date_text(day)
    if root is Root.TIME:
        return _time_text(value, column_type, legacy)
    if root in TIMESTAMPS:
        return _timestamp_text(value, column_type, legacy)
    if root in {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT}:
        return str(int(value))
    raise UnsupportedFeature(f"a partition column of type {column_type} is not supported; use a text, number or date")


def _time_text(value: Any, column_type: DataType, legacy: bool) -> str:
    if isinstance(value, time):
        value = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if legacy:
        return str(value)
    seconds, millis = divmod(value, 1000)
    digits = min(column_type.precision or 0, 3)
    return ":".join(_clock(seconds)) + (f".{millis:03d}"[: digits + 1] if digits else "")


def _timestamp_text(value: Any, column_type: DataType, legacy: bool) -> str:
    if isinstance(value, datetime):
        since = value.replace(tzinfo=None) - _EPOCH
        nanos = ((since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
    else:
        nanos = int(value) * _NANOS[timestamp_unit(column_type.precision or 0)]
    seconds, fraction = divmod(nanos, 1_000_000_000)
    day, seconds = divmod(seconds, 86_400)
    if legacy:
        return _java_local_date_time(day, seconds, fraction)
    if column_type.root is Root.TIMESTAMP_LTZ:
        raise UnsupportedFeature(
            "a partition column of type TIMESTAMP WITH LOCAL TIME ZONE needs partition.legacy-name=true: its other "
            "name depends on the time zone of the process"
        )
    digits = column_type.precision or 0
    return f"{_date_text(day)} {':'.join(_clock(seconds))}" + (f".{fraction:09d}"[: digits + 1] if digits else "")


def _clock(seconds: int) -> tuple[str, str, str]:
    """Hour, minute and second of a second of the day, with two digits each."""
    return f"{seconds // 3600:02d}", f"{seconds // 60 % 60:02d}", f"{seconds % 60:02d}"


def _date_text(day: int) -> str:
    """The text of java.time.LocalDate for an epoch day: years have at least four digits, and years above 9999 a plus
    sign."""
    year_months = np.datetime64(day, "D").astype("datetime64[M]").astype(np.int64)
    year, month = divmod(int(year_months), 12)
    first = np.datetime64(int(year_months), "M").astype("datetime64[D]").astype(np.int64)
    year += 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month + 1:02d}-{day - int(first) + 1:02d}"


def _java_local_date_time(day: int, seconds: int, nanos: int) -> str:
    """Text of java.time.LocalDateTime: seconds left out when zero, the fraction in groups of three digits."""
    hour, minute, second = _clock(seconds)
    text = f"{_date_text(day)}T{hour}:{minute}"
    if seconds % 60 or nanos:
        text += f":{second}"
    if nanos:
        digits = 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
        text += f".{nanos:09d}"[: digits + 1]
    return text


def _java_float(value: float, single: bool) -> str:
    """The text of Java's Float.toString and Double.toString since JDK 19; older versions print more digits for some
    values."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    shortest = _shortest(value, single)
    if 1e-3 <= abs(value) < 1e7:
        text = f"{shortest:f}"
        return text if "." in text else f"{text}.0"
    mantissa, exponent = f"{shortest:E}".split("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _shortest(value: float, single: bool) -> Decimal:
    """The shortest decimal that parses to the same number of its width; of two, the nearer one."""
    for digits_after_the_first in range(1, 17):
        text = f"{value:.{digits_after_the_first}e}"
        if _is_same(float(text), value, single):
            break
    return Decimal(text).normalize()


def _is_same(one: float, other: float, single: bool) -> bool:
    if not single:
        return one == other
    with np.errstate(over="ignore"):
        return bool(np.float32(one) == np.float32(other))
