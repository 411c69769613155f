"""Tags by name and by themselves; what they keep, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from paimon_table.history.automatic_tags import TagPeriod, first_since, make_automatic_tags, superfluous_tags
from paimon_table.history.tags import TagStore, create_tag
from paimon_table.maintenance.expiration import Surroundings, expire
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import find_orphans
from paimon_table.maintenance.tidying import delete_tags, tags_to_delete
from paimon_table.options.option_parsing import parse_options
from paimon_table.options.time_zones import local_time, moment_ms, zone_of
from paimon_table.storage.memory_io import MemoryFileIO
from paimon_table.surroundings import now_ms
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.builders import committer, data_file, message, orders_schema
from tests.support.table_driver import TableDriver, new_table

MIDNIGHT_MS = 1_704_153_600_000
"""2024-01-02 00:00 UTC."""
HOUR_MS = 3_600_000
DAILY = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC"}


def table_of(times_ms: list[int], options: Mapping[str, str]) -> Table:
    """A table with a snapshot at each of the times."""
    table = Table.create("/w/t", orders_schema(options), io=MemoryFileIO())
    for number, time_ms in enumerate(times_ms):
        commit = committer(table, clock_ms=lambda at=time_ms: at)
        commit.commit(number, [message(new_files=[data_file(f"f{number}")])], {})
    return table


def made(table: Table) -> list[str]:
    return make_automatic_tags(table.context, datetime(2024, 2, 1))


def tagged(table: Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in TagStore(table.io, table.paths).all()}


def test_the_first_snapshot_after_a_day_gets_its_tag() -> None:
    hours = [1, 5, 23, 24, 30, 72, 73]
    table = table_of([MIDNIGHT_MS + hour * HOUR_MS for hour in hours], DAILY)

    assert made(table) == ["2024-01-01", "2024-01-02", "2024-01-04"]
    assert tagged(table) == {"2024-01-01": 1, "2024-01-02": 4, "2024-01-04": 6}
    assert made(table) == []


def test_tags_go_on_where_they_ended_and_days_without_snapshots_are_completed_if_asked() -> None:
    options = {**DAILY, "tag.automatic-completion": "true"}
    table = table_of([MIDNIGHT_MS, MIDNIGHT_MS + 72 * HOUR_MS, MIDNIGHT_MS + 73 * HOUR_MS], options)

    assert made(table) == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert tagged(table) == {"2024-01-01": 1, "2024-01-02": 2, "2024-01-03": 3}


def test_a_delay_lets_late_rows_into_the_tag() -> None:
    options = {**DAILY, "tag.creation-delay": "2 h"}
    table = table_of([MIDNIGHT_MS + hour * HOUR_MS for hour in (0, 25, 26, 27)], options)

    assert made(table) == ["2024-01-01", "2024-01-02"]
    assert tagged(table)["2024-01-02"] == 3


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tag.period-formatter": "without_dashes"}, "20231231"),
        ({"tag.creation-period": "hourly"}, "2024-01-01 22"),
        ({"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"}, "20240101 22"),
        ({"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"}, "2024010122"),
        ({"tag.creation-period": "two-hours"}, "2024-01-01 20"),
        ({"tag.creation-period-duration": "15 min"}, "202401012315"),
        ({"sink.process-time-zone": "Asia/Tokyo"}, "2024-01-01"),
        ({"sink.process-time-zone": "GMT-08:00", "tag.creation-period": "hourly"}, "2024-01-01 14"),
    ],
)
def test_names_of_periods(options: dict[str, str], name: str) -> None:
    table = table_of([MIDNIGHT_MS - 30 * 60_000], {**DAILY, **options})

    assert made(table) == [name]
    begin = TagPeriod.of(table.options.retention).begin(name)
    assert begin is not None
    assert TagPeriod.of(table.options.retention).name(begin) == name


def test_names_of_other_tags_are_no_periods() -> None:
    period = TagPeriod.of(parse_options(DAILY, orders_schema()).retention)

    assert [period.begin(name) for name in ("before-migration", "2024-1-1", "2024-13-01", "20240101")] == [None] * 4


def test_the_oldest_automatic_tags_go_and_others_stay() -> None:
    table = table_of([MIDNIGHT_MS + day * 24 * HOUR_MS for day in range(5)], {**DAILY, "tag.num-retained-max": "2"})
    store = TagStore(table.io, table.paths)
    path = table.paths.snapshot_file(1)
    create_tag(store, "mine", path, now=lambda: datetime(2024, 1, 1), retained_ms=None)
    made(table)

    assert [tag.name for tag in superfluous_tags(table.context, store.all())] == [
        "2024-01-01",
        "2024-01-02",
        "2024-01-03",
    ]
    assert delete_tags(table, tags_to_delete(table, Surroundings()), Surroundings()) == [
        "2024-01-01",
        "2024-01-02",
        "2024-01-03",
    ]
    assert set(tagged(table)) == {"mine", "2024-01-04", "2024-01-05"}


def test_a_tag_lives_as_long_as_it_was_made_for() -> None:
    table = table_of([MIDNIGHT_MS], {})
    store, path = TagStore(table.io, table.paths), table.paths.snapshot_file(1)
    then = local_time(MIDNIGHT_MS, None)
    create_tag(store, "short", path, now=lambda: then, retained_ms=60_000)
    create_tag(store, "stays", path, now=lambda: then, retained_ms=None)

    def over(after_ms: int) -> list[str]:
        return [t.name for t in tags_to_delete(table, Surroundings(clock_ms=lambda: MIDNIGHT_MS + after_ms))]

    assert store.read("short").retained == timedelta(minutes=1)
    assert over(59_000) == []
    assert over(61_000) == ["short"]
    kept = replace(table.options, retention=replace(table.options.retention, tag_time_expiry=False))
    table = replace(table, context=replace(table.context, options=kept))
    assert over(61_000) == []


def test_a_tag_is_the_file_of_its_snapshot() -> None:
    table = table_of([MIDNIGHT_MS], {})
    store, path = TagStore(table.io, table.paths), table.paths.snapshot_file(1)
    create_tag(store, "a", path, now=lambda: datetime(2024, 1, 1), retained_ms=None)

    assert table.io.read(table.paths.tag_file("a")) == table.io.read(path)
    assert store.snapshot_text(store.read("a")) == table.io.read(path)


@pytest.mark.parametrize("name", ["", " ", "a/b", "..\\x", "line\nbreak", "x" * 300])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    table = table_of([MIDNIGHT_MS], {})
    store = TagStore(table.io, table.paths)

    with pytest.raises(ConfigError, match="choose another name"):
        create_tag(store, name, table.paths.snapshot_file(1), now=lambda: datetime(2024, 1, 1), retained_ms=None)


def test_taken_names_and_snapshots_that_are_gone_are_refused(tmp_path: Path) -> None:
    table = table_of([MIDNIGHT_MS], {})
    store, path = TagStore(table.io, table.paths), table.paths.snapshot_file(1)
    create_tag(store, "a", path, now=lambda: datetime(2024, 1, 1), retained_ms=None)

    with pytest.raises(ConfigError, match="delete it first"):
        create_tag(store, "a", path, now=lambda: datetime(2024, 1, 1), retained_ms=None)
    with pytest.raises(ConfigError, match="has expired or never existed"):
        create_tag(store, "b", table.paths.snapshot_file(7), now=lambda: datetime(2024, 1, 1), retained_ms=None)
    with pytest.raises(ConfigError, match="it has: a"):
        store.read("c")


def test_the_first_snapshot_since_a_time_is_found_by_halves() -> None:
    table = table_of([MIDNIGHT_MS + n for n in range(20)], {})

    assert first_since(table.snapshots, 1, MIDNIGHT_MS + 13) == 14
    assert first_since(table.snapshots, 16, MIDNIGHT_MS + 13) == 16
    assert first_since(table.snapshots, 1, None) == 1
    assert first_since(table.snapshots, 1, MIDNIGHT_MS + 20) is None


def test_zones() -> None:
    assert local_time(MIDNIGHT_MS, zone_of("x", "GMT-8")) == datetime(2024, 1, 1, 16)
    assert local_time(MIDNIGHT_MS, zone_of("x", "+0530")) == datetime(2024, 1, 2, 5, 30)
    assert moment_ms(datetime(2024, 1, 2, 1), zone_of("x", "Europe/Berlin")) == MIDNIGHT_MS
    assert moment_ms(datetime(2024, 1, 2), UTC) == MIDNIGHT_MS
    assert moment_ms(local_time(MIDNIGHT_MS, None), None) == MIDNIGHT_MS
    with pytest.raises(ConfigError, match="not a time zone"):
        zone_of("x", "Mars/Olympus")


def test_no_tag_is_left_of_a_snapshot_that_expires_while_it_is_tagged() -> None:
    table = table_of([MIDNIGHT_MS, MIDNIGHT_MS + 1], {})
    io = table.io
    assert isinstance(io, MemoryFileIO)
    path = table.paths.snapshot_file(1)

    def expiring(_path: str) -> None:
        io.disk.files.pop(path)

    io.lose_answer = expiring
    with pytest.raises(ConfigError, match="expired while it was tagged"):
        create_tag(TagStore(io, table.paths), "t", path, now=datetime.now, retained_ms=None)

    assert tagged(table) == {}


@pytest.mark.slow
def test_changes_that_outlive_their_snapshots_stay_when_a_tag_goes(tmp_path: Path) -> None:
    # given a table without a changelog producer, with a tag whose snapshot has expired and whose changelog has not
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
        "snapshot.time-retained": "1 ms",
        "changelog.num-retained.min": "6",
        "changelog.num-retained.max": "6",
        "changelog.time-retained": "1 ms",
    }
    table = new_table(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"], options=options)
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([["+I", 1, 0]])
    driver.commit([["+I", 2, 0]])
    tags, path = TagStore(table.io, table.paths), table.paths.snapshot_file(2)
    create_tag(tags, "t", path, now=datetime.now, retained_ms=None)
    driver.commit([["+U", 1, 1]], full_compact=True)
    driver.commit([["+U", 2, 1]])
    later = Surroundings(clock_ms=lambda: now_ms() + 60_000)
    before = driver.changes()
    expire(table.context, later)
    assert 2 in table.snapshots.changelog_ids()

    # when the tag is deleted, then the changes are read as before
    assert delete_tags(table, [tags.read("t")], later) == ["t"]
    assert driver.changes() == before

    # and once the changelog has gone nothing of the tag is left
    for value in range(2, 12):
        driver.commit([["+U", 1, value]])
        expire(table.context, later)
    assert min(table.snapshots.changelog_ids()) > 4
    assert {orphan.path for orphan in find_orphans(table, Job(WriterEnvironment(str(tmp_path))), 0).young} == set()
