"""Two files that bring one topic into one table: refused where records would count twice, else told."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config_file import load_pipelines

FILE = """\
version: 1
name: {name}
source: {{ {source}, format: debezium-json }}
checkpoint: {name}-state
catalog: {{ warehouse: lake }}
tables:
  - match: {{ table: {table} }}
    into: {into}
    {rest}
"""
DUMPS = "files: { path: dumps }"
LOG = "mode: append"
SUMS = "options: {merge-engine: aggregation, fields.qty.aggregate-function: sum}"
DYNAMIC = "options: {bucket: -1}"
ONE_LARGEST = "options: {merge-engine: aggregation, fields.qty.aggregate-function: max}"
LARGEST = "options: {merge-engine: aggregation, fields.default-aggregate-function: max}"
NEWEST = "options: {sequence.field: at}"


def kafka(topics: str, start: str = "earliest", servers: str = "localhost:9092") -> str:
    return f"kafka: {{ bootstrap_servers: '{servers}', topics: {topics}, start: {start} }}"


def files(directory: Path, one: dict[str, str], other: dict[str, str]) -> list[Path]:
    """Two pipeline files that differ from a common one by these words."""
    (directory / "dumps").mkdir()
    (directory / "dumps" / "a.jsonl").touch()
    common = {"source": DUMPS, "table": "orders", "into": "lake.orders", "rest": LOG}
    for name, words in (("a", one), ("b", other)):
        (directory / f"{name}.yaml").write_text(FILE.format(**{"name": name, **common, **words}))
    return [directory / "a.yaml", directory / "b.yaml"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({}, "both bring the same topics into it, and each adds its row again"),
        ({"rest": SUMS}, r"both bring the same topics into it, and each counts again in qty"),
        ({"source": kafka("[shop.orders, shop.items]")}, "both bring topic shop.orders into it, and each"),
        ({"source": kafka("[shop.items, shop.orders]")}, "both bring topic shop.orders into it, and each"),
        ({"source": kafka("[shop.items, shop.users]")}, "both bring the same records into it, and each"),
        ({"source": kafka("{include: ['shop.*']}")}, "both bring the same topics"),
        ({"into": "'lake.{table}'"}, ".* each adds its row again"),
    ],
)
def test_records_that_would_count_twice_are_refused(tmp_path: Path, words: dict[str, str], told: str) -> None:
    paths = files(tmp_path, words, words)
    with pytest.raises(ConfigError, match=rf"b\.yaml:8:5: .*written by pipeline a \(.*a\.yaml:8\): {told}"):
        load_pipelines(paths)


@pytest.mark.parametrize("named", ["[shop.orders]", r"{include: ['shop\.orders']}"])
def test_one_names_a_topic_that_the_other_has_by_a_pattern(tmp_path: Path, named: str) -> None:
    paths = files(tmp_path, {"source": kafka("{include: ['shop.*']}")}, {"source": kafka(named)})
    with pytest.raises(ConfigError, match=r"both bring topic shop\.orders into it"):
        load_pipelines(paths)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"rest": "mode: upsert"}, {"rest": "mode: upsert"}, "older rows replace newer ones while"),
        ({"rest": ONE_LARGEST}, {"rest": ONE_LARGEST}, "newer ones in other columns (last_non_null_value) while"),
        ({"source": kafka("[t]")}, {"source": kafka("[t]", "latest")}, "each adds its row again"),
        ({"table": "'ord.*'"}, {}, "each adds its row again"),
        ({"table": "items", "rest": DYNAMIC}, {"rest": DYNAMIC}, "dynamic and allow one writer: when two"),
        (
            {"source": kafka("[t]"), "rest": DYNAMIC},
            {"source": kafka("[u]"), "rest": DYNAMIC},
            "let one pipeline write",
        ),
        ({}, {"source": kafka("[t]")}, "both may bring topic t into it, and each adds its row again"),
        ({"source": kafka("[t]")}, {}, "both may bring topic t into it, and each adds its row again"),
    ],
)
def test_what_may_be_meant_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, one: dict[str, str], other: dict[str, str], told: str
) -> None:
    load_pipelines(files(tmp_path, one, other))
    assert f"{tmp_path}/b.yaml:8:5: warning: " in caplog.text
    assert f"{tmp_path}/a.yaml:8" in caplog.text
    assert told in caplog.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"into": "lake.others"}),
        ({}, {"table": "items"}),
        ({"source": "files: { path: dumps, topics: [u] }"}, {"source": kafka("[t]")}),
        ({}, {"source": kafka("[t]", "{offsets: {t: {0: 5}}}")}),
        ({"source": kafka("[t]")}, {"source": kafka("[u]")}),
        ({"source": kafka("[t]")}, {"source": kafka("[t]", servers="elsewhere:9092")}),
        ({"source": kafka("[t]")}, {"source": kafka("[t]", "{offsets: {t: {0: 5}}}")}),
        ({"rest": NEWEST}, {"rest": NEWEST}),
        ({"rest": LARGEST}, {"rest": LARGEST}),
        ({"rest": "history: scd2"}, {"rest": "history: scd2"}),
    ],
)
def test_what_does_not_meet_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, one: dict[str, str], other: dict[str, str]
) -> None:
    load_pipelines(files(tmp_path, one, other))
    assert "also written by" not in caplog.text
