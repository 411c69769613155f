"""Options of a rule whose table exists already, and tables that a restarted pipeline knows before their next event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError, MalformedRecord
from paimon_table.table import Table
from sources.changes import RECORD_SCHEMA
from tests.support.command import tidemark
from tests.support.local_batches import pipeline_tables, run_batches

RULES: list[dict[str, object]] = [{"match": {"table": "(a|b)"}, "into": "lake.{table}"}]


def records(table: str, first_offset: int, *events: tuple[str, Mapping[str, Any]]) -> pa.RecordBatch:
    """Debezium events of one topic: (op, row)."""
    rows = []
    for offset, (op, row) in enumerate(events, first_offset):
        images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
        source = {"db": "shop", "schema": "public", "table": table}
        place = {"topic": f"shop.public.{table}", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
        value = json.dumps({**images, "source": source, "op": op}).encode()
        rows.append({**place, "key": json.dumps({"id": row["id"]}).encode(), "value": value})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def table_of(directory: Path, name: str) -> Table:
    return Table.open(str(directory / "warehouse" / "lake.db" / name))


def run(directory: Path, batch_id: int, batch: pa.RecordBatch, **options: str) -> None:
    """One batch of a pipeline that has just been started."""
    run_batches(pipeline_tables(directory, RULES, **options), [batch], directory, batch_id)


def test_changed_options_are_published_once(tmp_path: Path) -> None:
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "n": 1})), **{"changelog-producer": "none"})
    run(tmp_path, 1, records("a", 1, ("c", {"id": 1, "n": 2})), **{"changelog-producer": "lookup"})
    changed = table_of(tmp_path, "a")
    assert changed.options.changelog_producer == "lookup" and changed.schema.id == 1

    run(tmp_path, 2, records("a", 2, ("c", {"id": 1, "n": 3})), **{"changelog-producer": "lookup"})

    assert table_of(tmp_path, "a").schema.id == 1
    kinds = [k for _, rows in changed.changes() for k in rows.column("_VALUE_KIND").to_pylist()]
    assert kinds[-2:] == [1, 2]


def test_an_option_whose_column_the_table_lacks_is_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "seen_at": 1})))
    wanted = {"record-level.expire-time": "7 d", "record-level.time-field": "seen_a"}

    run(tmp_path, 1, records("a", 1, ("c", {"id": 2, "seen_at": 2})), **wanted)

    assert "record-level.time-field = seen_a ('seen_a': did you mean 'seen_at'?)" in caplog.text
    assert table_of(tmp_path, "a").options.record_time_field is None

    run(tmp_path, 2, records("a", 2, ("c", {"id": 3, "seen_at": 3, "seen_a": 3})), **wanted)
    options = table_of(tmp_path, "a").options
    assert (options.record_time_field, options.record_expire_time_ms) == ("seen_a", 7 * 86_400_000)


@pytest.mark.parametrize("options", [{"bucket": "7"}, {"merge-engine": "aggregation"}])
def test_options_that_may_not_change_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, str]
) -> None:
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "n": 1})))
    latest = table_of(tmp_path, "a").snapshots.latest_id()

    with pytest.raises(ConfigError, match=rf"lake\.a.*{next(iter(options))}.*[Nn]othing was written"):
        run(tmp_path, 1, records("a", 1, ("c", {"id": 2, "n": 2})), **options)

    assert table_of(tmp_path, "a").snapshots.latest_id() == latest


def test_the_remedy_that_an_error_names_brings_the_pipeline_back(tmp_path: Path) -> None:
    first_row = {"merge-engine": "first-row", "changelog-producer": "lookup", "rowkind.field": "kind"}
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "kind": "+I"})), **first_row)
    delete = records("a", 1, ("c", {"id": 1, "kind": "-D"}), ("c", {"id": 2, "kind": "+I"}))
    with pytest.raises(MalformedRecord, match="ignore-delete"):
        run(tmp_path, 1, delete, **first_row)

    run(tmp_path, 1, delete, **first_row, **{"ignore-delete": "true"})

    assert sorted(row["id"] for row in table_of(tmp_path, "a").to_arrow().to_pylist()) == [1, 2]


def test_options_of_a_column_wait_until_it_comes(tmp_path: Path) -> None:
    summed = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "n": 1})), **summed)
    listed = {**summed, "fields.note.aggregate-function": "listagg"}
    run(tmp_path, 1, records("a", 1, ("c", {"id": 1, "n": 1})), **listed)
    run(tmp_path, 2, records("a", 2, ("c", {"id": 1, "n": 1, "note": "x"})), **listed)
    run(tmp_path, 3, records("a", 3, ("c", {"id": 1, "n": 1, "note": "y"})), **listed)

    assert table_of(tmp_path, "a").to_arrow().to_pylist() == [{"id": 1, "n": 4, "note": "x,y"}]


def test_a_due_full_compaction_reaches_tables_not_seen_since_the_start(tmp_path: Path) -> None:
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"}
    both = pa.concat_tables(
        [pa.Table.from_batches([records(name, 0, ("c", {"id": 1, "n": 1}))]) for name in ("a", "b")]
    ).combine_chunks()
    run(tmp_path, 0, both.to_batches()[0], **options)
    assert [rows for _, rows in table_of(tmp_path, "a").changes() if rows.num_rows] == []

    run(tmp_path, 1, records("b", 1, ("c", {"id": 2, "n": 2})), **options)

    published = [rows.num_rows for _, rows in table_of(tmp_path, "a").changes() if rows.num_rows]
    assert published == [1]


@pytest.mark.parametrize("before", [{}, {"sequence.field": "v"}], ids=["no order", "another order"])
def test_another_order_of_rows_waits_until_the_stored_rows_are_merged(tmp_path: Path, before: dict[str, str]) -> None:
    """A deleted row has a higher value than its delete: it would be the newest again."""
    order = {**before, "sequence.field": "n"}
    run(tmp_path, 0, records("a", 0, ("c", {"id": 1, "n": 5, "v": 1}), ("c", {"id": 2, "n": 5, "v": 1})), **before)
    run(tmp_path, 1, records("a", 2, ("d", {"id": 2, "n": None, "v": 2})), **before)

    with pytest.raises(ConfigError, match=r"run `tidemark table compact .*lake\.db/a --full`, and start it again"):
        run(tmp_path, 2, records("a", 3, ("c", {"id": 3, "n": 1, "v": 3})), **order)
    assert table_of(tmp_path, "a").options.sequence_fields == tuple(before.values())

    compacted = tidemark("table", "compact", str(tmp_path / "warehouse" / "lake.db" / "a"), "--full")
    assert compacted.returncode == 0, compacted.stderr
    run(tmp_path, 2, records("a", 3, ("c", {"id": 3, "n": 1, "v": 3})), **order)
    table = table_of(tmp_path, "a")
    assert table.options.sequence_fields == ("n",)
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 3]
