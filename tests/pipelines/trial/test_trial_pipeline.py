"""A pipeline on trial keeps what a run promises: killed or not, in one process or many, the outcome is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config.config import PipelineConfig
from pipelines.trial.case_checks import Outcome
from pipelines.trial.case_file import load_cases
from pipelines.trial.case_records import FIRST_RECORD, CaseRecords
from pipelines.trial.case_run import outcome_of
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import ALL_TABLES, shop_config

TOPIC = "shop.public.orders"

changes = st.tuples(st.integers(1, 4), st.sampled_from(["n", "n", "n", "more", "bad", "delete"]), st.integers(0, 9))
histories = st.lists(st.lists(changes, min_size=1, max_size=6), min_size=1, max_size=4)


def value_of(key: int, kind: str, n: int) -> dict[str, Any]:
    if kind == "delete":
        return {"op": "d", "before": {"id": key}, "after": None}
    more = {"name": f"n{n}"} if kind == "more" else {}
    return {"op": "c", "before": None, "after": {"id": key, "n": "x" if kind == "bad" else n, **more}}


def batches(history: Sequence[Sequence[tuple[int, str, int]]]) -> list[pa.RecordBatch]:
    """Each change as a record, in offsets that rise over all batches."""
    made, offset = [], 0
    for changes in history:
        rows = []
        for key, kind, n in changes:
            place = {"topic": TOPIC, "partition": 0, "offset": offset, "timestamp": offset, "headers": None}
            value = json.dumps(value_of(key, kind, n)).encode()
            rows.append({**place, "key": json.dumps({"id": key}).encode(), "value": value})
            offset += 1
        made.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    return made


def config_of(root: Path, of_kafka: bool) -> PipelineConfig:
    rules = [{**ALL_TABLES[0], "columns": {"types": {"n": "INT"}}, "max_bad_records": None}]
    options = {"bucket": "2", "changelog-producer": "lookup"}
    config = shop_config(root, rules, options)
    if not of_kafka:
        return config
    source = {"kafka": {"bootstrap_servers": "localhost:9", "topics": [TOPIC]}, "format": "debezium-json"}
    return PipelineConfig.model_validate(
        {**config.model_dump(include={"version", "name", "checkpoint"}), "source": source, "tables": rules}
        | {"catalog": {"warehouse": str(root)}, "defaults": {"options": options}}
    )


def played(history: Sequence[Sequence[tuple[int, str, int]]], of_kafka: bool, kills: Sequence[bool]) -> Any:
    """What comes out, where some batches are killed behind their commit, and each is run by a process of its own."""
    with TemporaryDirectory() as directory:
        pipeline = TrialPipeline(config_of(Path(directory), of_kafka), Path(directory) / "trial")
        for records, is_killed in zip(batches(history), [*kills, *[False] * len(history)], strict=False):
            (pipeline.run_killed if is_killed else pipeline.run)(records)
            if kills:
                pipeline.restart()
        assert sum(report.record_count for report in pipeline.reports) == sum(map(len, history))
        return outcome_of(pipeline, None)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(histories, st.booleans(), st.lists(st.booleans(), min_size=1, max_size=4))
def test_kills_and_restarts_change_nothing(
    history: list[list[tuple[int, str, int]]], of_kafka: bool, kills: list[bool]
) -> None:
    assert by_key(played(history, of_kafka, kills)) == by_key(played(history, of_kafka, ()))


def by_key(outcome: Outcome) -> Outcome:
    """The outcome with rows and changes in the order of their keys: buckets may be compacted in another order."""

    def key(row: Mapping[str, Any]) -> Any:
        return row["id"]

    tables = {
        name: replace(
            found, rows=sorted(found.rows, key=key), changes=sorted(found.changes, key=lambda change: key(change[1]))
        )
        for name, found in outcome.tables.items()
    }
    return replace(outcome, tables=tables)


def test_records_have_offsets_and_times_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        "cases:\n  - name: one\n    topic: t\n    batches:\n      - [{ value: 1 }, { value: 2, partition: 1 }]\n"
        "      - [{ value: 3 }, { value: 4, offset: 9, timestamp: '2026-02-03T05:05:06+01:00' }, { value: 5 }]\n"
        "    expect: {}\n"
    )
    first, second = (batch.to_pylist() for batch, _ in CaseRecords(load_cases(file)[1][0]).batches())
    assert [(row["partition"], row["offset"]) for row in (*first, *second)] == [(0, 0), (1, 0), (0, 1), (0, 9), (0, 10)]
    assert first[0]["timestamp"] == FIRST_RECORD
    assert [row["timestamp"].second for row in (*first, *second)] == [0, 1, 2, 6, 4]
    assert second[1]["timestamp"] == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
