"""Bloom filters of Tidemark spare Java the data files that cannot hold a value, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from paimon_table.errors import CorruptFile
from paimon_table.table import Table
from paimon_table.types import parse_type
from tests.interop.histories import create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.scenarios import Scenario, Step
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain

_COLUMNS = {"k": "INT", "v": "STRING", "n": "BIGINT", "t": "TIMESTAMP(6)"}
_INDEXED: tuple[str, ...] = ("v", "n", "t")
_PLACES = {"in the manifest": "1 mb", "beside the data": "10 b"}


def _row(number: int) -> list[Plain]:
    return ["+I", number, f"value {number:04d}", number * 10**9, f"2026-01-01 00:00:{number // 10:02d}.{number:06d}"]


_ROWS = tuple(_row(number) for number in range(0, 500, 2))
_ABSENT, _PRESENT = _row(211), _row(210)


def _scenario(place: str) -> Scenario:
    """A table in one compacted file; the absent values lie between those that are there."""
    options = {"bucket": "1", "file-index.bloom-filter.columns": ",".join(_INDEXED)}
    options["file-index.in-manifest-threshold"] = _PLACES[place]
    for name in _INDEXED:
        options |= {
            f"file-index.bloom-filter.{name}.{what}": value for what, value in (("items", "500"), ("fpp", "1e-6"))
        }
    columns = tuple((name, parse_type(text)) for name, text in _COLUMNS.items())
    return Scenario("indexed", columns, ("k",), (Step(_ROWS, compact=True),), options=options)


def _break_data_files(path: Path) -> None:
    """Whoever opens one from now on fails."""
    files = list(path.glob("bucket-0/data-*.parquet"))
    assert files
    for file in files:
        file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize("place", _PLACES)
def test_java_leaves_out_files_by_the_filters_of_tidemark(place: str, tmp_path: Path, java: JavaPaimon) -> None:
    path = tmp_path / "table"
    scenario = _scenario(place)
    create_by_tidemark(scenario, path)
    write_by_tidemark(path, scenario.steps)
    assert bool(list(path.glob("bucket-0/*.index"))) == (place == "beside the data")
    positions = {name: list(_COLUMNS).index(name) + 1 for name in _INDEXED}
    for name, position in positions.items():
        assert _PRESENT in java.read(str(path), equal={name: _PRESENT[position]})

    _break_data_files(path)

    for name, position in positions.items():
        assert java.read(str(path), equal={name: _ABSENT[position]}) == []
        with pytest.raises(WorkerError):
            java.read(str(path), equal={name: _PRESENT[position]})


@pytest.mark.parametrize("place", _PLACES)
def test_tidemark_leaves_out_files_by_the_filters_of_java(place: str, tmp_path: Path, java: JavaPaimon) -> None:
    path = tmp_path / "table"
    scenario = _scenario(place)
    create_by_java(java, scenario, path)
    write_by_java(java, path, scenario.steps)
    table = Table.open_for_reading(str(path))
    assert table.to_arrow(predicate=pc.field("v") == _PRESENT[2]).num_rows == 1

    _break_data_files(path)

    for name, position in (("v", 2), ("n", 3)):
        assert table.to_arrow(predicate=pc.field(name) == _ABSENT[position]).num_rows == 0
        with pytest.raises(CorruptFile):
            table.to_arrow(predicate=pc.field(name) == _PRESENT[position])
