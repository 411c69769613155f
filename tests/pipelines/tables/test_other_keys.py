"""A source table that gets another primary key: its table is paused before a row lies under the wrong key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table.errors import SchemaChangeRefused
from pipelines.checkpoint.book import Cause
from pipelines.config.config import PipelineConfig
from pipelines.tables.continued_tables import Continuation, continued_by, ended_tables
from sinks.commit.positions import FedBy
from tests.support.item_batches import records, typed
from tests.support.keyed_events import batch_of, created
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.paused_pipeline import PausedPipeline
from tests.support.source_content import open_table

RULE: dict[str, Any] = {"match": {"table": "t"}, "into": "lake.t"}
CHANGE = 13
"""From this record on the source's key is (id, k2)."""


def history() -> pa.RecordBatch:
    """Rows of which several have one id, as soon as the key has two columns."""
    rows = [{"id": n % 4, "k2": "ab"[n % 2 if n >= CHANGE else 0], "n": n} for n in range(30)]
    keys = [("id",) if n < CHANGE else ("id", "k2") for n in range(30)]
    return batch_of(0, [created({k: row[k] for k in key}, **row) for key, row in zip(keys, rows, strict=True)])


TOLD = (
    "shop.public.t partition 0 offset 13: its message key is now (id, k2), the primary key of table lake.t is (id):"
    " rows with different keys would overwrite each other"
)


@pytest.mark.slow
@pytest.mark.parametrize("words", [{}, {"schema_changes": {"primary_key": "pause"}}, {"schema_changes": "lenient"}])
@pytest.mark.parametrize("is_behind", [False, True], ids=["stream", "catch-up"])
def test_another_key_pauses_the_table_before_the_record(tmp_path: Path, words: dict[str, Any], is_behind: bool) -> None:
    """In the stream, while the table catches up, and in each process that tries again."""
    pipeline = PausedPipeline(tmp_path, history(), [{**RULE, **words}], batch_size=5)
    if is_behind:
        pipeline.run(1)
        pipeline.pause("lake.t")
    pipeline.run()
    for _ in range(2):
        if not is_behind:
            assert pipeline.behind["lake.t"].startswith(TOLD)
        with pytest.raises(SchemaChangeRefused) as refused:
            pipeline.caught_up()
        assert str(refused.value).startswith(TOLD) and "primary_key: [id, k2]" in str(refused.value)
        pipeline = PausedPipeline(tmp_path, history(), [{**RULE, **words}], batch_size=5)

    rows = pipeline.rows("lake.t")
    assert max(row["n"] for row in rows.values()) < CHANGE
    assert pipeline.table("lake.t").schema.primary_keys == ("id",)


@pytest.mark.slow
def test_the_remedy_gives_a_new_table_with_all_rows_and_leaves_the_old_one(tmp_path: Path) -> None:
    before = PausedPipeline(tmp_path, history(), [RULE], batch_size=5)
    before.run(4)
    old = before.rows("lake.t")

    rule = {**RULE, "into": "lake.t_v2", "primary_key": ["id", "k2"], "backfill": True}
    after = PausedPipeline(tmp_path, history(), [rule], batch_size=5)
    after.run(1)
    assert after.paused.pauses["lake.t_v2"].cause is Cause.NEW
    after.caught_up("lake.t_v2")
    after.run()

    newest = {(row["id"], row["k2"]): row["n"] for row in expected_rows()}
    found = {(row["id"], row["k2"]): row["n"] for row in after.table("lake.t_v2").to_arrow().to_pylist()}
    assert found == newest
    assert after.rows("lake.t") == old


def expected_rows() -> list[dict[str, Any]]:
    return [{"id": n % 4, "k2": "ab"[n % 2 if n >= CHANGE else 0], "n": n} for n in range(30)]


def test_a_key_with_a_wider_type_keeps_its_own_and_puts_aside_what_does_not_fit(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    events = [typed(key, {"id": key, "n": key}, {"id": "int64", "n": "int64"}) for key in (2, 1 << 40)]
    batches = [records(typed(1, {"id": 1, "n": 1}, {"id": "int32", "n": "int64"})), records(*events, first_offset=1)]

    quarantine, _ = reported_batches(tables, batches, tmp_path)

    table = open_table(tables, "items")
    assert str(table.schema.field("id").type) == "INT NOT NULL"
    assert sorted(row["n"] for row in table.to_arrow().to_pylist()) == [1, 2]
    (line,) = [line for file in Path(quarantine.path).rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert "column id INT NOT NULL" in json.loads(line)["reason"]


NEW_TABLE = {"primary_key": "new_table"}
KAFKA = {"kafka": {"bootstrap_servers": "localhost:9", "topics": ["t"]}, "format": "debezium-json"}


@pytest.mark.parametrize(
    ("rule", "defaults", "told"),
    [
        ({"primary_key": ["id"]}, {}, r"follows the message key, and this rule states the key; remove `primary_key`"),
        ({"merge_sources": "same_rows"}, {}, r"only one of several source tables; remove `merge_sources`"),
        ({"history": {"soft_delete": {}}}, {}, r"divide the history of a row .*; remove `history`, or set"),
        ({"mode": "append"}, {}, r"a table with `mode: append` has none; remove `primary_key` here"),
        ({"primary_key": ["id"], "schema_changes": {}}, NEW_TABLE, r"states the key; .*: pause}` in this rule"),
    ],
)
def test_a_rule_whose_table_cannot_continue_in_a_new_one_is_refused(
    tmp_path: Path, rule: dict[str, Any], defaults: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        config_of(tmp_path, {**RULE, "schema_changes": NEW_TABLE, **rule}, defaults)


def test_a_log_of_events_ignores_the_default_and_a_rule_may_pause(tmp_path: Path) -> None:
    for rule in ({"mode": "append"}, {"primary_key": ["id"], "schema_changes": {"primary_key": "pause"}}):
        config_of(tmp_path, {**RULE, **rule}, NEW_TABLE)


def test_dump_files_have_no_offset_at_which_a_new_table_could_begin(tmp_path: Path) -> None:
    for rule, defaults in (({**RULE, "schema_changes": NEW_TABLE}, {}), (RULE, NEW_TABLE)):
        with pytest.raises(ValidationError, match="dump files are not read from one; set pause"):
            config_of(tmp_path, rule, defaults, {"files": {"path": str(tmp_path)}, "format": "debezium-json"})


def config_of(
    root: Path, rule: dict[str, Any], defaults: dict[str, Any], source: dict[str, Any] | None = None
) -> PipelineConfig:
    document = {
        "version": 1,
        "name": "shop",
        "source": source or KAFKA,
        "checkpoint": str(root / "checkpoint"),
        "catalog": {"warehouse": str(root / "lake")},
        "tables": [rule],
    }
    return PipelineConfig.model_validate({**document, "defaults": {"schema_changes": defaults}})


def test_only_the_newest_table_is_shown_as_one_that_gets_records() -> None:
    """Of two changes of one source table and one of another; a table that no other continues is not among them."""
    continuations = {
        name: Continuation("shop", name.rpartition("_v")[0], int(name[-1]), FedBy("t", None, None, "t"), (), {}, {})
        for name in ("lake.a_v2", "lake.a_v3", "lake.b_v2")
    }

    assert ended_tables(continuations) == {"lake.a", "lake.a_v2", "lake.b"}
    assert {name: continued_by(continuations, name) for name in ("lake.a", "lake.a_v2", "lake.a_v3", "lake.c")} == {
        "lake.a": "lake.a_v3",
        "lake.a_v2": "lake.a_v3",
        "lake.a_v3": "",
        "lake.c": "",
    }
