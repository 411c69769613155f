"""Kinds of tables for journeys, each about one thing: its columns and options, and how often which step happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.differential.columns import BOOLEAN, DATE, DOUBLE, INT, TEXT, Column, ValueType
from tests.differential.drawing import PLANS, Plan, groups_plan, plain_columns, sequence_columns, sequence_options
from tests.support.plain_values import Plain

ADDS = ("+I", "+I", "+U")
ALL_KINDS = ("+I", "+I", "+I", "+U", "-U", "-D")


@dataclass(frozen=True, slots=True)
class Sketch:
    """A table whose journey is drawn."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    options: Mapping[str, str]
    partition_by: tuple[str, ...] = ("p",)
    kinds: tuple[str, ...] = ALL_KINDS
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of steps beside writes, which have 5."""
    full_share: float = 0.15
    """How many writes compact all; 1 where it matters when compactions run."""
    one_row_a_key: bool = False
    twin_options: Mapping[str, str] = field(default_factory=lambda: {"bucket": "1"})
    ages: tuple[Plain, Plain] | None = None
    """Times of the last column that have expired, and that stay for decades; those of a key do not go back."""


def choice(*values: Plain) -> ValueType:
    return ValueType("STRING", lambda rng: rng.choice(values))


PLACE = Column("p", choice("x", "y", "a b=c:%"), null_share=0)
KEY = Column("k", replace(INT, draw=lambda rng: rng.randint(1, 6)), null_share=0)
VALUES = (Column("v", INT), Column("s", TEXT), Column("n", replace(INT, sql="BIGINT")))
COMMON = {"compact": 1.0, "overwrite": 1.0, "drop": 0.7, "tag": 0.7, "roll back": 1.0}


def _postponed(rng: random.Random) -> Sketch:
    """Overwrites of tables whose rows wait for their buckets."""
    engine = rng.choice(("deduplicate", "deduplicate", "aggregation", "partial-update"))
    options = {
        "bucket": "-2",
        "merge-engine": engine,
        "postpone.default-bucket-num": rng.choice(("1", "2", "3")),
        **_overwrites(rng),
    }
    if engine == "aggregation":
        options["fields.v.aggregate-function"] = "sum"
    weights = {**COMMON, "compact": 3.0, "overwrite": 3.0, "rescale": 1.0}
    kinds = ALL_KINDS if engine == "deduplicate" else ADDS
    return Sketch((PLACE, KEY, *VALUES), ("k", "p"), options, kinds=kinds, weights=weights, full_share=0)


def _unaware(rng: random.Random) -> Sketch:
    """Tables without primary key and buckets, also sorted by Java."""
    columns = (PLACE, KEY, *plain_columns(rng, 3))
    options = {"bucket": "-1", "compaction.min.file-num": rng.choice(("2", "3", "5")), **_overwrites(rng)}
    weights = {**COMMON, "compact": 2.0, "sort": 1.0}
    return Sketch(columns, (), _stored(rng, options), kinds=ADDS, weights=weights, full_share=0, twin_options={})


def _append_buckets(rng: random.Random) -> Sketch:
    """Tables without primary key whose buckets keep the order of their rows."""
    columns = (PLACE, KEY, *plain_columns(rng, 3))
    options = {
        "bucket": rng.choice(("1", "2", "3")),
        "bucket-key": "k",
        "compaction.min.file-num": rng.choice(("2", "3", "5")),
        **_overwrites(rng),
    }
    return Sketch(columns, (), _stored(rng, options), kinds=ADDS, weights={**COMMON, "compact": 2.0}, full_share=0.2)


def _branches(rng: random.Random) -> Sketch:
    """Branches that both write, and that take the place of the table."""
    weights = {**COMMON, "tag": 2.0, "branch": 4.0, "fast forward": 1.0, "drop tag": 0.3}
    return Sketch((PLACE, KEY, *VALUES), ("k", "p"), _keyed(rng), weights=weights)


def _places(rng: random.Random) -> Sketch:
    """Texts of partitions that are hard on names of directories."""
    options = _keyed(rng)
    texts: list[Plain] = ["x y", "a=b", "100%", "%2F", "", None, "é☃", "\U0001f600", "z" * 200, "'q\"", "a:b", "x'"]
    texts += ["\t", "\\", "a\nb", "{}", "[x]", "#", "?", "..", ".", "~", "a&b", "+", ",", "null", " x ", "é" * 60]
    if options["changelog-producer"] != "lookup":
        texts += ["a/b", "/", "a//b", "../x"]
    few = tuple(rng.sample(texts, 5))
    place = Column("p", choice(*few), null_share=0)
    others = (Column("q", choice(*rng.sample(texts, 3)), null_share=0),) if rng.random() < 0.3 else ()
    columns, partition_by = (place, *others, KEY, *VALUES), ("p", *(column.name for column in others))
    if rng.random() < 0.4:
        options = _stored(rng, {"bucket": "-1", **_overwrites(rng)})
        return Sketch(columns, (), options, partition_by, ADDS, {**COMMON, "drop": 2.0}, 0, twin_options={})
    without_null = [replace(c, type=_without_null(c.type)) if c.name in partition_by else c for c in columns]
    key = ("k", *partition_by)
    return Sketch(tuple(without_null), key, options, partition_by, weights={**COMMON, "drop": 2.0})


def _without_null(t: ValueType) -> ValueType:
    def draw(rng: random.Random) -> Plain:
        drawn = t.draw(rng)
        return "none" if drawn is None else drawn

    return replace(t, draw=draw)


_PARTITION_TYPES = (
    DATE,
    BOOLEAN,
    ValueType("DECIMAL(10, 2)", lambda rng: rng.choice(("-1.50", "0.00", "1000.01"))),
    ValueType("DECIMAL(30, 4)", lambda rng: rng.choice(("-1.5000", "0.0000", "12345678901234567890.2500"))),
    ValueType("TIMESTAMP(3)", lambda rng: rng.choice(("1960-01-01 00:00:00.001", "2024-01-01 00:00:00.000"))),
    ValueType("INT", lambda rng: rng.choice((-1, 0, 7))),
    ValueType("BIGINT", lambda rng: rng.choice((-(2**40), 3))),
    ValueType("TINYINT", lambda rng: rng.choice((-128, 5))),
    ValueType("VARCHAR(5)", lambda rng: rng.choice(("a", "é", "a b"))),
    ValueType("CHAR(3)", lambda rng: rng.choice(("abc", "a c"))),
)


def _partition_types(rng: random.Random) -> Sketch:
    """Several partition columns, of other types than texts."""
    chosen = rng.sample(_PARTITION_TYPES, rng.choice((1, 2, 2, 3)))
    keyed = rng.random() < 0.6
    null_share = 0 if keyed else 0.15
    parts = tuple(Column("pqr"[i], t, null_share=null_share) for i, t in enumerate(chosen))
    partition_by = tuple(column.name for column in parts)
    columns = (*parts, KEY, *VALUES)
    if keyed:
        options = _keyed(rng)
        return Sketch(columns, ("k", *partition_by), options, partition_by, weights={**COMMON, "drop": 2.0})
    options = _stored(rng, {"bucket": "-1", **_overwrites(rng)})
    return Sketch(columns, (), options, partition_by, ADDS, {**COMMON, "drop": 2.0}, 0, twin_options={})


def _vectors(rng: random.Random) -> Sketch:
    """Rows that are marked in deletion vectors, of files large enough to stay."""
    key = replace(KEY, type=replace(INT, draw=lambda rng: rng.randint(1, 25)))
    options = {
        **_keyed(rng, ("none", "lookup", "input")),
        "deletion-vectors.enabled": "true",
        "num-sorted-run.compaction-trigger": rng.choice(("3", "5", "9")),
    }
    if rng.random() < 0.3:
        options["deletion-vectors.bitmap64"] = "true"
    if rng.random() < 0.3:
        options["deletion-vector.index-file.target-size"] = "1 b"
    if rng.random() < 0.3:
        options["bucket"] = "-1"
    return Sketch((PLACE, key, *VALUES), ("k", "p"), options, weights={**COMMON, "rescale": 0.7, "compact": 0.5})


def _append_vectors(rng: random.Random) -> Sketch:
    """Rows of tables without primary key that are marked in deletion vectors, which only Java does."""
    options = {
        "bucket": "-1",
        "deletion-vectors.enabled": "true",
        "compaction.min.file-num": rng.choice(("2", "3", "5")),
        "compaction.delete-ratio-threshold": rng.choice(("0.2", "0.9")),
        **_overwrites(rng),
    }
    if rng.random() < 0.3:
        options["deletion-vectors.bitmap64"] = "true"
    if rng.random() < 0.3:
        options["deletion-vector.index-file.target-size"] = "1 b"
    weights = {**COMMON, "delete": 5.0, "compact": 2.0}
    if rng.random() < 0.5:
        options |= {"bucket": rng.choice(("1", "2")), "bucket-key": "k"}
        weights |= {"expire": 1.0, "roll back": 0.0, "roll back to tag": 0.7}
    columns = (PLACE, KEY, *VALUES)
    return Sketch(columns, (), _stored(rng, options), kinds=ADDS, weights=weights, full_share=0, twin_options={})


def _long_places(rng: random.Random) -> Sketch:
    """Names of partitions that are as long as a file system takes them, and longer ones, which nobody takes."""
    place = Column("p", choice("x", "z" * 253, "é" * 126, "%" * 84), null_share=0)
    weights = {**COMMON, "drop": 1.5, "refused": 4.0}
    columns = (place, KEY, *VALUES)
    if rng.random() < 0.5:
        options = _stored(rng, {"bucket": "-1", **_overwrites(rng)})
        return Sketch(columns, (), options, kinds=ADDS, weights=weights, full_share=0, twin_options={})
    # Java's lookup files have the values of the partition in their names.
    return Sketch(columns, ("k", "p"), _keyed(rng, ("none", "input")), weights=weights)


TOO_LONG = ("z" * 254, "é" * 127, "%" * 85, "a/b" * 60)
"""Texts of ``_long_places`` with names of 256 bytes and more."""


def _changelogs(rng: random.Random) -> Sketch:
    """Changelogs of each producer and engine, compared change by change."""
    producer = rng.choice(("input", "lookup", "full-compaction"))
    engine = rng.choice(("deduplicate", "aggregation", "partial-update"))
    options = {**_keyed(rng), "changelog-producer": producer, "merge-engine": engine}
    if engine == "aggregation":
        options |= {"fields.v.aggregate-function": "sum", "fields.n.aggregate-function": "max"}
    kinds = ALL_KINDS if engine == "deduplicate" else ADDS
    full = 1.0 if producer == "full-compaction" else 0.15
    return Sketch((PLACE, KEY, *VALUES), ("k", "p"), options, kinds=kinds, weights=COMMON, full_share=full)


def _schemas(rng: random.Random) -> Sketch:
    """Columns that come, widen, get other names and go on the way."""
    weights = {**COMMON, "alter": 4.0, "branch": 0.5}
    options = _keyed(rng)
    if rng.random() < 0.3:
        options = _stored(rng, {"bucket": "-1", **_overwrites(rng)})
        return Sketch((PLACE, KEY, *VALUES), (), options, kinds=ADDS, weights=weights, full_share=0, twin_options={})
    return Sketch((PLACE, KEY, *VALUES, Column("d", DOUBLE)), ("k", "p"), options, weights=weights)


def _retracts(rng: random.Random) -> Sketch:
    """Aggregations that take back."""
    while True:
        plan = PLANS["aggregation"](rng)
        if len(plan.kinds) > 4 and _is_ordered(plan):
            break
    return _merged(rng, plan, "aggregation")


def _groups(rng: random.Random) -> Sketch:
    """Partial updates with sequence groups."""
    while True:
        plan = groups_plan(rng)
        if _is_ordered(plan):
            break
    return _merged(rng, plan, "partial-update")


def _sequences(rng: random.Random) -> Sketch:
    """Rows that are ordered by columns of theirs."""
    engine = rng.choice(("deduplicate", "deduplicate", "partial-update", "aggregation"))
    while True:
        plan, sequence = PLANS[engine](rng), sequence_columns(rng)
        if sequence and _is_ordered(plan) and not any("sequence-group" in name for name in plan.options):
            break
    options = sequence_options(rng, sequence)
    plan = replace(plan, columns=(*plan.columns, *sequence), options={**plan.options, **options})
    return replace(_merged(rng, plan, engine), one_row_a_key="sequence.field.sort-order" in options)


def _is_ordered(plan: Plan) -> bool:
    """Whether the values of all columns have one form only."""
    return not any(c.unordered or c.options.get("aggregate-function") == "rbm64" for c in plan.columns)


def _merged(rng: random.Random, plan: Plan, engine: str) -> Sketch:
    """What depends on when compactions run is compacted at every write."""
    options = {**_keyed(rng), "merge-engine": engine, **plan.options}
    options["changelog-producer"] = rng.choice(("none", "lookup", "full-compaction", "input"))
    for column in plan.columns:
        options |= {f"fields.{column.name}.{name}": value for name, value in column.options.items()}
    columns = (PLACE, KEY, *plan.columns)
    return Sketch(columns, ("k", "p"), options, kinds=plan.kinds, weights=COMMON, full_share=1.0)


def _expiry(rng: random.Random) -> Sketch:
    """Snapshots that one expires while the other one writes."""
    weights = {**COMMON, "expire": 4.0, "tag": 1.5, "drop tag": 1.0, "roll back": 0.0, "roll back to tag": 0.7}
    if rng.random() < 0.3:
        options = {"bucket": "2", "bucket-key": "k", **_overwrites(rng)}
        return Sketch((PLACE, KEY, *VALUES), (), _stored(rng, options), kinds=ADDS, weights=weights)
    return Sketch((PLACE, KEY, *VALUES), ("k", "p"), _keyed(rng), weights=weights)


def _row_expiry(rng: random.Random) -> Sketch:
    """Rows that go for their age, by times of every type."""
    times: Mapping[str, tuple[Plain, Plain]] = {
        "INT": (1_000_000_000, 2_147_000_000),
        "BIGINT": (1_000_000_000_000, 4_000_000_000_000),
        "TIMESTAMP(3)": ("2001-09-09 01:46:40.000", "2096-10-02 07:06:40.000"),
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": ("2001-09-09 01:46:40.000000", "2096-10-02 07:06:40.000000"),
    }
    sql = rng.choice(list(times))
    old, far = times[sql]
    time = Column("n", ValueType(sql, lambda rng: rng.choice((old, far))), null_share=0.1)
    options = {**_keyed(rng), "record-level.expire-time": "1 d", "record-level.time-field": "n"}
    weights = {**COMMON, "compact": 3.0}
    columns = (PLACE, KEY, *VALUES[:2], time)
    return Sketch(columns, ("k", "p"), options, kinds=ADDS, weights=weights, full_share=1.0, ages=(old, far))


# ---------------------------------------------------------------- options


def _overwrites(rng: random.Random) -> dict[str, str]:
    return {"dynamic-partition-overwrite": "false"} if rng.random() < 0.5 else {}


def _stored(rng: random.Random, options: dict[str, str]) -> dict[str, str]:
    if rng.random() < 0.4:
        options["file.format"] = rng.choice(("orc", "avro"))
    return options


def _keyed(rng: random.Random, producers: tuple[str, ...] = ("none", "none", "lookup", "input")) -> dict[str, str]:
    """Of a table with a primary key and fixed buckets."""
    options = {
        "bucket": rng.choice(("1", "2", "3")),
        "changelog-producer": rng.choice(producers),
        "num-sorted-run.compaction-trigger": rng.choice(("2", "3", "5")),
        **_overwrites(rng),
    }
    return _stored(rng, options)


KINDS: Mapping[str, Callable[[random.Random], Sketch]] = {
    "postponed": _postponed,
    "unaware": _unaware,
    "append-buckets": _append_buckets,
    "branches": _branches,
    "places": _places,
    "partition-types": _partition_types,
    "vectors": _vectors,
    "append-vectors": _append_vectors,
    "long-places": _long_places,
    "changelogs": _changelogs,
    "schemas": _schemas,
    "retracts": _retracts,
    "groups": _groups,
    "sequences": _sequences,
    "expiry": _expiry,
    "row-expiry": _row_expiry,
}
