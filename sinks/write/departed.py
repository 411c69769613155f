"""Rows that moved to another key in the last change of a batch, kept for the batch that brings that key.

Debezium writes a change of the primary key as a delete and, right behind it, a create whose values may be left out.
When a batch ends between the two, the row may be in no snapshot: it came, or changed, and was deleted within that
batch. So its values are recorded with the snapshot of the delete. The delete is the last change of its topic partition
then, hence of its lane from there: no more rows are kept than that.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_table.rows.python_values import row_values
from sinks.exchange.blob import decode_rows, encode_rows

Key = tuple[Any, ...]
Values = Mapping[str, Any]


def to_text(rows: pa.Table) -> str:
    """The rows as one word of ASCII."""
    return base64.b64encode(encode_rows(rows, compression="zstd")).decode()


def by_key(texts: Iterable[str], key: Sequence[str]) -> dict[Key, Values]:
    """The rows by their primary keys; of one key the row of the last text counts.

    A column that the table has got since is not among the values of a row.
    """
    found: dict[Key, Values] = {}
    for text in texts:
        for row in row_values(decode_rows(base64.b64decode(text))):
            found[tuple(row[name] for name in key)] = row
    return found
