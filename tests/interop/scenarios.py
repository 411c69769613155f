"""Histories of tables that cover what independent readers must agree on; each can be written by Tidemark or by Java."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paimon_table.types import DataType, parse_type, string
from tests.support.plain_values import Plain

Row = list[Plain]
Change = tuple[str, str, DataType] | tuple[str, str, str] | tuple[str, str]
"""("add" | "type", column, type), ("rename", column, name), ("drop", column), as ``JavaPaimon.alter`` takes it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit, or a schema change before it."""

    rows: tuple[Row, ...] = ()
    compact: bool = False
    alter: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    columns: tuple[tuple[str, DataType], ...]
    primary_key: tuple[str, ...]
    steps: tuple[Step, ...]
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    skipped_readers: frozenset[str] = frozenset()
    """Readers with a known gap for this table, each explained where the scenario is made; of "rust-changes" only the
    changelog read."""

    def with_options(self, name: str, options: Mapping[str, str]) -> Scenario:
        return replace(self, name=f"{self.name}-{name}", options={**self.options, **options})


def _columns(**types: str) -> tuple[tuple[str, DataType], ...]:
    return tuple((name, parse_type(text)) for name, text in types.items())


def _put(*values: Any) -> Row:
    return ["+I", *values]


def _delete(*values: Any) -> Row:
    return ["-D", *values]


# ---------------------------------------------------------------- types

_TYPED: dict[str, tuple[Plain, Plain, Plain]] = {
    "BOOLEAN": (True, False, True),
    "TINYINT": (-128, 127, 0),
    "SMALLINT": (-32768, 32767, 300),
    "INT": (-(2**31), 2**31 - 1, 7),
    "BIGINT": (-(2**63), 2**63 - 1, 1234567890123),
    "FLOAT": (-3.4028234663852886e38, "NaN", -0.0),
    "DOUBLE": ("-Infinity", 1.7976931348623157e308, 2.5e-320),
    "DECIMAL(4, 2)": ("-99.99", "99.99", "0.00"),
    "DECIMAL(18, 6)": ("-999999999999.999999", "0.000001", "123.450000"),
    "DECIMAL(20, 0)": ("-128", "99999999999999999999", "0"),
    "DECIMAL(38, 10)": ("-9999999999999999999999999999.9999999999", "0.0000000001", "1.0000000000"),
    "CHAR(3)": ("abc", "é中文", "a b"),
    "VARCHAR(10)": ("", "0123456789", "\U0001f600 �"),
    "STRING": ("a longer string that is cut in statistics", "\U0010ffff" * 20, "x'\"\\\n\t"),
    "BINARY(2)": ("0x00ff", "0xffff", "0x0000"),
    "VARBINARY(20)": ("0x", "0x" + "ff" * 20, "0x01"),
    "BYTES": ("0x" + "ff" * 17, "0x" + "00" * 40, "0x80"),
    "DATE": ("0001-01-01", "9999-12-31", "1969-12-31"),
    "TIME(0)": ("00:00:00.000", "23:59:59.000", "12:00:00.000"),
    "TIME(3)": ("00:00:00.001", "23:59:59.999", "12:34:56.789"),
    "TIMESTAMP(0)": ("1969-12-31 23:59:59.000", "9999-12-31 23:59:59.000", "2024-02-29 12:00:00.000"),
    "TIMESTAMP(3)": ("1969-12-31 23:59:59.999", "2038-01-19 03:14:08.001", "0001-01-01 00:00:00.000"),
    "TIMESTAMP(6)": ("1969-12-31 23:59:59.999999", "2262-04-11 23:47:16.854775", "0001-01-01 00:00:00.000001"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": (
        "1969-12-31 23:59:59.999",
        "2038-01-19 03:14:08.001",
        "2024-01-01 00:00:00.000",
    ),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (
        "1969-12-31 23:59:59.999999",
        "2024-01-01 00:00:00.000001",
        "2024-07-01 00:00:00.000000",
    ),
}

_NANOSECONDS: dict[str, tuple[Plain, Plain, Plain]] = {
    "TIMESTAMP(9)": ("1969-12-31 23:59:59.999999999", "2262-04-11 23:47:16.854775807", "2024-01-02 03:04:05.678901234"),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": (
        "1969-12-31 23:59:59.999999999",
        "2024-01-01 00:00:00.000000001",
        "2024-07-01 00:00:00.000000000",
    ),
}

_NESTED: dict[str, tuple[Plain, Plain, Plain]] = {
    "ARRAY<INT>": ([], [1, None, 3], [None]),
    "ARRAY<STRING NOT NULL>": (["", "a"], ["é"], []),
    "ARRAY<ARRAY<DECIMAL(10, 2)>>": ([["1.50", None], None, []], [], [["0.00"]]),
    "MAP<STRING, BIGINT>": ([["a", 1], ["b", None]], [], [["", 2**60]]),
    "MAP<INT, ROW<x TIMESTAMP(6), y ARRAY<BYTES>>>": (
        [[1, ["2024-01-01 00:00:00.000001", ["0x00", None]]], [2, None]],
        [[3, [None, None]]],
        [],
    ),
    "ROW<a INT, b STRING, c ROW<d DATE, e DOUBLE>>": (
        [1, "x", ["2024-01-01", 1.5]],
        [None, None, None],
        [2, "", [None, "NaN"]],
    ),
    "ARRAY<ROW<k STRING, v DECIMAL(20, 2)>>": ([["a", "1.00"], None], [[None, None]], []),
}


_MULTISETS: dict[str, tuple[Plain, Plain, Plain]] = {
    "MULTISET<STRING>": ([["a", 2], ["b", 1]], [], [["c", 7]]),
}


def _typed_table(name: str, types: Mapping[str, tuple[Plain, Plain, Plain]], *skipped: str) -> Scenario:
    columns = (("id", parse_type("INT")), *((f"c{i}", parse_type(t)) for i, t in enumerate(types)))
    rows = [_put(i, *(values[i] for values in types.values())) for i in range(3)]
    nothing = [_put(3, *(None for _ in types))]
    updated = [["+U", 1, *(values[2] for values in types.values())], ["+U", 3, *(v[0] for v in types.values())]]
    steps = (Step((*rows, *nothing)), Step(tuple(updated)), Step(compact=True), Step((_put(4, *rows[0][2:]),)))
    return Scenario(name, columns, ("id",), steps, options={"bucket": "1"}, skipped_readers=frozenset(skipped))


ALL_TYPES = _typed_table("all-types", _TYPED)
NANOSECONDS = _typed_table("nanoseconds", _NANOSECONDS, "pypaimon")  # its merge read cuts them to microseconds
MIXED_TIMESTAMPS = _typed_table(
    "mixed-timestamps", {**_NANOSECONDS, "TIMESTAMP(6)": _TYPED["TIMESTAMP(6)"]}, "pypaimon", "rust"
)  # both cut the range of INT96 columns to that of nanoseconds
NESTED_TYPES = _typed_table("nested-types", _NESTED)
MULTISETS = _typed_table(
    "multisets", _MULTISETS, "pypaimon", "rust"
)  # unknown to the one, not valid Arrow in the other


def _typed_keys(name: str, types: Mapping[str, tuple[Plain, Plain, Plain]], *skipped: str) -> Scenario:
    """A composite key with one column of each type."""
    names = [f"k{i}" for i in range(len(types))]
    columns = (*zip(names, map(parse_type, types), strict=True), ("v", string()))
    picks = [(i, j) for i in range(3) for j in range(3)]
    rows = [_put(*(v[i if n % 2 else j] for n, v in enumerate(types.values())), f"{i}{j}") for i, j in picks]
    again = [["+U", *row[1:-1], f"{row[-1]} again"] for row in rows[::2]]
    steps = (Step(tuple(rows)), Step((*again, ["-D", *rows[1][1:]])))
    return Scenario(
        name, tuple(columns), tuple(names), steps, options={"bucket": "4"}, skipped_readers=frozenset(skipped)
    )


KEYS_OF_ALL_TYPES = _typed_keys(
    "keys-of-all-types", {t: values for t, values in _TYPED.items() if t not in {"FLOAT", "DOUBLE"}}
)
NANOSECOND_KEYS = _typed_keys("nanosecond-keys", _NANOSECONDS, "pypaimon")

# Without NaN and -0.0: Java 1.4 takes NaN for equal to every number and both zeros for one key, later versions do not.
FLOAT_KEYS = Scenario(
    "float-keys",
    _columns(k="DOUBLE", f="FLOAT", v="INT"),
    ("k", "f"),
    (
        Step(tuple(_put(k, f, 1) for k in ("Infinity", "-Infinity", -1.5, 0.0, 2.5e-320) for f in (1e30, 0.0, -2.5))),
        Step((_put("Infinity", 0.0, 2), _put(0.0, 0.0, 2), _delete(-1.5, 0.0, 2))),
        Step(compact=True),
    ),
    options={"bucket": "1"},
)

STRING_KEYS = Scenario(
    "string-keys",
    _columns(k="STRING", v="INT"),
    ("k",),
    (
        Step(
            tuple(_put(k, i) for i, k in enumerate(["b", "B", "a", "é", "z", "", "\uffff", "\U0001f600", "ab", "a\0"]))
        ),
        Step((_put("\uffff", 100), _put("", 101), _delete("é", 0))),
        Step((_put("a longer key than fits into one slot", 7), _put("abcdefgh", 8), _put("abcdefg", 9))),
    ),
    options={"bucket": "1"},
)

# ---------------------------------------------------------------- partitions

PARTITION_TEXTS = ("plain", "a b/c=d:%é#", "", "   ", "x[y]{z}^\\?*'\"", "中文", "a\nb")

PARTITIONS = Scenario(
    "partitions",
    _columns(k="INT", p="STRING", d="DATE", v="STRING"),
    ("k", "p", "d"),
    (
        Step(tuple(_put(i, p, "2024-01-01", f"{i}") for i, p in enumerate(PARTITION_TEXTS))),
        Step((_put(0, "plain", "1969-12-31", "old"), _put(0, "", "1969-12-31", "other"))),
        Step((_delete(1, "a b/c=d:%é#", "2024-01-01", "1"), _put(3, "   ", "2024-01-01", "blank again"))),
        Step(compact=True),
    ),
    ("p", "d"),
    {"bucket": "2"},
)

_TYPED_PARTITION_VALUES: dict[str, tuple[Plain, ...]] = {
    "BOOLEAN": (True, False),
    "BIGINT": (-5, 2**40),
    "DECIMAL(10, 2)": ("1.50", "-0.01"),
    "DATE": ("2024-01-01", "1969-12-31"),
    "TIMESTAMP(6)": ("2024-01-02 03:04:05.678901", "2024-01-02 00:00:00.000000"),
    "TIMESTAMP(3)": ("2024-01-02 03:04:05.600", "1969-12-31 23:59:59.999"),
    "CHAR(4)": ("abcd", "é   "),
}


def _typed_partitions(name: str, options: Mapping[str, str]) -> Scenario:
    types = _TYPED_PARTITION_VALUES
    names = [f"p{i}" for i in range(len(types))]
    columns = (("k", parse_type("INT")), *zip(names, map(parse_type, types), strict=True), ("v", parse_type("INT")))
    rows = [_put(i, *(values[i % 2] for values in types.values()), i) for i in range(4)]
    steps = (Step(tuple(rows)), Step((["+U", *rows[1][1:-1], 99],)), Step(compact=True))
    return Scenario(name, columns, ("k", *names), steps, tuple(names), {"bucket": "1", **options})


TYPED_PARTITIONS = _typed_partitions("typed-partitions", {})
TYPED_PARTITIONS_PLAIN_NAMES = _typed_partitions("typed-partitions-plain-names", {"partition.legacy-name": "false"})

# ---------------------------------------------------------------- histories


def _history(seed: int, commits: int, keys: int, rows: int, compact_every: int = 5) -> tuple[Step, ...]:
    """Random puts and deletes over (k, v, s), with plain text of every length."""
    rng = random.Random(seed)
    steps = []
    for commit in range(1, commits + 1):
        batch = [_event(rng, rng.randrange(keys), f"{commit}.{number}") for number in range(rows)]
        steps.append(Step(tuple(batch), compact=commit % compact_every == 0))
    return tuple(steps)


def _distinct_history(seed: int, commits: int, keys: int, rows: int) -> tuple[Step, ...]:
    """Like ``_history`` with every key at most once in a commit and a full compaction in each."""
    rng = random.Random(seed)
    return tuple(
        Step(tuple(_event(rng, key, f"{commit}") for key in rng.sample(range(keys), rows)), compact=True)
        for commit in range(commits)
    )


def _event(rng: random.Random, key: int, text: str) -> Row:
    kind = rng.choice(("+I", "+U", "+U", "-D"))
    return [kind, key, text * rng.randrange(4), rng.choice((None, *range(6)))]


_HISTORY_COLUMNS = _columns(k="BIGINT", v="STRING", s="INT")

LEVELS = Scenario(
    "levels",
    _HISTORY_COLUMNS,
    ("k",),
    _history(1, 9, 120, 60),
    options={"bucket": "2", "num-sorted-run.compaction-trigger": "2"},
)

BUCKET_FUNCTIONS = tuple(
    Scenario(
        f"bucket-function-{function}",
        _HISTORY_COLUMNS,
        ("k",),
        _history(3, 3, 50, 40),
        options={"bucket": "4", "bucket-function.type": function},
    )
    for function in ("default", "mod", "hive")
)

BUCKET_KEY = Scenario(
    "bucket-key",
    _columns(a="INT", b="STRING", v="INT"),
    ("a", "b"),
    (
        Step(tuple(_put(a, b, 1) for a in range(5) for b in ("x", "y", "a longer text"))),
        Step((_put(1, "x", 2), _delete(2, "y", 0))),
    ),
    options={"bucket": "4", "bucket-key": "b"},
)

# Every commit is compacted, because a delete is forgotten once it has reached the highest level: a late row of an older
# sequence then comes to life, and other file sizes would make Tidemark and Java compact at other times. Descending: no
# key twice in a commit, because Java 1.4 takes the greatest sequence of a commit even then; later versions do not.
SEQUENCES = tuple(
    Scenario(f"sequence-{name}", _HISTORY_COLUMNS, ("k",), steps, options={"bucket": "1", **options})
    for name, steps, options in (
        ("ascending", _history(4, 6, 30, 60, 1), {"sequence.field": "s"}),
        ("two-fields", _history(4, 6, 30, 60, 1), {"sequence.field": "s,v"}),
        (
            "descending",
            _distinct_history(4, 6, 30, 15),
            {"sequence.field": "s", "sequence.field.sort-order": "descending"},
        ),
    )
)

EVOLUTION = Scenario(
    "evolution",
    _columns(k="INT", a="INT", f="FLOAT", d="DECIMAL(6, 2)", s="VARCHAR(5)"),
    ("k",),
    (
        Step(tuple(_put(k, k * 10, 0.5, "1.25", "abc") for k in range(6))),
        Step(tuple(["+U", k, None, None, None, None] for k in range(3)), compact=True),
        Step(alter=(("add", "x", parse_type("STRING")), ("add", "r", parse_type("ROW<p INT, q STRING>")))),
        Step((_put(1, 5, 1.5, "2.50", "de", "new", [1, "q"]), _delete(2, 0, 0.0, "0.00", "", None, None))),
        Step(
            alter=(
                ("type", "a", parse_type("BIGINT")),
                ("type", "f", parse_type("DOUBLE")),
                ("type", "d", parse_type("DECIMAL(12, 2)")),
                ("type", "s", parse_type("STRING")),
            )
        ),
        Step((_put(7, 2**40, 0.1, "1234567890.12", "much longer", "z", None),)),
        Step(compact=True),
        Step((_put(3, 1, 1.0, "1.00", "s", "x", [None, None]),)),
    ),
    options={"bucket": "1"},
    skipped_readers=frozenset({"rust-changes"}),  # it looks for the row kind in the older schema
)

# pypaimon reads earlier snapshots under the newest names, so that this table is not for time travel.
RENAMING = replace(
    EVOLUTION,
    name="renaming",
    steps=(
        *EVOLUTION.steps,
        Step(alter=(("rename", "a", "amount"), ("drop", "f"))),
        Step((_put(4, 44, "4.00", "renamed", "x", None), _delete(5, 0, "0.00", "", None, None))),
        Step(alter=(("add", "f", parse_type("INT")), ("rename", "s", "text"))),
        Step((_put(8, 88, "8.00", "another f", None, None, 8),)),
        Step(compact=True),
    ),
)


def _with_producer(scenario: Scenario, producer: str, row_deduplicate: bool = False) -> Scenario:
    changed = scenario.with_options(producer, {"changelog-producer": producer})
    if not row_deduplicate:
        return changed
    return changed.with_options("row-deduplicate", {"changelog-producer.row-deduplicate": "true"})


_PLAIN = Scenario("history", _HISTORY_COLUMNS, ("k",), _history(5, 7, 40, 30), options={"bucket": "2"})

# Small commits onto a large one, so that marked rows stay on the highest level and full compactions rewrite them.
DELETION_VECTORS = Scenario(
    "deletion-vectors",
    _HISTORY_COLUMNS,
    ("k",),
    (Step(tuple(_put(k, f"row {k}" * 5, k) for k in range(3000))), *_history(6, 9, 3100, 60, 4)),
    options={"bucket": "2", "deletion-vectors.enabled": "true"},
)
DELETION_VECTOR_TABLES = (
    DELETION_VECTORS,
    replace(
        DELETION_VECTORS.with_options("wide", {"deletion-vectors.bitmap64": "true"}),
        skipped_readers=frozenset({"pypaimon"}),  # it does not know the second version
    ),
    LEVELS.with_options("deletion-vectors", {"deletion-vectors.enabled": "true"}),
    SEQUENCES[0].with_options("deletion-vectors", {"deletion-vectors.enabled": "true"}),
)

_ORC, _AVRO = {"file.format": "orc"}, {"file.format": "avro"}
_MIXED = {
    "file.format": "orc",
    "file.format.per.level": "0:avro,5:parquet",
    "file.compression.per.level": "0:deflate,1:snappy,5:gzip",
    "changelog-file.format": "orc",
    "changelog-file.compression": "zlib",
}


# Java writes timestamps before 1582 to ORC files in the Julian calendar and reads them in the Gregorian one; ORC itself
# cannot tell the last second before 1970 from the one after it.
_ORC_TIMESTAMPS: dict[str, tuple[Plain, Plain, Plain]] = {
    "TIMESTAMP(3)": ("1969-12-31 23:59:58.999", "9999-12-31 23:59:59.999", "1583-01-01 00:00:00.001"),
    "TIMESTAMP(6)": ("1969-12-31 23:59:58.999999", "2262-04-11 23:47:16.854775", "1583-01-01 00:00:00.000001"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": (
        "1969-12-31 23:59:58.999", "2038-01-19 03:14:08.001", "2024-01-01 00:00:00.000",
    ),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (
        "1969-12-31 23:59:58.999999", "2024-01-01 00:00:00.000001", "2024-07-01 00:00:00.000000",
    ),
}  # fmt: skip
_ORC_TYPED = {**_TYPED, **_ORC_TIMESTAMPS}
_ORC_KEYS = {t: values for t, values in _ORC_TYPED.items() if t not in {"FLOAT", "DOUBLE", "CHAR(3)"}}

# In ORC files pypaimon-rust refuses timestamps outside of the years 1677 to 2262, and pypaimon gives others for them.
FORMATS = (
    _typed_table("all-types", _ORC_TYPED, "pypaimon", "rust").with_options("orc", _ORC),
    _typed_keys("keys-of-all-types", _ORC_KEYS, "pypaimon", "rust").with_options("orc", _ORC),
    ALL_TYPES.with_options("avro", _AVRO),
    KEYS_OF_ALL_TYPES.with_options("avro", _AVRO),
    _typed_table("instants", {t: v for t, v in _ORC_TIMESTAMPS.items() if "ZONE" in t}).with_options("orc", _ORC),
    NESTED_TYPES.with_options("orc", _ORC),
    NESTED_TYPES.with_options("avro", _AVRO),
    MULTISETS.with_options("orc", _ORC),
    MULTISETS.with_options("avro", _AVRO),
    EVOLUTION.with_options("orc", _ORC),
    RENAMING.with_options("orc", _ORC),
    # pypaimon-rust takes the fields of a ROW that was added later for NULL.
    replace(EVOLUTION.with_options("avro", _AVRO), skipped_readers=frozenset({"rust", "rust-changes"})),
    LEVELS.with_options("formats", _MIXED),
)

CHANGELOGS = (
    _with_producer(_PLAIN, "none"),
    _with_producer(_PLAIN, "input"),
    _with_producer(_PLAIN, "lookup"),
    _with_producer(_PLAIN, "lookup", row_deduplicate=True),
    *(_with_producer(scenario, "lookup") for scenario in SEQUENCES),
    _with_producer(SEQUENCES[0], "lookup", row_deduplicate=True),
    _with_producer(SEQUENCES[0], "input"),
    _with_producer(EVOLUTION, "lookup"),
    _with_producer(RENAMING, "lookup"),
    _with_producer(PARTITIONS, "lookup"),
    _with_producer(ALL_TYPES, "lookup"),
    _with_producer(NESTED_TYPES, "lookup"),
    _with_producer(LEVELS.with_options("formats", _MIXED), "lookup"),
    _with_producer(DELETION_VECTORS, "none"),
    _with_producer(DELETION_VECTORS, "lookup"),
)


def _dynamic_buckets() -> Scenario:
    """Keys come, change, go and come again while buckets of seven keys fill up."""
    keys = [(pt, k) for pt in ("a", "b") for k in range(25)]
    steps = (
        Step(tuple(_put(pt, k, "one") for pt, k in keys)),
        Step(tuple(_put(pt, k + 15, "two") for pt, k in keys)),
        Step((*(_delete(pt, k, "two") for pt, k in keys if k % 4 == 0), _delete("c", 1, "never"))),
        Step(tuple(_put(pt, k * 2, "three") for pt, k in keys), compact=True),
        Step(tuple(_put("c", k, "four") for k in range(9))),
        Step(tuple(_put(pt, k + 40, "five") for pt, k in keys)),
    )
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "7", "dynamic-bucket.initial-buckets": "1"}
    columns = _columns(pt="STRING", k="INT", v="STRING")
    return Scenario("dynamic-buckets", columns, ("pt", "k"), steps, ("pt",), options)


DYNAMIC_BUCKETS = _dynamic_buckets()
_THREE_ASSIGNERS = {"dynamic-bucket.initial-buckets": "3"}
DYNAMIC_BUCKET_TABLES = (
    DYNAMIC_BUCKETS,
    DYNAMIC_BUCKETS.with_options("of-three", _THREE_ASSIGNERS),
    DYNAMIC_BUCKETS.with_options("bounded", {"dynamic-bucket.max-buckets": "2"}),
    DYNAMIC_BUCKETS.with_options("deletion-vectors", {**_THREE_ASSIGNERS, "deletion-vectors.enabled": "true"}),
)

TABLES = (
    *FORMATS,
    ALL_TYPES,
    NANOSECONDS,
    MIXED_TIMESTAMPS,
    NESTED_TYPES,
    MULTISETS,
    KEYS_OF_ALL_TYPES,
    NANOSECOND_KEYS,
    FLOAT_KEYS,
    STRING_KEYS,
    PARTITIONS,
    TYPED_PARTITIONS,
    TYPED_PARTITIONS_PLAIN_NAMES,
    LEVELS,
    *BUCKET_FUNCTIONS,
    BUCKET_KEY,
    *SEQUENCES,
    EVOLUTION,
    RENAMING,
    *DELETION_VECTOR_TABLES,
    *DYNAMIC_BUCKET_TABLES,
)
