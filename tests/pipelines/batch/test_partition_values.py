"""Partitions by values at the edge: dates beyond Python's own years, texts too long for a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.table import Table
from tests.support.local_batches import dump_batches, pipeline_tables, run_batches

_FAR_DAYS = (2_932_897, -735_103, 19_723)
_FAR_MICROS = (253_402_300_800_000_000, -63_000_000_000_000_000, 1_704_067_200_000_000)


def _event(key: int, value: int | str, before: str | None = None, offset: int | None = None) -> str:
    payload = {
        "before": None if before is None else {"id": key, "p": before},
        "after": {"id": key, "p": value},
        "source": {"db": "shop", "schema": "public", "table": "visits"},
        "op": "c" if before is None else "u",
        "ts_ms": 0,
    }
    at = key if offset is None else offset
    record = {"topic": "shop.public.visits", "partition": 0, "offset": at, "tstype": "create", "ts": 0}
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
    rows = Table.open(str(root)).to_arrow()
    numbers = rows.column("p").cast(pa.int32() if column_type == "DATE" else pa.int64()).to_pylist()
    assert dict(zip(rows.column("id").to_pylist(), numbers, strict=True)) == dict(enumerate(values))


def test_records_whose_partition_has_no_directory_go_to_quarantine(tmp_path: Path) -> None:
    values = ["a" * 253, "a" * 254, "short", "/" * 85, " " * 300]
    stored, bad = _stored_and_bad(tmp_path, [_event(i, value) for i, value in enumerate(values)])
    assert stored == {0: values[0], 2: values[2], 4: values[4]}
    assert bad == [(1, _too_long("'aaaaaaaaaaaaaaaaaaaa'", 256)), (3, _too_long(f"'{'/' * 20}'", 257))]


@pytest.mark.parametrize("changelog_producer", ["none", "input"])
def test_a_record_that_mends_such_a_value_is_stored(tmp_path: Path, changelog_producer: str) -> None:
    events = [
        _event(0, "x", offset=0),
        _event(1, "a" * 300, offset=1),
        _event(1, "ok", before="a" * 300, offset=2),
        _event(0, "b" * 300, before="x", offset=3),
    ]
    stored, bad = _stored_and_bad(tmp_path, events, **{"changelog-producer": changelog_producer})
    assert stored == {0: "x", 1: "ok"}
    assert [offset for offset, _ in bad] == [1, 3]


def _stored_and_bad(tmp_path: Path, events: list[str], **options: str) -> tuple[dict[int, str], list[tuple[int, str]]]:
    """The table's partition values by id after these events, and (offset, reason) of the quarantine."""
    dump = tmp_path / "visits.jsonl"
    dump.write_text("\n".join(events) + "\n")
    rule: dict[str, object] = {
        "match": {"table": "visits"},
        "into": "lake.visits",
        "primary_key": ["id", "p"],
        "partition_by": ["p"],
    }
    tables = pipeline_tables(tmp_path, [rule], **options)
    quarantine = run_batches(tables, dump_batches(dump, 100), tmp_path)
    rows = Table.open(str(tmp_path / "warehouse" / "lake.db" / "visits")).to_arrow()
    bad = [json.loads(line) for file in Path(quarantine.path).rglob("*.jsonl") for line in file.open()]
    stored = dict(zip(rows.column("id").to_pylist(), rows.column("p").to_pylist(), strict=True))
    return stored, sorted((record["offset"], record["reason"]) for record in bad)


def _too_long(beginning: str, size_bytes: int) -> str:
    return (
        f"column p STRING NOT NULL: the value that begins with {beginning} makes the name of its directory "
        f"{size_bytes} bytes long, but file systems allow at most 255. Partition by a column with shorter values"
    )
