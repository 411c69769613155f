"""Cost of rules with expressions, filters and masks in decoding, compared with the same events without them.

python -m benchmarks.column_rules [EVENTS]
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from benchmarks.json_decoding import SOURCE, TARGET, batch_of, event, measured
from paimon_table.types import DataType
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import DecodeTarget
from sources.expressions.computed import computed_column, condition, masked_column, typed
from sources.expressions.decoder import TransformingDecoder
from sources.expressions.evaluation import Column
from sources.expressions.rule_words import Leaving
from sources.expressions.transform import Transform

TYPES: dict[str, DataType] = dict(TARGET.columns)
ADDED = {
    "day": "CAST(placed_at AS DATE)",
    "gross": "total * 1.19",
    "label": "upper(status) || '/' || currency",
    "size": "CASE WHEN qty > 5 THEN 'large' ELSE 'small' END",
}


def added(*names: str) -> list[tuple[str, str | Column]]:
    return [(n, computed_column(n, ADDED[n], TYPES, typed(n, ADDED[n], TYPES))) for n in names]


def target_with(columns: list[tuple[str, str | Column]], where: str | None = None) -> DecodeTarget:
    """The target of the events with further columns, or only rows that match."""
    taken = {name for name, _ in columns}
    passed: list[tuple[str, str | Column]] = [(name, name) for name in TYPES if name not in taken]
    bound = None if where is None else condition("where", where, TYPES)
    leaving = Leaving.DELETED if where else Leaving.OMITTED
    transform = Transform((*passed, *columns), ("id",), bound, leaving)
    return replace(TARGET, transform=transform, tells_events=where is not None)


def main(events: int) -> None:
    rng = random.Random(7)
    batch = batch_of([event(i, rng) for i in range(events)], rng)
    plain = DebeziumJsonDecoder()
    decoder = TransformingDecoder(plain, {"k": b"secret"})
    mask = masked_column("status", "redact", "k", TYPES, TYPES["status"])
    base = measured("no rule with expressions", events, lambda: plain.decode(batch, {SOURCE: TARGET}))
    cases = {
        "another table of the pipeline has expressions": TARGET,
        "names alone": target_with([("state", "status")]),
        "one computed column": target_with(added("day")),
        "four computed columns": target_with(added(*ADDED)),
        "a filter that takes two thirds": target_with([], "status <> 'new'"),
        "a keyed hash of 3 values": target_with([("status", mask)]),
        "a keyed hash of as many values as rows": target_with(
            [("updated_at", masked_column("updated_at", "redact", "k", TYPES, TYPES["status"]))]
        ),
    }
    for what, goal in cases.items():
        seconds = measured(what, events, lambda goal=goal: decoder.decode(batch, {SOURCE: goal}))  # type: ignore[misc]
        print(f"    {seconds / base:.2f} times the first")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
