"""Draws a history from a seed: engine and producer go round, everything else is random among what is allowed.

Rows of a history are few and their keys and values fewer still, so that they meet. Deletes are drawn only where every
function of the table takes them, because otherwise most histories would end at the first one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.differential.columns import FUNCTIONS, INT, SCALARS, TEXT, Column, Function, ValueType
from tests.differential.history import Commit, History, Row

_ENGINES = {
    "deduplicate": ("none", "input", "lookup", "full-compaction"),
    "first-row": ("none", "lookup"),
    "partial-update": ("none", "input", "lookup", "full-compaction"),
    "aggregation": ("none", "input", "lookup", "full-compaction"),
}
COMBINATIONS = tuple((engine, producer) for engine, producers in _ENGINES.items() for producer in producers)

_SEQUENCE = ValueType("INT", lambda rng: rng.randint(0, 9))
_TEXT_SEQUENCE = ValueType("STRING", lambda rng: rng.choice(("", "1", "10", "2", "B", "a", "é")))
_SHARE_WITHOUT_KEY = 0.08
_LARGE = 60
_ADDS = ("+I", "+I", "+I", "+I", "+U")
_ALL_KINDS = ("+I", "+I", "+I", "+I", "+U", "-U", "-D", "-D")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one engine adds to the common part; ``columns`` come after the key and before the sequence columns."""

    columns: tuple[Column, ...]
    options: dict[str, str]
    kinds: tuple[str, ...]


def draw_history(seed: int) -> History:
    """The history of a seed, the same on every machine."""
    kinds_of_tables = random.Random(f"key of {seed}")
    if kinds_of_tables.random() < _SHARE_WITHOUT_KEY:
        return _without_key(kinds_of_tables)
    rng = random.Random(seed)
    engine, producer = COMBINATIONS[seed % len(COMBINATIONS)]
    plan = PLANS[engine](rng)
    sequence = sequence_columns(rng) if engine != "first-row" else ()
    columns = (*_key_columns(rng), *plan.columns, *sequence)
    options = {
        "merge-engine": engine,
        "changelog-producer": producer,
        **plan.options,
        **sequence_options(rng, sequence),
        **_producer_options(rng, producer, plan.columns),
        **_compaction_options(rng),
        **storage_options(rng, engine, producer),
        **_bucket_options(random.Random(f"buckets of {seed}")),
    }
    for column in columns:
        options |= {f"fields.{column.name}.{option}": value for option, value in column.options.items()}
    one_row_a_key = options.get("sequence.field.sort-order") == "descending"
    return History(
        columns=tuple((column.name, column.type.sql) for column in columns),
        primary_key=tuple(column.name for column in columns if column.name.startswith("k")),
        options=options,
        commits=_commits(rng, columns, plan.kinds, producer, one_row_a_key),
        keeps_writer=rng.random() < 0.5,
        unordered=tuple(column.name for column in columns if column.unordered),
    )


def _without_key(rng: random.Random) -> History:
    """A table without primary key, with buckets or without; Java's writers compact only where there are some."""
    columns = (Column("k", INT), *plain_columns(rng, rng.randint(1, 3)))
    has_buckets = rng.random() < 0.5
    options = {"bucket": rng.choice(("1", "2")), "bucket-key": "k"} if has_buckets else {"bucket": "-1"}
    options["compaction.min.file-num"] = rng.choice(("2", "3", "5"))
    if rng.random() < 0.5:
        options["file.format"] = rng.choice(("orc", "avro"))
    commits = _commits(rng, columns, _ADDS, "none", one_row_a_key=False)
    if not has_buckets:
        commits = tuple(Commit(commit.rows) for commit in commits if commit.rows)
    return History(
        columns=tuple((column.name, column.type.sql) for column in columns),
        primary_key=(),
        options=options,
        commits=commits,
        keeps_writer=rng.random() < 0.5,
    )


# ---------------------------------------------------------------- engines


def _deduplicate(rng: random.Random) -> Plan:
    options = rng.choice(({}, {}, {"ignore-delete": "true"}, {"ignore-update-before": "true"}))
    return Plan(plain_columns(rng, rng.randint(1, 3)), dict(options), _ALL_KINDS)


def _first_row(rng: random.Random) -> Plan:
    columns = plain_columns(rng, rng.randint(1, 3))
    if rng.random() < 0.3:
        return Plan(columns, {"first-row.ignore-delete": "true"}, _ALL_KINDS)
    return Plan(columns, {}, _ADDS)


def _partial_update(rng: random.Random) -> Plan:
    if rng.random() < 0.35:
        options = rng.choice(
            ({}, {"partial-update.ignore-delete": "true"}, {"partial-update.remove-record-on-delete": "true"})
        )
        return Plan(plain_columns(rng, rng.randint(2, 4)), dict(options), _ALL_KINDS if options else _ADDS)
    return groups_plan(rng)


def groups_plan(rng: random.Random) -> Plan:
    deletes = rng.choice(("refused", "group", "remove", "ignore"))
    columns: list[Column] = []
    options: dict[str, str] = {}
    for group in range(rng.randint(1, 2)):
        sequence = [
            Column(f"g{group}{part}", rng.choice((_SEQUENCE, _SEQUENCE, _TEXT_SEQUENCE)), null_share=0.15)
            for part in range(rng.choice((1, 1, 2)))
        ]
        protected = [
            _protected(rng, f"p{group}{part}", deletes in ("group", "remove")) for part in range(rng.randint(1, 2))
        ]
        options[f"fields.{','.join(c.name for c in sequence)}.sequence-group"] = ",".join(c.name for c in protected)
        columns += [*sequence, *protected]
    columns += plain_columns(rng, rng.randint(0, 2))
    rng.shuffle(columns)
    if deletes == "remove":
        options["partial-update.remove-record-on-sequence-group"] = "g00"
    if deletes == "ignore":
        options["partial-update.ignore-delete"] = "true"
    return Plan(tuple(columns), options, _ADDS if deletes == "refused" else _ALL_KINDS)


def _protected(rng: random.Random, name: str, retracts: bool) -> Column:
    if rng.random() < 0.5:
        return Column(name, rng.choice(SCALARS))
    return _aggregated(rng, name, retracts)


def _aggregation(rng: random.Random) -> Plan:
    deletes = rng.choice(("refused", "retracted", "removed", "ignored"))
    options = {
        "removed": {"aggregation.remove-record-on-delete": "true"},
        "ignored": {"ignore-delete": "true"},
    }.get(deletes, {})
    columns = tuple(
        _aggregated(rng, f"v{i}", deletes in ("retracted", "removed"), ignores=deletes != "removed")
        for i in range(rng.randint(1, 4))
    )
    return Plan(columns, dict(options), _ADDS if deletes == "refused" else _ALL_KINDS)


PLANS = {
    "deduplicate": _deduplicate,
    "first-row": _first_row,
    "partial-update": _partial_update,
    "aggregation": _aggregation,
}


def _aggregated(rng: random.Random, name: str, retracts: bool, ignores: bool = True) -> Column:
    """A column with an aggregate function; with ``retracts`` one that takes them or, if ``ignores``, ignores them."""
    ignoring = retracts and ignores and rng.random() < 0.25
    function: Function = rng.choice([f for f in FUNCTIONS if f.retracts or not retracts or ignoring])
    options = {"aggregate-function": function.name, **rng.choice(function.options)}
    if ignoring:
        options["ignore-retract"] = "true"
    return Column(name, rng.choice(function.types), options, unordered=function.unordered)


def plain_columns(rng: random.Random, count: int) -> tuple[Column, ...]:
    return tuple(Column(f"v{i}", rng.choice(SCALARS)) for i in range(count))


# ---------------------------------------------------------------- options


def _key_columns(rng: random.Random) -> tuple[Column, ...]:
    number = Column("k", replace(INT, draw=lambda rng: rng.randint(1, 4)), null_share=0)
    text = Column("k2", replace(TEXT, draw=lambda rng: rng.choice(("a", "é"))), null_share=0)
    return rng.choice(((number,), (number,), (number, text)))


def sequence_columns(rng: random.Random) -> tuple[Column, ...]:
    count = rng.choice((0, 0, 1, 1, 2))
    kinds = (_SEQUENCE, _SEQUENCE, _TEXT_SEQUENCE)
    return tuple(Column(f"s{i}", rng.choice(kinds), null_share=0.1) for i in range(count))


def sequence_options(rng: random.Random, columns: Sequence[Column]) -> dict[str, str]:
    if not columns:
        return {}
    options = {"sequence.field": ",".join(column.name for column in columns)}
    if rng.random() < 0.25:
        options["sequence.field.sort-order"] = "descending"
    return options


def _producer_options(rng: random.Random, producer: str, columns: Sequence[Column]) -> dict[str, str]:
    if producer not in ("lookup", "full-compaction") or rng.random() < 0.6:
        return {}
    options = {"changelog-producer.row-deduplicate": "true"}
    if rng.random() < 0.4:
        options["changelog-producer.row-deduplicate-ignore-fields"] = rng.choice(columns).name
    return options


def _compaction_options(rng: random.Random) -> dict[str, str]:
    """None, so that both pick by size; or rules under which sizes do not matter."""
    return rng.choice(
        (
            {},
            {"num-sorted-run.compaction-trigger": "100", "num-levels": "6"},
            {"num-sorted-run.compaction-trigger": "2", "compaction.max-size-amplification-percent": "0"},
            {"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "1000000"},
        )
    )


def storage_options(rng: random.Random, engine: str, producer: str) -> dict[str, str]:
    options = {}
    if engine != "first-row" and producer != "full-compaction" and rng.random() < 0.25:
        options["deletion-vectors.enabled"] = "true"
        if rng.random() < 0.3:
            options["deletion-vectors.bitmap64"] = "true"
    elif rng.random() < 0.15:
        options["force-lookup"] = "true"
    if rng.random() < 0.3:
        options["file.format"] = rng.choice(("orc", "avro"))
    return options


def _bucket_options(rng: random.Random) -> dict[str, str]:
    """Nothing, which is one bucket; or dynamic buckets, small enough for several."""
    if rng.random() < 0.7:
        return {}
    options = {"bucket": "-1", "dynamic-bucket.initial-buckets": rng.choice(("1", "1", "2"))}
    if rng.random() < 0.8:
        options["dynamic-bucket.target-row-num"] = rng.choice(("1", "2", "3"))
    if rng.random() < 0.3:
        options["dynamic-bucket.max-buckets"] = "2"
    return options


# ---------------------------------------------------------------- rows


def _commits(
    rng: random.Random, columns: Sequence[Column], kinds: Sequence[str], producer: str, one_row_a_key: bool
) -> tuple[Commit, ...]:
    commits = [_large_commit(rng, columns)] if rng.random() < 0.3 else []
    for _ in range(rng.randint(2, 7)):
        rows = [_row(rng, columns, kinds) for _ in range(rng.choice((1, 2, 3, 6, 12)))]
        if one_row_a_key:
            rows = list({repr(row[1 : 1 + _key_width(columns)]): row for row in rows}.values())
        full = rng.random() < (0.7 if producer == "full-compaction" else 0.2)
        commits.append(Commit(tuple(rows), full))
        if rng.random() < 0.1:
            commits.append(Commit((), True))
    return tuple(commits)


def _large_commit(rng: random.Random, columns: Sequence[Column]) -> Commit:
    """Many keys in the highest level: what comes later is so small that it stays on the levels between."""
    rows = [_row(rng, columns, ("+I",)) for _ in range(_LARGE)]
    return Commit(tuple((row[0], key, *row[2:]) for key, row in enumerate(rows, start=1)), True)


def _row(rng: random.Random, columns: Sequence[Column], kinds: Sequence[str]) -> Row:
    return (rng.choice(kinds), *(column.draw(rng) for column in columns))


def _key_width(columns: Sequence[Column]) -> int:
    return sum(column.name.startswith("k") for column in columns)
