"""One batch through the exchange without Spark: in the order of the spool's two jobs and of the shuffle's one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import BrokenInvariant, MalformedRecord, SchemaChangeRefused
from paimon_table.ids import Offset
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from pipelines.batch.batch import MAX_PLANS, process_batch
from pipelines.batch.batch_report import BatchReport
from pipelines.batch.compactions import Compactions
from pipelines.batch.decode_report import DecodeReport
from pipelines.batch.decode_task import DecodeTask
from pipelines.batch.local_exchange import LocalExchange
from pipelines.batch.plan import BatchRun
from pipelines.report.table_report import all_snapshots
from pipelines.tables.tables import PipelineTables
from sinks.write.bucket_task import WriteTask
from sources.changes import RECORD_SCHEMA, Observation, ObservedColumn, SourceTable
from tests.support.item_batches import TOPIC, event, records
from tests.support.local_batches import ALL_TABLES, pipeline_tables, processed, task_settings

either_order = pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])


@pytest.mark.slow
@either_order
def test_a_row_that_moves_to_another_bucket_keeps_the_values_that_were_not_sent(
    tmp_path: Path, is_one_job: bool
) -> None:
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"bucket": "8", "changelog-producer": "lookup"})
    history = [step for key in range(20) for step in _created_and_moved(key, key + 100)]
    records = pa.RecordBatch.from_pylist(
        [{**row, "offset": at} for at, row in enumerate(history)], schema=RECORD_SCHEMA
    )

    (report,) = processed(tables, [records], task_settings(tmp_path, slots=4), is_one_job=is_one_job)

    assert {row["id"]: row["body"] for row in _rows(tables)} == {key + 100: f"body {key}" for key in range(20)}
    assert report.record_count == len(history)
    assert _files_on_disk(tables) == _files_of_snapshots(tables)


@either_order
def test_a_refused_event_leaves_neither_a_snapshot_nor_files(tmp_path: Path, is_one_job: bool) -> None:
    tables = _filled(tmp_path, is_one_job)
    refused = records(event("c", 4, {"id": 4}), event("t", 4), first_offset=3)

    with pytest.raises(SchemaChangeRefused, match="offset 4: the source table was truncated"):
        processed(tables, [refused], task_settings(tmp_path), 1, is_one_job=is_one_job)

    assert _ids(tables) == {1, 2, 3}
    assert _files_on_disk(tables) == _files_of_snapshots(tables)


@either_order
def test_what_other_buckets_have_written_is_deleted_when_one_fails(tmp_path: Path, is_one_job: bool) -> None:
    options = {"merge-engine": "first-row", "changelog-producer": "lookup", "rowkind.field": "kind", "bucket": "4"}
    tables = _filled(tmp_path, is_one_job, **options)
    wrong = [event("c", key, {"id": key, "kind": "-D" if key == 4 else "+I"}) for key in range(4, 12)]

    with pytest.raises(MalformedRecord, match=r"table lake\.items, bucket \d: .*ignore-delete"):
        processed(tables, [records(*wrong, first_offset=3)], task_settings(tmp_path), 1, is_one_job=is_one_job)

    assert _ids(tables) == {1, 2, 3}
    assert _files_on_disk(tables) == _files_of_snapshots(tables)


@either_order
def test_a_column_that_an_event_shows_is_there_before_its_row_is(tmp_path: Path, is_one_job: bool) -> None:
    tables = _filled(tmp_path, is_one_job)
    wider = records(event("c", 4, {"id": 4, "kind": "+I", "note": "new"}), first_offset=3)

    (report,) = processed(tables, [wider], task_settings(tmp_path), 1, is_one_job=is_one_job)

    assert {row["id"]: row["note"] for row in _rows(tables)} == {1: None, 2: None, 3: None, 4: "new"}
    assert [(table.identifier, table.row_count) for table in report.tables] == [("lake.items", 1)]
    assert _files_on_disk(tables) == _files_of_snapshots(tables)


@either_order
def test_a_batch_that_runs_again_is_in_the_table_once(tmp_path: Path, is_one_job: bool) -> None:
    tables = _filled(tmp_path, is_one_job)
    again = PipelineTables(tables.config, tables.commit_user)

    _filled_by(again, tmp_path, is_one_job)

    assert _ids(again) == {1, 2, 3}
    assert again.sinks["lake.items"].table.snapshots.latest_id() == 1


@pytest.mark.slow
@either_order
def test_a_batch_that_never_stops_showing_something_new_is_given_up(tmp_path: Path, is_one_job: bool) -> None:
    tables = _filled(tmp_path, is_one_job)
    exchange = _NewColumns([records(event("c", 4, {"id": 4}), first_offset=3)], is_one_job=is_one_job)

    with pytest.raises(BrokenInvariant, match=f"batch 1: after {MAX_PLANS} plans"):
        process_batch(BatchRun(1), tables, task_settings(tmp_path), exchange, Compactions(), _unheard)

    assert exchange.times == MAX_PLANS
    assert _files_on_disk(tables) == _files_of_snapshots(tables)


def test_a_schema_that_another_writer_publishes_between_decoding_and_writing_is_followed(tmp_path: Path) -> None:
    tables = _filled(tmp_path)
    exchange = _OtherWriter([records(event("c", 4, {"id": 4, "kind": "+I"}), first_offset=3)], _table(tables))
    compactions = Compactions()

    process_batch(BatchRun(1), tables, task_settings(tmp_path), exchange, compactions, _unheard)
    compactions.wait()

    assert exchange.times == 2, "the batch was decoded again"
    assert {row["id"]: row["note"] for row in _rows(tables)} == dict.fromkeys((1, 2, 3, 4))


class _NewColumns(LocalExchange):
    """Every time it is decoded the batch shows another column."""

    times = 0

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        reports = super().decode(decode, write)
        self.times += 1
        columns = (ObservedColumn(f"c{self.times}", parse_type("STRING")),)
        source = SourceTable(TOPIC, "shop", "public", "items")
        return [
            replace(report, observations=[Observation(source, columns, ("id",), 0, Offset(3))]) for report in reports
        ]


class _OtherWriter(LocalExchange):
    """The table gets a column after the batch was decoded for the first time."""

    times = 0

    def __init__(self, records: Sequence[pa.RecordBatch], table: Table) -> None:
        super().__init__(records)
        self._table = table

    def decode(self, decode: DecodeTask, write: WriteTask | None) -> Sequence[DecodeReport]:
        reports = super().decode(decode, write)
        self.times += 1
        if self.times == 1:
            self._table.evolve([AddColumn("note", parse_type("STRING"))], 0)
        return reports


def _unheard(_: BatchReport) -> None:
    pass


def _filled(directory: Path, is_one_job: bool = False, **options: str) -> PipelineTables:
    """A table with the rows 1, 2 and 3."""
    return _filled_by(pipeline_tables(directory, ALL_TABLES, **options), directory, is_one_job)


def _filled_by(tables: PipelineTables, directory: Path, is_one_job: bool) -> PipelineTables:
    first = records(*(event("c", key, {"id": key, "kind": "+I"}) for key in (1, 2, 3)))
    processed(tables, [first], task_settings(directory), is_one_job=is_one_job)
    return tables


def _created_and_moved(key: int, new_key: int) -> list[dict[str, Any]]:
    """A row, and the change of its primary key by which its long text was not sent again."""
    return [
        _record(key, None, {"id": key, "body": f"body {key}"}),
        _record(key, ("__debezium.newkey", new_key), None),
        _record(new_key, ("__debezium.oldkey", key), {"id": new_key, "body": "__debezium_unavailable_value"}),
    ]


def _record(key: int, header: tuple[str, int] | None, after: dict[str, Any] | None) -> dict[str, Any]:
    source = {"db": "shop", "schema": "public", "table": "items"}
    before = None if after is not None else {"id": key, "body": None}
    value = {"before": before, "after": after, "source": source, "op": "d" if after is None else "c"}
    headers = [] if header is None else [{"key": header[0], "value": json.dumps({"id": header[1]}).encode()}]
    place = {"topic": TOPIC, "partition": 0, "timestamp": 0, "headers": headers}
    return {**place, "key": json.dumps({"id": key}).encode(), "value": json.dumps(value).encode()}


def _table(tables: PipelineTables) -> Table:
    return Table.open(f"{tables.config.catalog.warehouse}/lake.db/items")


def _rows(tables: PipelineTables) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _table(tables).to_arrow().to_pylist()
    return rows


def _ids(tables: PipelineTables) -> set[int]:
    return {row["id"] for row in _rows(tables)}


def _files_on_disk(tables: PipelineTables) -> set[str]:
    return {file.name for file in Path(_table(tables).paths.root).glob("**/bucket-*/*")}


def _files_of_snapshots(tables: PipelineTables) -> set[str]:
    """Data and changelog files that some snapshot names."""
    table = _table(tables)
    manifests = ManifestReader(table.io, table.paths)
    return {
        entry.file.file_name
        for snapshot in all_snapshots(table)
        for entry in (*manifests.delta_entries(snapshot), *manifests.changelog_entries(snapshot))
    }
