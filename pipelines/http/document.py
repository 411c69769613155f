"""A view of a run as plain data for JSON: the content of `status --json`, the state file and the page.

The document adds what terminal and page share: the state of a pipeline in words, and sums over its parts. If one step
takes most of the time, it also has advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pipelines.catchup.shown_standing import Standing
from pipelines.views.table_views import Phase, PipelineView, RunView

Document = dict[str, Any]

_BATCHES_LOOKED_AT = 20
_DOMINATES = 0.6
"""The share of the time of the last batches from which on a step is named."""

_LEAST_S = 5.0
"""Batches that took less together need no advice."""

_MORE_CORES = "give Spark more cores (`spark.master`), or the busiest tables more buckets (`tidemark table rescale`)"
_LARGER = "use fewer, larger batches (`trigger.interval`)"
_COMPACT = f"{_LARGER}, or set `write-only: true` and run `tidemark table compact` as a separate job"
_REMEDIES: Mapping[str, str] = {
    "plan": f"each batch plans many tables: {_LARGER}",
    "decode": _MORE_CORES,
    "write": _MORE_CORES,
    "wait": f"batches wait for the compactions of the previous batch: {_COMPACT}",
    "append": f"each batch commits many tables: {_LARGER}",
    "compact": _COMPACT,
    "commit": f"each batch commits many compactions: {_LARGER}",
}


def document(run: RunView) -> Document:
    """The whole view; keys are the names of its fields, and each pipeline has computed values in addition.

    Each reason appears twice: the text that may contain values of rows, and the public text.
    """
    plain: Document = _plain(run)
    for shown, pipeline in zip(plain["pipelines"], run.pipelines, strict=True):
        shown["state"], shown["state_kind"] = state_words(pipeline), state_kind(pipeline)
        shown["lag_records"], shown["lag_s"] = pipeline.lag_records, pipeline.lag_s
        shown["open_bad_records"] = pipeline.open_bad_records
        shown["advice"] = advice(pipeline)
    return plain


def state_words(pipeline: PipelineView) -> str:
    """``running, 1 table paused, 2 tables catching up``."""
    words = [str(pipeline.phase)]
    for standing, is_so in ((Standing.PAUSED, "paused"), (Standing.CATCHING_UP, "catching up")):
        count = pipeline.tables_that_are(standing)
        if count:
            words.append(f"{count:,} table{'' if count == 1 else 's'} {is_so}")
    return ", ".join(words)


def state_kind(pipeline: PipelineView) -> str:
    """The colour class of a state: ``good``, ``between`` or ``bad``."""
    if pipeline.phase is Phase.FAILED or pipeline.tables_that_are(Standing.PAUSED):
        return "bad"
    is_good = pipeline.phase is Phase.RUNNING and not pipeline.tables_that_are(Standing.CATCHING_UP)
    return "good" if is_good else "between"


def advice(pipeline: PipelineView) -> str | None:
    """Advice if one step takes most of the time of the last batches; None otherwise."""
    sums: dict[str, float] = {}
    for batch in pipeline.last_batches[-_BATCHES_LOOKED_AT:]:
        for step, seconds in batch.steps.items():
            sums[step] = sums.get(step, 0.0) + seconds
    total = sum(sums.values())
    step = max(sums, key=lambda name: sums[name], default="")
    if total < _LEAST_S or sums[step] < _DOMINATES * total or step not in _REMEDIES:
        return None
    return (
        f"{step} takes {sums[step] / total:.0%} of the time of the last batches. If the lag grows: {_REMEDIES[step]}."
    )


def without_values(whole: Document) -> Document:
    """The document for readers without access to rows."""
    return {**whole, "pipelines": [_pipeline_without_values(pipeline) for pipeline in whole["pipelines"]]}


def _pipeline_without_values(pipeline: Document) -> Document:
    parts = {key: [_without_values(part) for part in pipeline[key]] for key in ("tables", "events")}
    return {**_without_values(pipeline), **parts}


def _without_values(part: Document) -> Document:
    return {**part, "reason": part["public_reason"] if part["reason"] else ""}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {_key(key): _plain(one) for key, one in value.items()}
    return value


def _key(key: Any) -> str:
    """The key of a topic partition: ``topic-0``."""
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)
