"""Another primary key in a trial: `tidemark plan` shows the new table before and after a run has made it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.config.config import PipelineConfig
from pipelines.trial.preview import Preview, preview
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA
from sources.samples import Sample

TOPIC = "shop.public.orders"
CHANGE, COUNT = 3, 6


def history() -> pa.RecordBatch:
    """Of two rows, whose key has another column from ``CHANGE`` on."""
    rows = []
    for n in range(COUNT):
        row: dict[str, Any] = {"id": n % 2, "r": "a", "n": n}
        key = {name: row[name] for name in (("id",) if n < CHANGE else ("id", "r"))}
        place = {"topic": TOPIC, "partition": 0, "offset": n, "timestamp": n * 1000, "headers": None}
        value = {"op": "c", "before": None, "after": row}
        rows.append({**place, "key": json.dumps(key).encode(), "value": json.dumps(value).encode()})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def config_of(root: Path, **words: str) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"kafka": {"bootstrap_servers": "localhost:9", "topics": [TOPIC]}, "format": "debezium-json"},
            "checkpoint": str(root / "checkpoint"),
            "catalog": {"warehouse": str(root / "warehouse")},
            "tables": [
                {
                    "match": {"table": "orders"},
                    "into": "lake.orders",
                    "schema_changes": {"primary_key": "new_table", **words},
                }
            ],
        }
    )


def shown(found: Preview) -> list[tuple[str, str, tuple[str, ...], int]]:
    assert found.error is None and found.paused == {} and found.quarantine == ()
    return [(t.identifier, t.action, t.primary_key, t.row_count) for t in found.tables]


@pytest.mark.slow
def test_a_plan_shows_the_new_table_before_and_after_a_run_has_made_it(tmp_path: Path) -> None:
    config, sample = config_of(tmp_path), Sample((history(),), {TOPIC: COUNT})
    old, new = ("lake.orders", "create", ("id",), 2), ("lake.orders_v2", "create", ("id", "r"), 2)
    assert shown(preview(config, sample)) == [old, new]

    TrialPipeline(config, tmp_path).run(history())
    after = preview(config, sample)
    assert shown(after) == [("lake.orders_v2", "keep", ("id", "r"), 2)]
    assert after.skipped == {"already stored": CHANGE} and after.notes == ()


@pytest.mark.slow
def test_a_run_that_was_killed_or_restarted_gives_the_same_tables(tmp_path: Path) -> None:
    found = []
    for name in ("once", "killed", "restarted"):
        pipeline = TrialPipeline(config_of(tmp_path), tmp_path / name)
        for n in range(0, COUNT, 2):
            (pipeline.run_killed if name == "killed" else pipeline.run)(history().slice(n, 2))
            if name == "restarted":
                pipeline.restart()
        found.append({table: sorted(map(str, t.to_arrow().to_pylist())) for table, t in pipeline.tables.items()})
        assert pipeline.paused == {} and pipeline.quarantined == [] and not pipeline.skipped
    assert found[0] == found[1] == found[2] and sorted(found[0]) == ["lake.orders", "lake.orders_v2"]


@pytest.mark.slow
def test_both_keys_in_one_batch_whose_schemas_the_table_needs(tmp_path: Path) -> None:
    """Each key has its own embedded schema. The partition with the new key comes before one that lacks it."""
    config, rows = config_of(tmp_path, rename="apply"), history().to_pylist()
    for row in rows:
        key, value = json.loads(row["key"]), json.loads(row["value"])
        fields = [
            {"field": name, "type": "string" if name == "r" else "int64", "optional": name not in key}
            for name in value["after"]
        ]
        images = [{"field": i, "type": "struct", "optional": True, "fields": fields} for i in ("before", "after")]
        schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string", "optional": False}]}
        row["value"] = json.dumps({"schema": schema, "payload": value}).encode()
    other = {**rows[0], "partition": 1, "key": b'{"id": 7}'}
    other["value"] = other["value"].replace(b'"id": 0', b'"id": 7')
    batch = pa.RecordBatch.from_pylist([*rows, other], schema=RECORD_SCHEMA)

    found = preview(config, Sample((batch,), {TOPIC: COUNT + 1}))

    assert shown(found) == [("lake.orders", "create", ("id",), 3), ("lake.orders_v2", "create", ("id", "r"), 2)]
