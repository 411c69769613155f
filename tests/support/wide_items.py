"""Inserts of which some have a number that is too wide for the column, as long as the rule says INT."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.bad_records.dead_letters import DeadLetters
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

WIDE = 3_000_000_000
OTHER = {"match": {"table": "other"}, "into": "lake.other"}


def rule(type_: str = "INT") -> dict[str, Any]:
    return {"match": {"table": "items"}, "into": "lake.items", "columns": {"types": {"n": type_}}}


def process(root: Path, bad: set[int], *rules: Mapping[str, Any], **keys: Any) -> PausedPipeline:
    """Batches of ten of thirty records."""
    source = records(*(event("c", i, {"id": i, "n": WIDE if i in bad else i}) for i in range(30)))
    return PausedPipeline(root, source, rules, has_quarantine=True, **keys)


def put_aside(pipeline: PausedPipeline) -> list[int]:
    return sorted(line.offset for line in DeadLetters(pipeline.config).records())


def check(pipeline: PausedPipeline, bad: set[int]) -> None:
    assert sorted(pipeline.rows("lake.items")) == sorted({*range(30)} - bad)
    assert put_aside(pipeline) == sorted(bad)
