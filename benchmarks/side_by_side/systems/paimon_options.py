"""The options of a Paimon table that a workload asks for, whichever system writes it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.side_by_side.workloads import Workload

FUNCTIONS = {"sum": "sum", "max": "max", "count": "sum"}
"""By fold. Current versions of Java Paimon have no ``count``: every event adds 1. The default keeps the last value."""
ENGINES = {
    "deduplicate": {},
    # Java refuses the old row of an update as a delete, unless an option says what to do with it.
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {"merge-engine": "aggregation"},
}


def paimon_options(workload: Workload) -> Mapping[str, str]:
    """One set for all systems, so that they do the same work."""
    if workload.is_append:
        return {"bucket": "-1"}
    return {
        "bucket": "2",
        "changelog-producer": "lookup",
        **ENGINES[workload.merge_engine],
        **{
            f"fields.{column.name}.aggregate-function": FUNCTIONS[column.fold]
            for column in workload.columns
            if column.fold != "last"
        },
    }
