"""A view of a run as plain data for JSON: what `status --json` prints, the state file keeps and the page gets."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pipelines.live.views import RunView

Document = dict[str, Any]


def document(run: RunView) -> Document:
    """The whole view; keys are the names of its fields, and ``lag_records`` and ``lag_s`` stand in each pipeline.

    Of each reason there is the one that may hold values of rows, and the public one.
    """
    plain: Document = _plain(run)
    for shown, pipeline in zip(plain["pipelines"], run.pipelines, strict=True):
        shown["lag_records"], shown["lag_s"] = pipeline.lag_records, pipeline.lag_s
    return plain


def without_values(whole: Document) -> Document:
    """The document for those who may not see rows."""
    pipelines = [_without_values(pipeline) for pipeline in whole["pipelines"]]
    return {**whole, "pipelines": [{**p, "tables": [_without_values(t) for t in p["tables"]]} for p in pipelines]}


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
    """A partition of a topic stands as ``topic-0``."""
    return "-".join(map(str, key)) if isinstance(key, tuple) else str(key)
