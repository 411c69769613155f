"""Bad records are behind a table once their batch is: a new checkpoint does not read them again, mended or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import newest_position
from sinks.quarantine import Quarantine
from tests.support.item_batches import event, records
from tests.support.local_batches import pipeline_tables, processed, reported_batches, run_batches, task_settings

RULES: list[dict[str, object]] = [
    {"match": {"table": "items"}, "into": "lake.items"},
    {"match": {"table": "others"}, "into": "lake.others"},
]
GARBAGE = ({"id": 9}, b"no JSON")
WIDE = event("c", 7, {"id": "no number"})
TOPIC = "shop.public.items"


def table_of(directory: Path, name: str = "items") -> Table:
    return Table.open(str(directory / "warehouse" / "lake.db" / name))


def good(*keys: int) -> list[tuple[object, object]]:
    return [event("c", key, {"id": key}) for key in keys]


@pytest.mark.parametrize("bad", [GARBAGE, WIDE], ids=["unreadable", "of the table"])
@pytest.mark.parametrize("is_one_job", [False, True], ids=["two jobs", "one job"])
def test_a_batch_of_bad_records_moves_the_position(
    tmp_path: Path, bad: tuple[object, object], is_one_job: bool
) -> None:
    tables = pipeline_tables(tmp_path, RULES)
    run_batches(tables, [records(*good(1, 2))], tmp_path)
    settings = task_settings(tmp_path, Quarantine(LocalFileIO(), str(tmp_path / "quarantine")))
    for _ in range(2):  # and once more, as after a crash
        processed(tables, [records(bad, bad, first_offset=2)], settings, 1, is_one_job=is_one_job)
        tables = PipelineTables(tables.config, tables.commit_user)
    position = newest_position(table_of(tmp_path).snapshots, "shop")
    assert position is not None and position.offsets[TOPIC, 0] == 4
    assert table_of(tmp_path).snapshots.latest_id() == 2
    assert sorted(row["id"] for row in table_of(tmp_path).to_arrow().to_pylist()) == [1, 2]
    assert list(table_of(tmp_path).changes())

    other = PipelineTables(tables.config, "another-checkpoint")
    mended = records(*good(1, 2, 3, 4, 5))  # what a new checkpoint reads, had it to begin at the first record
    run_batches(other, [mended], tmp_path)
    assert sorted(row["id"] for row in table_of(tmp_path).to_arrow().to_pylist()) == [1, 2, 5]


@pytest.mark.parametrize("bad", [GARBAGE, WIDE], ids=["unreadable", "of the table"])
def test_a_new_checkpoint_that_reads_them_again_does_not_put_them_aside_again(
    tmp_path: Path, bad: tuple[object, object]
) -> None:
    """They may have been mended and applied meanwhile: a second retry would count them twice."""
    tables = pipeline_tables(tmp_path, RULES)
    run_batches(tables, [records(*good(1, 2)), records(bad, first_offset=2)], tmp_path)
    other = PipelineTables(tables.config, "another-checkpoint")
    quarantine, (report,) = reported_batches(other, [records(*good(1, 2), bad, *good(4), bad)], tmp_path / "other")
    (file,) = Path(quarantine.directory(0)).iterdir()
    assert [json.loads(line)["offset"] for line in file.read_text().splitlines()] == [4]
    assert (report.counts.already_stored, report.counts.quarantined, report.counts.accounted) == (3, 1, 5)
    assert sorted(row["id"] for row in table_of(tmp_path).to_arrow().to_pylist()) == [1, 2, 4]


def test_tables_without_bad_records_get_no_snapshot(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, RULES)
    other = records(event("c", 1, {"id": 1}, table="others")).to_pylist()[0]
    batch = type(records(*good(1))).from_pylist(
        [*records(*good(1)).to_pylist(), {**other, "topic": "shop.public.others"}], schema=records(*good(1)).schema
    )
    run_batches(tables, [batch, records(GARBAGE, first_offset=1)], tmp_path)
    assert table_of(tmp_path, "others").snapshots.latest_id() == 1
    assert table_of(tmp_path).snapshots.latest_id() == 2


def test_pages_of_readers_show_an_empty_snapshot(tmp_path: Path) -> None:
    """Nothing comes with it and nothing goes, in a table that has a changelog too."""
    tables = pipeline_tables(tmp_path, RULES, **{"changelog-producer": "lookup"})
    run_batches(
        tables, [records(*good(1, 2)), records(WIDE, first_offset=2), records(*good(3), first_offset=3)], tmp_path
    )
    kinds = [(s.id, s.commit_kind) for s in reversed(list(table_of(tmp_path).snapshots.newest_first()))]
    assert [kind for _, kind in kinds] == ["APPEND", "COMPACT", "APPEND", "APPEND", "COMPACT"]
    changed = [sorted(rows["id"].to_pylist()) for _, rows in table_of(tmp_path).changes()]
    assert [ids for ids in changed if ids] == [[1, 2], [3]]
