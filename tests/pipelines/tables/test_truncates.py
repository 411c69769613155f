"""TRUNCATE events of source tables: what their tables hold, and tell as changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changelog import replay_strictly
from tests.support.local_batches import dump_batches, pipeline_tables, processed, task_settings
from tests.support.replay import CAPTURES
from tests.support.source_content import assert_equals_source, open_table

APPLY: list[dict[str, object]] = [
    {"match": {"schema": "public", "table": "(.*)"}, "into": "lake.{table}", "schema_changes": {"truncate": "apply"}}
]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("producer", ["lookup", "input", "none"])
@pytest.mark.parametrize("is_one_job", [False, True])
def test_a_captured_truncate_is_followed(tmp_path: Path, size: int, producer: str, is_one_job: bool) -> None:
    tables = pipeline_tables(tmp_path, APPLY, **{"changelog-producer": producer})
    batches = [
        batch.filter([topic.endswith(("wiped", "wiped_child")) for topic in batch.column("topic").to_pylist()])
        for batch in dump_batches(CAPTURES / "evolve_schema.jsonl.gz", size)
    ]

    processed(tables, [b for b in batches if b.num_rows], task_settings(tmp_path), is_one_job=is_one_job)

    for name in ("wiped", "wiped_child"):
        table = open_table(tables, name)
        assert_equals_source(table, "evolve", name, ["id"], set())
        if producer == "lookup":
            changes = replay_strictly((rows for _, rows in table.changes()), ["id"])
            assert len(changes) == len(table.to_arrow())
