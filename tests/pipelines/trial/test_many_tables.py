"""A pipeline with many rules and tables: what it does grows with their number, and not with its square."""

from __future__ import annotations

import cProfile
import json
import pstats
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.config.config_file import load_pipeline
from pipelines.trial.preview import preview
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA
from sources.samples import Sample

HEAD = """\
version: 1
name: shop
source: { kafka: { bootstrap_servers: 'localhost:9', topics: { include: ['shop\\..*'] } }, format: debezium-json }
checkpoint: state
catalog: { warehouse: lake }
tables:
"""


LIMIT = 2.12
"""Twice as much, and what looking through all rules for each table costs with so few of them."""


def records(count: int, offset: int) -> pa.RecordBatch:
    """A row for each of ``count`` tables."""
    rows = [
        {
            "topic": f"shop.public.t{number}",
            "partition": 0,
            "offset": offset,
            "timestamp": 0,
            "key": b'{"id":1}',
            "value": json.dumps({"op": "c", "after": {"id": 1, "n": offset}}).encode(),
            "headers": None,
        }
        for number in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def calls_of(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(work)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def steps(root: Path, count: int) -> dict[str, int]:
    """How many calls each step makes with ``count`` rules, each for a table of its own."""
    root.mkdir()
    file = root / "shop.yaml"
    rules = (f"  - match: {{ table: t{n}, exclude: 'x.*' }}\n    into: lake.t{n}\n" for n in range(count))
    file.write_text(HEAD + "".join(rules))
    config = load_pipeline(file)
    pipeline = TrialPipeline(config, root / "trial")
    pipeline.run(records(1, 0))  # imports what a batch needs
    found = {
        "validate": calls_of(lambda: load_pipeline(file)),
        "plan": calls_of(lambda: preview(config, Sample((records(count, 0),), {}, counts_all=True))),
        "first batch": calls_of(lambda: pipeline.run(records(count, 1))),
        "next batch": calls_of(lambda: pipeline.run(records(count, 2))),
    }
    pipeline.restart()
    assert len(pipeline.tables) == count
    return {**found, "restart": calls_of(lambda: pipeline.run(records(count, 3)))}


@pytest.mark.slow
def test_twice_as_many_tables_take_twice_the_work(tmp_path: Path) -> None:
    some, twice = steps(tmp_path / "some", 20), steps(tmp_path / "twice", 40)
    grown = {step: twice[step] / calls for step, calls in some.items()}
    assert {step: ratio for step, ratio in grown.items() if ratio > LIMIT} == {}, grown
