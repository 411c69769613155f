"""Partitions by values at the edge: dates beyond Python's own years, texts too long for a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.scan import read_all
from paimon_table.table import Table
from tests.support.local_batches import dump_batches, pipeline_tables, run_batches

_FAR_DAYS = (2_932_897, -735_103, 19_723)
_FAR_MICROS = (253_402_300_800_000_000, -63_000_000_000_000_000, 1_704_067_200_000_000)


def _event(key: int, value: int | str) -> str:
    payload = {
        "before": None,
        "after": {"id": key, "p": value},
        "source": {"db": "shop", "schema": "public", "table": "visits"},
        "op": "c",
        "ts_ms": 0,
    }
    record = {"topic": "shop.public.visits", "partition": 0, "offset": key, "tstype": "create", "ts": 0}
    return json.dumps({**record, "key": json.dumps({"id": key}), "payload": json.dumps(payload)})


@pytest.mark.parametrize(
    ("column_type", "values", "directories"),
    [
        ("DATE", _FAR_DAYS, {"p=2932897", "p=-735103", "p=19723"}),
        (
            "TIMESTAMP(6)",
            _FAR_MICROS,
            {"p=+10000-01-01T00%3A00", "p=-0027-08-11T08%3A00", "p=2024-01-01T00%3A00"},
        ),
    ],
)
def test_far_values_have_partitions_of_their_own(
    tmp_path: Path, column_type: str, values: tuple[int, ...], directories: set[str]
) -> None:
    dump = tmp_path / "visits.jsonl"
    dump.write_text("\n".join(_event(i, value) for i, value in enumerate(values)) + "\n")
    rule: dict[str, object] = {
        "match": {"table": "visits"},
        "into": "lake.visits",
        "primary_key": ["id", "p"],
        "partition_by": ["p"],
        "columns": {"types": {"id": "BIGINT", "p": column_type}},
    }
    tables = pipeline_tables(tmp_path, [rule])

    for batch_id in range(2):  # the second run reads the partitions of the first from the manifests
        run_batches(tables, dump_batches(dump, 100), tmp_path, first_batch_id=batch_id)

    root = tmp_path / "warehouse" / "lake.db" / "visits"
    assert {path.name for path in root.glob("p=*")} == directories
    rows = read_all(Table.open(str(root)))
    numbers = rows.column("p").cast(pa.int32() if column_type == "DATE" else pa.int64()).to_pylist()
    assert dict(zip(rows.column("id").to_pylist(), numbers, strict=True)) == dict(enumerate(values))


def test_records_whose_partition_has_no_directory_go_to_quarantine(tmp_path: Path) -> None:
    dump = tmp_path / "visits.jsonl"
    values = ["a" * 253, "a" * 254, "short", "/" * 85]
    dump.write_text("\n".join(_event(i, value) for i, value in enumerate(values)) + "\n")
    rule: dict[str, object] = {
        "match": {"table": "visits"},
        "into": "lake.visits",
        "primary_key": ["id", "p"],
        "partition_by": ["p"],
    }
    tables = pipeline_tables(tmp_path, [rule])

    quarantine = run_batches(tables, dump_batches(dump, 100), tmp_path)

    rows = read_all(Table.open(str(tmp_path / "warehouse" / "lake.db" / "visits")))
    assert dict(zip(rows.column("id").to_pylist(), rows.column("p").to_pylist(), strict=True)) == {
        0: values[0],
        2: values[2],
    }
    bad = [json.loads(line) for file in Path(quarantine.path).rglob("*.jsonl") for line in file.open()]
    assert sorted((record["offset"], record["reason"]) for record in bad) == [
        (1, _too_long("'aaaaaaaaaaaaaaaaaaaa'", 256)),
        (3, _too_long(f"'{'/' * 20}'", 257)),
    ]


def _too_long(beginning: str, size_bytes: int) -> str:
    return (
        f"column p STRING NOT NULL: the value that begins with {beginning} makes the name of its directory "
        f"{size_bytes} bytes long, file systems allow at most 255; partition by a column of shorter values"
    )
