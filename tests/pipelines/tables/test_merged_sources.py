"""Several source tables into one table: refused whenever the second one comes, unless the rule says why they meet."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import SOURCES_PROPERTY
from tests.support.item_batches import event, records
from tests.support.local_batches import pipeline_tables, run_batches, shop_config
from tests.support.plain_pipeline import PlainPipeline, plain_batch
from tests.support.source_items import items

SHARDS: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}


def both(*batches: pa.RecordBatch) -> pa.RecordBatch:
    return pa.concat_tables(pa.Table.from_batches([b]) for b in batches).combine_chunks().to_batches()[0]


def tables_of(directory: Path, **rule: object) -> PipelineTables:
    return pipeline_tables(directory, [{**SHARDS, **rule}])


def ids_in(directory: Path) -> list[int]:
    rows = Table.open(str(directory / "warehouse" / "lake.db" / "items")).to_arrow()
    return sorted(rows.column("id").to_pylist())


def refused(first: str, second: str) -> str:
    sources = rf"lake\.items .*{first}\.public\.items.*{second}\.public\.items"
    return rf"{sources}.*\(id\).*same_rows.*disjoint_keys.*add a column.*primary_key.*`into`"


def test_shards_in_one_batch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=refused("shop_01", "shop_02")):
        run_batches(tables_of(tmp_path), [both(items("shop_01", 0, 1), items("shop_02", 0, 1))], tmp_path)

    assert ids_in(tmp_path) == []


def test_a_shard_that_comes_later_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=refused("shop_01", "shop_02")):
        run_batches(tables_of(tmp_path), [items("shop_01", 0, 1), items("shop_02", 0, 2)], tmp_path)

    assert ids_in(tmp_path) == [1]


def test_the_first_source_is_remembered_over_a_restart(tmp_path: Path) -> None:
    run_batches(tables_of(tmp_path), [items("shop_01", 0, 1)], tmp_path)

    with pytest.raises(ConfigError, match=refused("shop_01", "shop_02")):
        run_batches(tables_of(tmp_path), [items("shop_02", 0, 2)], tmp_path, first_batch_id=1)
    run_batches(tables_of(tmp_path), [items("shop_01", 1, 3)], tmp_path, first_batch_id=1)

    assert ids_in(tmp_path) == [1, 3]


def test_shards_routed_into_one_topic_are_told_apart(tmp_path: Path) -> None:
    """The topic feeds the table already: its records go to quarantine, a broken name alone would stop all else."""
    run_batches(tables_of(tmp_path), [items("shop_01", 0, 1, topic="all")], tmp_path)

    second = [items("shop_02", 1, 1, 2, topic="all"), items("shop_01", 3, 3, topic="all")]
    quarantine = run_batches(tables_of(tmp_path), second, tmp_path, first_batch_id=1)

    (file,) = Path(quarantine.directory(1)).iterdir()
    reasons = [json.loads(line)["reason"] for line in file.read_text().splitlines()]
    assert len(reasons) == 2
    assert all(re.search(refused("shop_01", "shop_02"), reason) for reason in reasons)
    assert ids_in(tmp_path) == [1, 3]


@pytest.mark.parametrize("policy", ["resume", "restart"])
def test_a_lost_checkpoint_does_not_forget_the_first_source(tmp_path: Path, policy: str) -> None:
    run_batches(tables_of(tmp_path), [items("shop_01", 0, 1)], tmp_path)
    config = tables_of(tmp_path).config.model_copy(update={"on_lost_checkpoint": policy})

    with pytest.raises(ConfigError, match=refused("shop_01", "shop_02")):
        run_batches(PipelineTables(config, "another checkpoint"), [items("shop_02", 0, 2)], tmp_path)


def test_a_shard_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    run_batches(tables_of(tmp_path), [items("shop_01", 0, 1)], tmp_path)
    config = tables_of(tmp_path).config.model_copy(update={"name": "other"})

    with pytest.raises(ConfigError, match=refused("shop_01", "shop_02")):
        run_batches(PipelineTables(config, "another user"), [items("shop_02", 0, 2)], tmp_path)


def test_a_table_from_before_sources_were_recorded_knows_its_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sinks.commit.table_sink.TableSink.feed", lambda *_: None)
        run_batches(tables_of(tmp_path), [items("shop_01", 0, 1)], tmp_path)

    with pytest.raises(ConfigError, match=r"topic shop_01\.public\.items.*shop_02"):
        run_batches(tables_of(tmp_path), [items("shop_02", 0, 2)], tmp_path, first_batch_id=1)
    run_batches(tables_of(tmp_path), [items("shop_01", 1, 3)], tmp_path, first_batch_id=1)

    assert ids_in(tmp_path) == [1, 3]


@pytest.mark.parametrize("word", ["same_rows", "disjoint_keys"])
def test_sources_meet_where_the_rule_says_why(tmp_path: Path, word: str) -> None:
    run_batches(tables_of(tmp_path, merge_sources=word), [both(items("a", 0, 1), items("b", 0, 2))], tmp_path)
    run_batches(tables_of(tmp_path, merge_sources=word), [items("c", 0, 3)], tmp_path, first_batch_id=1)

    assert ids_in(tmp_path) == [1, 2, 3]
    table = Table.open(str(tmp_path / "warehouse" / "lake.db" / "items"))
    recorded = (table.snapshots.read(table.snapshots.latest_id() or 0).properties or {})[SOURCES_PROPERTY]
    assert [(s["database"], s["key"]) for s in json.loads(recorded)] == [(name, ["id"]) for name in "abc"]


def test_disjoint_keys_that_are_only_believed_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def start(batch_id: int, *batches: pa.RecordBatch, word: str = "disjoint_keys") -> list[str]:
        caplog.clear()
        run_batches(tables_of(tmp_path, merge_sources=word), [both(*batches)], tmp_path, first_batch_id=batch_id)
        return [r.getMessage() for r in caplog.records if "primary key (id)" in r.getMessage()]

    assert start(0, items("a", 0, 1)) == []
    (text,) = start(1, items("b", 0, 2), items("c", 0, 3))
    assert re.search(
        r"lake\.items .*\(a\.public.*b\.public.*same key overwrite each other\. Unless .* add a column", text
    )
    assert len(start(2, items("a", 1, 4))) == 1
    assert start(3, items("a", 2, 5), word="same_rows") == []


@pytest.mark.parametrize(("before", "lines"), [("full", 0), (None, 1)])
def test_a_shard_column_in_the_key_is_told_once_per_table_and_not_with_full_old_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, before: str | None, lines: int
) -> None:
    rule = {"primary_key": ["qty", "id"], "merge_sources": "disjoint_keys", "before": before}
    batch = both(items("a", 0, 1), items("b", 0, 2), items("c", 0, 3))

    run_batches(tables_of(tmp_path, **{k: v for k, v in rule.items() if v is not None}), [batch], tmp_path)

    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == lines
    assert ids_in(tmp_path) == [1, 2, 3]


def test_each_shard_may_have_a_table_of_its_own(tmp_path: Path) -> None:
    rule: dict[str, object] = {"into": "{database}.items"}

    run_batches(tables_of(tmp_path, **rule), [both(items("a", 0, 1), items("b", 0, 1))], tmp_path)

    assert sorted(path.name for path in (tmp_path / "warehouse").iterdir()) == ["a.db", "b.db"]


def test_tables_of_one_name_that_no_rule_names_are_refused_alone(tmp_path: Path) -> None:
    config = shop_config(tmp_path, [], {"bucket": "1"}, otherwise={"create": {"into": "lake.{table}"}})
    tables = PipelineTables(config, "tidemark-shop-test")
    first, second = items("shop_01", 0, 1), items("shop_02", 0, 2, 3)

    quarantine = run_batches(tables, [both(first, second), items("shop_02", 2, 4), items("shop_01", 1, 5)], tmp_path)

    lines = [line for file in Path(quarantine.path).rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(lines) == 3
    assert all(re.search(refused("shop_01", "shop_02"), json.loads(line)["reason"]) for line in lines)
    assert ids_in(tmp_path) == [1, 5]


@pytest.mark.parametrize("size", [1, 4])
def test_a_row_that_moves_between_source_tables_of_one_topic_keeps_its_order(tmp_path: Path, size: int) -> None:
    """As a row of a partitioned table does: a delete in one partition, then an insert in another."""
    moves = [
        event("c", 5, {"id": 5}, table="p1"),
        event("c", 1, {"id": 1}, table="p2"),
        event("d", 1, before={"id": 1}, table="p2"),
        event("c", 1, {"id": 1}, table="p1"),
    ]
    tables = tables_of(tmp_path, match={"table": "p."}, merge_sources="same_rows")

    run_batches(tables, [records(*moves[at : at + size], first_offset=at) for at in range(0, 4, size)], tmp_path)

    assert ids_in(tmp_path) == [1, 5]


@pytest.mark.parametrize("size", [1, 2])
def test_a_value_that_was_not_sent_is_not_that_of_a_source_without_the_column(tmp_path: Path, size: int) -> None:
    """Two source tables feed a sequence group each; the second one leaves its unchanged text out."""
    hidden = "__debezium_unavailable_value"
    types = {"id": "INT", "n": "INT", "note": "STRING", "m": "INT", "text": "STRING"}
    options = {"merge-engine": "partial-update"}
    options |= {"fields.n.sequence-group": "note", "fields.m.sequence-group": "text"}
    rule = {"match": {"table": "a|b"}, "merge_sources": "same_rows", "columns": {"types": types}, "options": options}
    tables = tables_of(tmp_path, **rule)
    first = [
        event("c", 1, {"id": 1, "n": 1, "note": "x"}, table="a"),
        event("c", 1, {"id": 1, "m": 1, "text": "y"}, table="b"),
    ]
    later = [
        event("u", 1, {"id": 1, "n": 2, "note": "z"}, table="a"),
        event("u", 1, {"id": 1, "m": 2, "text": hidden}, table="b"),
    ]

    batches = [records(*later[n : n + size], first_offset=2 + n) for n in range(0, 2, size)]
    run_batches(tables, [records(*first), *batches], tmp_path)

    (row,) = Table.open(str(tmp_path / "warehouse" / "lake.db" / "items")).to_arrow().to_pylist()
    assert row == {"id": 1, "n": 2, "note": "z", "m": 2, "text": "y"}


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_delete_before_the_first_row_leaves_the_table_to_the_rule_of_that_row(
    tmp_path: Path, batch_size: int
) -> None:
    """The delete is of another source table, whose rule renames its key; it makes no table."""
    shared = {"into": "lake.people", "primary_key": ["id"], "merge_sources": "same_rows"}
    rules = [
        {"match": {"topic": "a.scores"}, **shared, "columns": {"rename": {"cid": "id"}, "types": {"id": "BIGINT"}}},
        {
            "match": {"topic": "b.people"},
            **shared,
            "columns": {
                "rename": {"no": "id"},
                "types": {"id": "BIGINT", "price": "DECIMAL(10, 2)"},
                "drop": ["secret"],
            },
        },
    ]
    pipeline = PlainPipeline(tmp_path, "json", rules=rules)
    parts = [
        plain_batch([(b"9", None)], topic="a.scores"),
        plain_batch([(b"8", {"no": 8, "price": "1.50", "secret": "x"})], topic="b.people"),
    ]
    pipeline.run(*(parts if batch_size == 1 else [both(*parts)]))
    assert pipeline.types == {"id": "BIGINT NOT NULL", "price": "DECIMAL(10, 2)"}
    assert pipeline.rows() == [{"id": 8, "price": Decimal("1.50")}]
