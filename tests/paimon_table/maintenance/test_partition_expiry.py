"""Partitions go when the time in their values lies further back than is kept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.partition_expiry import expire_partitions, partitions_that_are_over
from paimon_table.maintenance.partition_times import PartitionTimes
from paimon_table.options.option_parsing import parse_options
from paimon_table.schema.table_schema import create_schema
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.types import parse_type
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.table_driver import TableDriver, new_table

NOW = datetime(2024, 2, 1, 12)
WEEK = {"partition.expiration-time": "7 d"}


def times(columns: Mapping[str, str], **options: str) -> PartitionTimes:
    named = {f"partition.timestamp-{name}": value for name, value in options.items()}
    schema = create_schema([(n, parse_type(t)) for n, t in columns.items()], [], list(columns), {**WEEK, **named})
    return PartitionTimes.of(schema.partition_fields, parse_options(schema.options, schema).retention)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2024-01-31", datetime(2024, 1, 31)),
        ("2024-1-3", datetime(2024, 1, 3)),
        ("2024-01-31 7:05:09", datetime(2024, 1, 31, 7, 5, 9)),
        ("2024-01-31 07:05:09.123456789", datetime(2024, 1, 31, 7, 5, 9)),
        ("2024-02-31", datetime(2024, 3, 2)),
        ("2024-13-01", datetime(2025, 1, 1)),
        ("20240131", None),
        ("2024-01-31T07:05", None),
        ("__DEFAULT_PARTITION__", None),
        ("99999-01-01", None),
        (None, None),
    ],
)
def test_times_without_a_formatter(value: str | None, time: datetime | None) -> None:
    assert times({"dt": "STRING"}).time([value]) == time


@pytest.mark.parametrize(
    ("columns", "options", "values", "time"),
    [
        ({"dt": "STRING"}, {"formatter": "yyyyMMdd"}, ["20240131"], datetime(2024, 1, 31)),
        ({"dt": "INT"}, {"formatter": "yyyyMMdd"}, [20240131], datetime(2024, 1, 31)),
        ({"dt": "STRING"}, {"formatter": "yyyyMMddHH"}, ["2024013107"], datetime(2024, 1, 31, 7)),
        ({"dt": "STRING"}, {"formatter": "d.M.uuuu"}, ["3.1.2024"], datetime(2024, 1, 3)),
        ({"dt": "STRING"}, {"formatter": "yyyy-MM-dd'T'HH:mm"}, ["2024-01-31T07:05"], datetime(2024, 1, 31, 7, 5)),
        ({"dt": "STRING"}, {"formatter": "yyyyMMdd"}, ["2024-01-31"], None),
        ({"dt": "STRING", "hr": "INT"}, {"pattern": "$dt $hr:00:00"}, ["2024-01-31", 7], datetime(2024, 1, 31, 7)),
        ({"d": "STRING", "dt": "STRING"}, {"pattern": "$dt"}, ["x", "2024-01-31"], datetime(2024, 1, 31)),
        ({"dt": "STRING", "hr": "INT"}, {"pattern": "$dt $hr:00:00"}, ["2024-01-31", None], None),
        ({"y": "INT", "m": "INT"}, {"pattern": "$y-$m-01"}, [2024, 1], datetime(2024, 1, 1)),
        ({"dt": "DATE"}, {}, [date(2024, 1, 31)], datetime(2024, 1, 31)),
        ({"dt": "DATE"}, {}, [19753], datetime(2024, 1, 31)),
        ({"at": "TIMESTAMP(3)"}, {}, [datetime(2024, 1, 31, 7)], datetime(2024, 1, 31, 7)),
        ({"dt": "DATE"}, {}, [2**31 - 1], None),
        ({"dt": "DATE"}, {}, [-1_000_000], None),
        ({"at": "TIMESTAMP(6)"}, {}, [2**63 - 1], None),
        ({"d": "DATE", "dt": "STRING"}, {"pattern": "$dt"}, [2**31 - 1, "2024-01-31"], datetime(2024, 1, 31)),
    ],
)
def test_times_of_values(
    columns: dict[str, str], options: dict[str, str], values: list[object], time: datetime | None
) -> None:
    assert times(columns, **options).time(values) == time


@pytest.mark.parametrize("formatter", ["yyyy-MM", "EEE dd MM yyyy", "yyyy-MMM-dd", "yyyyMMdd yyyy", "hh:mm"])
def test_a_formatter_that_is_not_understood_is_refused(formatter: str) -> None:
    with pytest.raises(ConfigError, match="write letters y M d H m s"):
        times({"dt": "STRING"}, formatter=formatter)


def driver(tmp_path: Path, **options: str) -> TableDriver:
    named = {f"partition.expiration-{name.replace('_', '-')}": value for name, value in options.items()}
    table = new_table(
        tmp_path / "t", [("k", "INT"), ("dt", "STRING")], ["k", "dt"], ["dt"], {**WEEK, **named}, MemoryFileIO()
    )
    days = ["2024-01-20", "2024-01-25", "2024-01-26", "2024-02-01", "2024-01-01", "other", None]
    writer = TableDriver(table, tmp_path / "lookup")
    writer.commit([["+I", 1, day] for day in days if day is not None])
    return writer


def test_old_partitions_are_dropped_in_one_snapshot(tmp_path: Path) -> None:
    table = driver(tmp_path)
    job = Job(WriterEnvironment(str(tmp_path)))

    assert partitions_that_are_over(table.table, NOW).without_time == ("dt=other",)
    gone = expire_partitions(table.table, job, NOW)

    assert [facts.directory for facts in gone] == ["dt=2024-01-01", "dt=2024-01-20", "dt=2024-01-25"]
    assert [row[1] for row in table.content()] == ["2024-01-26", "2024-02-01", "other"]
    assert table.table.snapshots.latest_id() == 2
    assert expire_partitions(table.table, job, NOW) == []
    assert table.table.snapshots.latest_id() == 2


def test_no_more_go_at_once_than_the_options_say(tmp_path: Path) -> None:
    table = driver(tmp_path, max_num="2", batch_size="1")

    gone = expire_partitions(table.table, Job(WriterEnvironment(str(tmp_path))), NOW)

    assert [facts.directory for facts in gone] == ["dt=2024-01-01", "dt=2024-01-20"]
    assert table.table.snapshots.latest_id() == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"partition.expiration-strategy": "update-time"}, "'update-time' is not supported; supported: values-time"),
        ({"partition.timestamp-pattern": "$day"}, r"write \$ before one of dt"),
        ({"partition.timestamp-format.strict": "true"}, "remove it"),
    ],
)
def test_what_is_not_done_is_refused(tmp_path: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        new_table(tmp_path / "t", [("k", "INT"), ("dt", "STRING")], ["k", "dt"], ["dt"], {**WEEK, **options})


def test_a_table_without_partitions_keeps_them_for_ever(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the table has no partitions"):
        new_table(tmp_path / "t", [("k", "INT")], ["k"], (), WEEK)
