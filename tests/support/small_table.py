"""A small table on disk with three commits, made by the engine itself."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_table.row_kind import VALUE_KIND, RowKind
from paimon_table.schema.table_schema import create_schema
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import BucketWriter, WriterEnvironment
from sinks.commit.positions import Position, to_properties

COLUMNS = (("id", "BIGINT"), ("name", "STRING"), ("total", "DECIMAL(10, 2)"), ("placed_at", "TIMESTAMP_LTZ(3)"))
OPTIONS = {"bucket": "2", "changelog-producer": "lookup"}
KINDS = {kind.short: int(kind) for kind in RowKind}


class SmallTable:
    """Writes commits of (row kind, values...) tuples; time advances by one second per commit."""

    def __init__(self, path: Path, work: Path) -> None:
        columns = [(name, parse_type(text)) for name, text in COLUMNS]
        self.table = Table.create(str(path), create_schema(columns, ["id"], [], OPTIONS))
        self.now_ms = 1_714_521_600_000
        self._uuids = (f"{n:08d}-0000-4000-8000-000000000000" for n in count())
        self._work = work
        self._commit = self.table.new_commit("tester", clock_ms=lambda: self.now_ms, new_uuid=lambda: next(self._uuids))

    def commit(self, identifier: int, rows: list[tuple[Any, ...]], pipeline: str | None = None) -> None:
        """Write and publish rows given in the order of ``COLUMNS`` after their kind, as a run of ``pipeline``."""
        ctx = self.table.context
        schema = ctx.schema.arrow_schema
        values = [pa.array([row[i + 1] for row in rows], schema.field(i).type) for i in range(len(schema))]
        kinds = pa.array([KINDS[row[0]] for row in rows], pa.int8())
        data = pa.table([*values, kinds], names=[*schema.names, VALUE_KIND])
        environment = WriterEnvironment(str(self._work), lambda: next(self._uuids), lambda: self.now_ms)
        messages = []
        state = self._commit.refresh()
        for bucket, of_bucket in self.table.assign(data, state.live_files(), environment).buckets.items():
            writer = BucketWriter(ctx, bucket, state.live_files().of(bucket), environment)
            writer.write(of_bucket)
            messages.append(writer.prepare_commit())
        properties = {"tidemark.batch": str(identifier)}
        if pipeline is not None:
            properties |= to_properties(pipeline, Position("tester", {}))
        self._commit.commit(identifier, messages, properties)
        self.now_ms += 1000
