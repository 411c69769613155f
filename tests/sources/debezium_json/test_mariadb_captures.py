"""Topics of Debezium's MariaDB connector 3.5, captured whole: tables are what SELECT said of the source then.

``tests/integration/mariadb_types.py`` has the source table. Half of its rows came by the snapshot, from a server at
-05:00.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sources.dumps.dump_records import record_batches_from_dump
from tests.integration.mariadb_types import RECORDS, assert_table
from tests.support.replay import CAPTURES


@pytest.fixture(params=["UTC", "America/St_Johns"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["my_long", "my_precise", "my_told"])
def test_a_captured_table_is_what_select_said(tmp_path: Path, name: str, time_zone: str) -> None:
    batches = [*record_batches_from_dump(str(CAPTURES / f"kinds.{name}.jsonl.gz"))]
    table = pa.Table.from_batches(batches)
    assert table.num_rows == RECORDS
    if time_zone == "UTC":  # each record alone, or all of them at once
        batches = [batch for row in range(RECORDS) for batch in table.slice(row, 1).to_batches()]

    assert_table(tmp_path, name, batches, json.loads((CAPTURES / "kinds.final.json").read_text()))
