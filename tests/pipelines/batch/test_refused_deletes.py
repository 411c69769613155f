"""Deletes that a merge engine cannot take: in quarantine before they make the table unreadable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import MalformedRecord
from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.decode_target import DecodeTarget
from tests.support.local_batches import pipeline_tables, run_batches

RULE: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
PARTIAL = {"merge-engine": "partial-update"}
MAX = {"merge-engine": "aggregation", "fields.qty.aggregate-function": "max"}


def event(offset: int, op: str, key: int, qty: int | None) -> dict[str, Any]:
    row = {"id": key, "qty": qty}
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    value = {**images, "source": {"db": "shop", "schema": "public", "table": "items"}, "op": op}
    place = {"topic": "shop.public.items", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
    return {**place, "key": json.dumps({"id": key}).encode(), "value": json.dumps(value).encode()}


def records(*events: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(events), schema=RECORD_SCHEMA)


BATCHES = [records(event(0, "c", 1, 5), event(1, "c", 2, 6)), records(event(2, "d", 2, 6), event(3, "c", 3, 7))]


def tables_of(directory: Path, options: dict[str, str]) -> PipelineTables:
    return pipeline_tables(directory, [RULE], **options)


def stored(directory: Path) -> dict[int, int]:
    rows = Table.open(str(directory / "warehouse" / "lake.db" / "items")).to_arrow()
    return dict(zip(rows.column("id").to_pylist(), rows.column("qty").to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (PARTIAL, "partial-update.remove-record-on-delete"),
        ({"merge-engine": "first-row", "changelog-producer": "lookup"}, "ignore-delete"),
        (MAX, "fields.qty.ignore-retract"),
    ],
)
def test_a_delete_that_the_engine_cannot_take_goes_to_quarantine(
    tmp_path: Path, options: dict[str, str], remedy: str
) -> None:
    quarantine = run_batches(tables_of(tmp_path, options), BATCHES, tmp_path)
    (file,) = Path(quarantine.directory(1)).iterdir()
    (line,) = file.read_text().splitlines()
    assert remedy in json.loads(line)["reason"]
    assert stored(tmp_path) == {1: 5, 2: 6, 3: 7}


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, {1: 5, 3: 7}),
        ({**PARTIAL, "ignore-delete": "true"}, {1: 5, 2: 6, 3: 7}),
        ({**PARTIAL, "partial-update.remove-record-on-delete": "true"}, {1: 5, 3: 7}),
        ({**MAX, "fields.qty.ignore-retract": "true"}, {1: 5, 2: 6, 3: 7}),
        ({**MAX, "aggregation.remove-record-on-delete": "true"}, {1: 5, 3: 7}),
    ],
)
def test_deletes_that_the_options_say_how_to_take_are_taken(
    tmp_path: Path, options: dict[str, str], left: dict[int, int]
) -> None:
    quarantine = run_batches(tables_of(tmp_path, options), BATCHES, tmp_path)
    assert not Path(quarantine.directory(1)).exists()
    assert stored(tmp_path) == left


def test_a_table_with_such_a_delete_is_named_and_repaired_by_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("paimon_table.write.write_traits.refused_deletes", lambda *_: None)
        run_batches(tables_of(tmp_path, PARTIAL), BATCHES, tmp_path)
    with pytest.raises(MalformedRecord, match=r"table .*lake\.db/items: by default, partial update .*'id': 2"):
        stored(tmp_path)

    tables = tables_of(tmp_path, {**PARTIAL, "ignore-delete": "true"})
    run_batches(tables, [records(event(4, "c", 4, 8))], tmp_path, first_batch_id=2)
    assert stored(tmp_path) == {1: 5, 2: 6, 3: 7, 4: 8}


def test_groups_whose_function_cannot_retract_refuse_deletes_with_their_sequence(tmp_path: Path) -> None:
    options = {**PARTIAL, "fields.seq.sequence-group": "qty", "fields.qty.aggregate-function": "max"}
    tables = pipeline_tables(tmp_path, [{**RULE, "columns": {"types": {"seq": "INT"}}}], **options)
    run_batches(tables, BATCHES[:1], tmp_path)
    (target,) = tables.decode_targets().values()
    assert isinstance(target, DecodeTarget)
    assert target.refused_deletes is not None
    assert target.refused_deletes_with == ("seq",)
    quarantine = run_batches(tables, BATCHES[1:], tmp_path, first_batch_id=1)
    assert not Path(quarantine.directory(1)).exists(), "a delete without a sequence leaves the group as it is"
    assert stored(tmp_path) == {1: 5, 2: None, 3: 7}
