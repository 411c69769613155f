"""How the Parquet files that Tidemark writes encode column values: compression, dictionaries, footer statistics."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from paimon_table.formats.known_formats import PARQUET
from paimon_table.formats.parquet.rows import has_nanosecond_columns

_SAMPLE_ROWS = 512
_FEW_VALUES = 32


def parquet_writer(
    stream: pa.NativeFile,
    first_rows: pa.Table,
    codec: str,
    zstd_level: int,
    indexed: Sequence[str],
    footers: list[pq.FileMetaData],
) -> pq.ParquetWriter:
    """A writer for rows like ``first_rows``, whose schema is the file's.

    The footer has statistics of the ``indexed`` columns only: readers prune files by the manifests, and statistics of
    all columns cost 8 % of the writing time. Dictionaries, which cost several times as much as plain encoding for
    columns of many values, are used for columns that have few values in a sample. Closing the writer adds the footer to
    ``footers``.
    """
    return pq.ParquetWriter(
        stream,
        first_rows.schema,
        version="2.6",
        data_page_version="1.0",
        write_page_checksum=True,
        compression=PARQUET.codecs[codec],
        compression_level=zstd_level if codec == "zstd" else None,
        use_dictionary=_columns_of_few_values(first_rows),
        write_statistics=list(indexed),
        store_decimal_as_integer=True,
        write_time_adjusted_to_utc=True,
        use_deprecated_int96_timestamps=has_nanosecond_columns(first_rows.schema),
        store_schema=False,
        metadata_collector=footers,
    )


def _columns_of_few_values(rows: pa.Table) -> list[str]:
    stride = max(1, rows.num_rows // _SAMPLE_ROWS)
    sample = rows.take(pa.array(range(0, rows.num_rows, stride))) if stride > 1 else rows
    return [name for name in rows.column_names if _has_few_values(sample.column(name))]


def _has_few_values(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary pays off; booleans are bits and nested columns are not sampled."""
    if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
        return False
    few: bool = pc.count_distinct(column, mode="all").as_py() <= _FEW_VALUES
    return few
