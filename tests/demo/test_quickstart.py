"""`make demo`: the bundled dump becomes tables with the shop's final content, and a second run finds nothing new."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from benchmarks.debezium_events import zoned_text
from benchmarks.demo_dump import DUMP_DIR, FINAL_DIR, read_lines
from benchmarks.shop import TABLES
from paimon_table.table import Table
from tests.stack.paths import PROJECT_DIR
from tests.support.changelog import replay_strictly
from tests.support.pipeline_run import run_once

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def quickstart_below(root: Path) -> Path:
    """A copy of configs/quickstart.yaml that writes below ``root``."""
    text = (PROJECT_DIR / "configs" / "quickstart.yaml").read_text()
    file = root / "quickstart.yaml"
    file.write_text(text.replace("../demo-output", str(root)).replace("quickstart-data", str(DUMP_DIR)))
    return file


def plain(value: Any) -> Any:
    """A value in the text form of the final content."""
    match value:
        case datetime() if value.tzinfo is not None:
            return zoned_text(value.astimezone(UTC))
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value


def plain_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def test_the_demo_gives_the_final_content_and_resumes(tmp_path: Path) -> None:
    file = quickstart_below(tmp_path)

    first = run_once(file)
    assert first.returncode == 0, first.stderr
    tables = {source: Table.open(str(tmp_path / "warehouse" / "shop.db" / source.name)) for source in TABLES}
    snapshots = {source: table.snapshots.latest_id() for source, table in tables.items()}

    for source, table in tables.items():
        expected = [json.loads(row) for row in read_lines(FINAL_DIR / f"{source.name}.final.jsonl.gz")]
        found = sorted(plain_rows(table.to_arrow().to_pylist()), key=lambda row: row[source.key[0]])
        assert found == expected, source.name
        replayed = replay_strictly((rows for _, rows in table.changes()), source.key)
        assert sorted(plain_rows(list(replayed.values())), key=lambda row: row[source.key[0]]) == expected

    second = run_once(file)
    assert second.returncode == 0, second.stderr
    assert {source: table.snapshots.latest_id() for source, table in tables.items()} == snapshots
