"""Values that ORC files give back as other ones: no keys, and what their metadata says hides no row."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.data_files.altered_values import bounds_given_back
from paimon_table.errors import ConfigError, MalformedRecord, UnsupportedFeature
from paimon_table.table import Table
from paimon_table.types import parse_type, string
from paimon_table.validation.schema_evolution import AddColumn, SetOption
from tests.support.table_driver import TableDriver, new_table

CHAR_KEY = (("k", "CHAR(5)"), ("v", "INT"))
TIMED_KEY = (("k", "TIMESTAMP(3)"), ("v", "INT"))
LAST_SECOND = "1969-12-31 23:59:59.500"
ORC = {"file.format": "orc"}


@pytest.mark.parametrize(
    "options",
    [ORC, {"file.format.per.level": "5:orc"}, {"changelog-file.format": "orc", "changelog-producer": "input"}],
    ids=str,
)
def test_char_keys_are_refused_where_orc_files_are_written(tmp_path: Path, options: dict[str, str]) -> None:
    option = next(iter(options))
    with pytest.raises(ConfigError, match=rf"option '{option}': key column 'k' of type CHAR\(5\) NOT NULL loses"):
        new_table(tmp_path / "t", CHAR_KEY, ["k"], options=options)

    table = new_table(tmp_path / "t", CHAR_KEY, ["k"])
    with pytest.raises(ConfigError, match="loses its trailing blanks"):
        table.evolve([SetOption(name, value) for name, value in options.items()], 0)


def test_a_table_with_char_keys_in_orc_is_read_and_not_written(tmp_path: Path) -> None:
    # given a table as another engine has made it
    path = tmp_path / "t"
    new_table(path, CHAR_KEY, ["k"])
    schema_file = path / "schema" / "schema-0"
    schema_file.write_text(schema_file.read_text().replace('"bucket" : "1"', '"bucket" : "1", "file.format" : "orc"'))

    for opened in (Table.open, Table.open_if_exists):
        with pytest.raises(ConfigError, match="loses its trailing blanks"):
            opened(str(path))
    assert Table.open_for_reading(str(path)).schema.options["file.format"] == "orc"


def test_orc_files_with_char_keys_get_no_rows_after_a_change_of_the_format(tmp_path: Path) -> None:
    # given files without the blanks, which were not refused when they were written
    path = tmp_path / "t"
    driver = TableDriver(new_table(path, (("k", "VARCHAR(5)"), ("v", "INT")), ["k"], options=ORC), tmp_path / "lookup")
    driver.commit([["+I", "ab", 1]])
    schema_file = path / "schema" / "schema-0"
    schema_file.write_text(schema_file.read_text().replace("VARCHAR(5)", "CHAR(5)").replace('"orc"', '"parquet"'))

    with pytest.raises(UnsupportedFeature, match=r"data-.*\.orc has key column 'k' of type CHAR\(5\)"):
        TableDriver(Table.open(str(path)), tmp_path / "lookup").commit([["+I", "ab   ", 2]])


def test_a_timestamp_key_of_the_last_second_before_1970_is_refused(tmp_path: Path) -> None:
    driver = TableDriver(new_table(tmp_path / "t", TIMED_KEY, ["k"], options=ORC), tmp_path / "lookup")
    others = [["+I", "1969-12-31 23:59:59.000", 1], ["+I", "1970-01-01 00:00:00.500", 2]]
    driver.commit(others, full_compact=True)

    with pytest.raises(
        MalformedRecord, match=r"key column 'k': the key 1969-12-31 23:59:59\.500000 changes when an ORC"
    ):
        driver.commit([["+I", LAST_SECOND, 3]])
    assert driver.content() == [row[1:] for row in others]


def test_a_compaction_to_orc_does_not_make_another_key_of_one(tmp_path: Path) -> None:
    driver = TableDriver(new_table(tmp_path / "t", TIMED_KEY, ["k"]), tmp_path / "lookup")
    for value in (0, 1):
        driver.commit([["+I", LAST_SECOND, value]])
    driver.evolve([SetOption("file.format", "orc"), AddColumn("w", string())])

    with pytest.raises(MalformedRecord, match=r"set option 'file.format' to parquet or avro"):
        driver.compact()
    assert driver.content() == [[LAST_SECOND, 1, None]]


@pytest.mark.parametrize("options", [{}, {"file-index.bloom-filter.columns": "c,t"}], ids=["ranges", "bloom filters"])
def test_predicates_find_what_comes_back(tmp_path: Path, options: dict[str, str]) -> None:
    columns = (("k", "INT"), ("c", "CHAR(5)"), ("t", "TIMESTAMP(3)"))
    table = new_table(tmp_path / "t", columns, ["k"], options={**ORC, **options})
    TableDriver(table, tmp_path / "lookup").commit([["+I", 1, "ab   ", LAST_SECOND]])

    later = dt.datetime(1970, 1, 1, 0, 0, 0, 500_000)
    assert table.to_arrow().to_pylist() == [{"k": 1, "c": "ab", "t": later}]
    for predicate in (pc.field("c") == "ab", pc.field("t") == pa.scalar(later, pa.timestamp("ms"))):
        assert table.to_arrow(predicate=predicate).num_rows == 1


def test_partition_values_come_from_the_partition(tmp_path: Path) -> None:
    columns = (("k", "INT"), ("p", "CHAR(5)"), ("q", "TIMESTAMP(3)"))
    table = new_table(tmp_path / "t", columns, ["k", "p", "q"], ["p", "q"], ORC)
    driver = TableDriver(table, tmp_path / "lookup")
    for value in (1, 2):
        driver.commit([["+I", value, "ab   ", LAST_SECOND]], full_compact=value == 2)

    assert driver.content() == [[1, "ab   ", LAST_SECOND], [2, "ab   ", LAST_SECOND]]


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.text("a \x01\n~", max_size=5), min_size=1, max_size=6))
def test_bounds_hold_for_texts_without_their_blanks(texts: list[str]) -> None:
    low, high = bounds_given_back(pa.scalar(min(texts)), pa.scalar(max(texts)), parse_type("CHAR(5)"))
    assert all(low.as_py() <= text.rstrip(" ") <= high.as_py() for text in texts)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.integers(-3000, 3000), min_size=1, max_size=6))
def test_bounds_hold_for_moments_that_come_back_later(millis: list[int]) -> None:
    first, last = (pa.scalar(value, pa.timestamp("ms")) for value in (min(millis), max(millis)))
    low, high = bounds_given_back(first, last, parse_type("TIMESTAMP(3)"))
    back = [value + 1000 if -1000 < value < 0 else value for value in millis]
    assert all(low.value <= value <= high.value for value in back)
