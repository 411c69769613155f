"""Differences between Tidemark and the released Java Paimon that are known and meant, each with the rule behind it.

Where a history can be drawn without the difference, it is: ``example`` shows it, and a test asserts that it is still
there. Otherwise ``explains`` recognizes the mismatch. docs/PARITY.md has all of them for users.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.differential.comparison import Mismatch
from tests.differential.history import Commit, History, Row


def _never(history: History, mismatch: Mismatch) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Difference:
    """``explains`` looks at the history up to the mismatch and at the mismatch itself."""

    name: str
    why: str
    example: History
    explains: Callable[[History, Mismatch], bool] = _never


_NESTED = "ARRAY<ROW<id INT, v STRING, s INT>>"


def _example(sql: str, options: Mapping[str, str], *commits: tuple[Row, ...]) -> History:
    columns = (("k", "INT"), ("v", sql))
    return History(columns, ("k",), options, tuple(Commit(rows) for rows in commits), unordered=("v",))


def _compacted_last(sql: str, options: Mapping[str, str], *commits: tuple[Row, ...]) -> History:
    """An example whose last commit compacts all, so that both have the same levels however large their files are."""
    history = _example(sql, options, *commits)
    return history.with_commits((*history.commits[:-1], replace(history.commits[-1], full_compact=True)))


def _nested(**options: str) -> dict[str, str]:
    named = {f"fields.v.{name.replace('_', '-')}": value for name, value in options.items()}
    return {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "nested_update",
        "fields.v.nested-key": "id",
        **named,
    }


def _repeated_rows(history: History, mismatch: Mismatch) -> list[Row] | None:
    """The compared columns of every row that one of them emits as -U/+U, unchanged, and the other not at all.

    None if ``row-deduplicate`` is off or the mismatch is about anything else too.
    """
    if history.options.get("changelog-producer.row-deduplicate") != "true" or not mismatch.changes:
        return None
    ignored = history.options.get("changelog-producer.row-deduplicate-ignore-fields", "").split(",")
    compared = [i for i, (name, _) in enumerate(history.columns, start=1) if name not in ignored]
    out = []
    for one, other in mismatch.changes.values():
        rows = one or other
        if (one and other) or [row[0] for row in rows] != ["-U", "+U"]:
            return None
        before, after = (tuple(row[i] for i in compared) for row in rows)
        if before != after:
            return None
        out.append(after)
    return out


def _repeats_rows_with_inner_nulls(history: History, mismatch: Mismatch) -> bool:
    rows = _repeated_rows(history, mismatch)
    by_java_alone = all(not own for _, own in mismatch.changes.values())
    return rows is not None and by_java_alone and all(map(_has_inner_null, rows))


def _has_inner_null(row: Row) -> bool:
    return any(isinstance(value, list) and "null" in json.dumps(value) for value in row)


def _repeats_rows_in_free_order(history: History, mismatch: Mismatch) -> bool:
    return bool(history.unordered) and _repeated_rows(history, mismatch) is not None


def _loses_older_values(history: History, mismatch: Mismatch) -> bool:
    """Rows on a level in between, which only merges over several commits make, of engines that merge values."""
    options = history.options
    return (
        options.get("force-lookup") == "true"
        and history.producer == "full-compaction"
        and history.engine in {"partial-update", "aggregation"}
        and mismatch.side == "both"
        and mismatch.aspect in {"content", "changes"}
        and mismatch.commit > 1
    )


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "row-deduplicate of NULL inside arrays and maps",
        "To Java two arrays or maps with a NULL inside are never equal; equal rows should make no changelog.",
        _example(
            "ARRAY<INT>",
            {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
            (("+I", 1, [None]),),
            (("+I", 1, [None]),),
        ),
        _repeats_rows_with_inner_nulls,
    ),
    Difference(
        "force-lookup with producer full-compaction",
        "Java's compactions below the highest level do not look up, yet their rows stand for those above.",
        replace(
            _example(
                "INT",
                {
                    "merge-engine": "aggregation",
                    "fields.v.aggregate-function": "sum",
                    "changelog-producer": "full-compaction",
                    "force-lookup": "true",
                    "num-sorted-run.compaction-trigger": "100",
                    "num-levels": "6",
                },
            ),
            commits=(
                Commit(tuple(("+I", key, 1) for key in range(1, 61)), True),
                Commit((("+I", 1, 10),)),
                Commit((("+I", 1, 100),)),
            ),
        ),
        _loses_older_values,
    ),
    Difference(
        "sequence.field.sort-order among rows of one flush",
        "Java 1.4.2 honours the order across files only; among rows of one flush it sorts ascending.",
        _example(
            "INT",
            {"sequence.field": "v", "sequence.field.sort-order": "descending"},
            (("+I", 1, 3), ("+I", 1, 5)),
        ),
    ),
    Difference(
        "nested-sequence-field",
        "Java 1.4.2 does not know the option.",
        _example(_NESTED, _nested(nested_sequence_field="s"), (("+I", 1, [[1, "x", 3]]), ("+I", 1, [[1, "y", 2]]))),
    ),
    Difference(
        "nested-key-null-strategy",
        "Java 1.4.2 does not know the option.",
        _example(
            _NESTED,
            _nested(nested_key_null_strategy="ignore"),
            (("+I", 1, []), ("+I", 1, [[None, "y", 2]])),
        ),
    ),
    Difference(
        "count-limit with nested-key",
        "Java 1.4.2 takes no more rows when the limit is reached, not even for nested keys that exist.",
        _example(_NESTED, _nested(count_limit="1"), (("+I", 1, [[1, "x", 3]]), ("+I", 1, [[1, "y", 2]]))),
    ),
    Difference(
        "first array of nested_update",
        "Java 1.4.2 takes the first array that is not NULL as it is, even if it repeats a nested key.",
        _example(_NESTED, _nested(), (("+I", 1, None), ("+I", 1, [[1, "x", 3], [1, "y", 2]]))),
    ),
    Difference(
        "blank first text of listagg",
        "Java 1.4.2 keeps an empty text that comes first until another follows; the reference leaves blank texts out.",
        _example(
            "STRING",
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"},
            (("+I", 1, ""), ("+I", 1, None)),
        ),
    ),
    Difference(
        "row-deduplicate of arrays in free order",
        "The order of nested rows is a hash map's in Java and that of arrival here, where a late row may change it.",
        replace(
            _compacted_last(
                _NESTED,
                {
                    **_nested(),
                    "sequence.field": "s",
                    "changelog-producer": "lookup",
                    "changelog-producer.row-deduplicate": "true",
                },
                (("+I", 1, [[1, "x", 0]], 1), ("+I", 1, [[2, "x", 0]], 3)),
                (("+I", 1, [[2, "x", 9]], 2),),
            ),
            columns=(("k", "INT"), ("v", _NESTED), ("s", "INT")),
        ),
        _repeats_rows_in_free_order,
    ),
)


def explanation_of(history: History, mismatch: Mismatch) -> Difference | None:
    seen = history.with_commits(history.commits[: mismatch.commit])
    return next((difference for difference in DIFFERENCES if difference.explains(seen, mismatch)), None)
