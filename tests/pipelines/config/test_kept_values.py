"""Options that are only stored have values that others can read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from paimon_table.options.option_facts import is_typed
from paimon_table.options.option_names import KEPT_FOR_OTHERS
from pipelines.config.kept_values import PARSERS
from pipelines.config.options_without_effect import functions_of_tidemark_alone
from pipelines.tables.writable_tables import check_writable
from tests.support.table_driver import new_table


def test_of_every_stored_option_it_is_known_what_its_value_is() -> None:
    assert {name for name in KEPT_FOR_OTHERS if not is_typed(name)} <= PARSERS.keys()
    assert not any(map(is_typed, PARSERS))


def test_a_table_that_exists_with_such_a_value_is_written_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(tmp_path / "t", [("k", "INT")], ["k"], options={"parquet.block.size": "4kb"})
    with caplog.at_level(logging.WARNING):
        check_writable(table, f"lake.{tmp_path.name}")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"table lake.{tmp_path.name} exists with option 'parquet.block.size': '4kb' is not a whole")
    assert line.endswith("set a valid value in the rule, or remove the option (ALTER TABLE ... RESET)")


_OF_COLUMN, _OF_ALL = "fields.n.aggregate-function", "fields.default-aggregate-function"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"merge-engine": "aggregation", _OF_COLUMN: "count"}, [_OF_COLUMN]),
        ({"merge-engine": "partial-update", _OF_ALL: "count"}, [_OF_ALL]),
        ({"merge-engine": "aggregation", _OF_COLUMN: "sum"}, []),
        ({_OF_COLUMN: "count"}, []),
    ],
    ids=str,
)
def test_a_function_that_java_lacks_is_told(options: dict[str, str], told: list[str]) -> None:
    found = dict(functions_of_tidemark_alone(options))
    assert list(found) == told
    assert all("Java Paimon 1.4.2 does not have this function and cannot open the table" in t for t in found.values())
