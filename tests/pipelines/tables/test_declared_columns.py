"""Declared column types: they hold against single records, and columns that no event has are told."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from paimon_table.ids import Offset
from paimon_table.table import Table
from paimon_table.types import parse_type, sql
from pipelines.tables.table_failure import TableFailure
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA, Observation, ObservedColumn, SourceTable
from tests.support.local_batches import pipeline_tables, run_batches
from tests.support.table_driver import new_table


def creates(offset: int, *rows: dict[str, Any], partition: int = 0) -> pa.RecordBatch:
    records = []
    for at, row in enumerate(rows, offset):
        source = {"db": "shop", "schema": "public", "table": "t"}
        value = json.dumps({"before": None, "after": row, "source": source, "op": "c"}).encode()
        place = {"topic": "shop.public.t", "partition": partition, "offset": at, "timestamp": 0, "headers": None}
        records.append({**place, "key": json.dumps({"id": row["id"]}).encode(), "value": value})
    return pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)


def rules_with(**types: str) -> list[dict[str, object]]:
    return [{"match": {"table": "t"}, "into": "lake.t", "columns": {"types": types}}]


def run(directory: Path, *batches: pa.RecordBatch, first_batch_id: int = 0, **types: str) -> list[str]:
    """The reasons of the quarantine after a run with these declared types."""
    quarantine = run_batches(pipeline_tables(directory, rules_with(**types)), batches, directory, first_batch_id)
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.open()]


def rows_in(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Table.open(str(directory / "warehouse" / "lake.db" / "t")).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def seen_by_two_tasks(first: str, second: str) -> list[Observation]:
    """Column n with a type of its own in each of two tasks."""
    source = SourceTable("shop.public.t", "shop", "public", "t")
    columns = [
        (ObservedColumn("id", parse_type("BIGINT")), ObservedColumn("n", parse_type(t))) for t in (first, second)
    ]
    return [Observation(source, c, ("id",), partition, Offset(7)) for partition, c in enumerate(columns)]


@pytest.mark.parametrize("bad", ["two", 2.5, True])
def test_a_record_against_a_declared_type_does_not_stop_the_first_batch(tmp_path: Path, bad: object) -> None:
    tables = pipeline_tables(tmp_path, rules_with(n="INT"))

    assert tables.apply(seen_by_two_tasks("BIGINT", "STRING"))

    reasons = run(tmp_path, creates(0, {"id": 1, "n": 1}, {"id": 2, "n": bad}), n="INT")
    assert rows_in(tmp_path) == [{"id": 1, "n": 1}]
    assert len(reasons) == 1 and "column n INT" in reasons[0]


def test_types_of_values_that_contradict_each_other_make_a_text_column(
    tmp_path: Path,
) -> None:
    tables = pipeline_tables(tmp_path, rules_with())

    assert tables.apply(seen_by_two_tasks("BIGINT", "STRING"))

    assert str(tables.sinks["lake.t"].table.schema.field("n").type) == "STRING"


def test_a_new_checkpoint_does_not_guess_types_that_the_table_has(tmp_path: Path) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": "one"}))

    tables = PipelineTables(pipeline_tables(tmp_path, rules_with()).config, "tidemark-shop-new")
    assert tables.apply(seen_by_two_tasks("BIGINT", "STRING"))

    run(tmp_path, creates(1, {"id": 2, "n": 2}), first_batch_id=1)
    assert [row["n"] for row in rows_in(tmp_path)] == ["one", "2"]


def test_a_misspelt_column_makes_no_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lake\.t.*'craeted_at' is declared.*did you mean 'created_at'\?"):
        run(tmp_path, creates(0, {"id": 1, "created_at": 5}), craeted_at="TIMESTAMP(3)")

    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize("declared", ["updated_at", "line2", "note"])
def test_a_column_that_comes_later_may_be_declared(
    tmp_path: Path, declared: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run(
            tmp_path,
            creates(0, {"id": 1, "created_at": 5, "line1": "a"}),
            **cast("dict[str, Any]", {declared: "STRING"}),
        )

    assert rows_in(tmp_path)[0][declared] is None
    assert f"column '{declared}' is declared" in caplog.text


def test_source_tables_that_meet_bring_a_part_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    types = {"balance": "STRING", "craeted_at": "STRING"}
    rule: dict[str, object] = {"match": {"table": "t"}, "into": "lake.t", "columns": {"types": types}}
    tables = pipeline_tables(tmp_path, [{**rule, "merge_sources": "same_rows"}])

    run_batches(tables, [creates(0, {"id": 1, "created_at": 5})], tmp_path)

    assert "balance" not in caplog.text
    assert "did you mean 'created_at'" in caplog.text


def test_schema_changes_are_told_in_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run(tmp_path, creates(0, {"id": 1, "n": 1}), creates(1, {"id": 2, "n": 2**65, "note": "x"}))

    assert "pipeline shop: shop.public.t: creating table lake.t" in caplog.text
    told = next(r.getMessage() for r in caplog.records if "added" in r.getMessage())
    assert "pipeline shop: lake.t: " in told
    assert "column note STRING added" in told and "column n widened from BIGINT to DECIMAL(38, 0)" in told


@pytest.mark.parametrize("before", ["INT", None], ids=["declared before", "inferred before"])
def test_a_wider_declared_type_widens_the_column_of_the_table(tmp_path: Path, before: str | None) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": 1}), **cast("dict[str, Any]", {"n": before} if before else {}))
    wanted = "BIGINT" if before else "DECIMAL(20, 1)"

    assert run(tmp_path, creates(1, {"id": 2, "n": 2**40}), first_batch_id=1, n=wanted) == []

    rows = rows_in(tmp_path)
    assert [row["n"] for row in rows] == [1, 2**40]
    assert sql(stored(tmp_path).schema.field("n").type) == wanted
    schema_id = stored(tmp_path).schema.id
    run(tmp_path, creates(2, {"id": 3, "n": 3}), first_batch_id=2, n=wanted)
    assert stored(tmp_path).schema.id == schema_id, "nothing to change a second time"


def test_a_wider_declared_type_widens_the_column_of_a_table_that_others_made(tmp_path: Path) -> None:
    path = tmp_path / "warehouse" / "lake.db" / "t"
    new_table(path, [("id", "BIGINT NOT NULL"), ("n", "VARCHAR(2)"), ("m", "INT NOT NULL")], ["id"])

    assert run(tmp_path, creates(0, {"id": 1, "n": "three", "m": 2**40}), n="STRING", m="BIGINT") == []

    assert rows_in(tmp_path) == [{"id": 1, "n": "three", "m": 2**40}]
    assert [str(stored(tmp_path).schema.field(name).type) for name in "nm"] == ["STRING", "BIGINT NOT NULL"]


def test_all_that_a_rule_changes_is_one_schema_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": 1}), n="INT")
    wider: dict[str, Any] = {**rules_with(n="BIGINT")[0], "options": {"changelog-producer": "lookup"}}
    wider |= {"history": "soft_delete"}

    with caplog.at_level(logging.INFO):
        run_batches(pipeline_tables(tmp_path, [wider]), [creates(1, {"id": 2, "n": 2**40})], tmp_path, 1)

    assert stored(tmp_path).schema.id == 1 and [row["n"] for row in rows_in(tmp_path)] == [1, 2**40]
    for told in ("widened from INT to BIGINT", "`history: soft_delete` says", "options change as its rule says"):
        assert told in caplog.text


def test_a_refused_rule_changes_nothing_at_all(tmp_path: Path) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": 1}), n="INT")
    refused: dict[str, Any] = {**rules_with(n="BIGINT")[0], "options": {"merge-engine": "aggregation"}}

    with pytest.raises((ConfigError, TableFailure), match="Nothing was written"):
        run_batches(pipeline_tables(tmp_path, [refused]), [creates(1, {"id": 2, "n": 2})], tmp_path, 1)

    assert stored(tmp_path).schema.id == 0


@pytest.mark.parametrize(("column", "wanted"), [("n", "STRING"), ("id", "DECIMAL(20, 0)")])
def test_a_declared_type_that_the_table_cannot_take_is_refused(tmp_path: Path, column: str, wanted: str) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": 1}))

    refused = rf"'{column}' as {re.escape(wanted)}, but in table lake\.t it is BIGINT.*declare `{column}: BIGINT"
    with pytest.raises((ConfigError, TableFailure), match=refused):
        run(tmp_path, creates(1, {"id": 2, "n": 2}), first_batch_id=1, **cast("dict[str, Any]", {column: wanted}))

    assert [row["id"] for row in rows_in(tmp_path)] == [1]


def test_a_narrower_declared_type_is_told_and_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, creates(0, {"id": 1, "n": 2**40}))

    assert run(tmp_path, creates(1, {"id": 2, "n": 2**41}), first_batch_id=1, n="INT") == []

    assert [row["n"] for row in rows_in(tmp_path)] == [2**40, 2**41]
    assert "lake.t: column 'n' is declared as INT and stays BIGINT" in caplog.text


def stored(directory: Path) -> Table:
    return Table.open(str(directory / "warehouse" / "lake.db" / "t"))


def test_a_type_that_does_not_fit_names_the_remedy_that_works(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, rules_with())
    source = tables.config.source.model_copy(update={"on_bad_record": "fail"})
    strict = PipelineTables(tables.config.model_copy(update={"source": source}), tables.commit_user)
    strict.apply(seen_by_two_tasks("BIGINT", "BIGINT"))
    with pytest.raises(TableFailure, match=r"declare `n: BIGINT` under columns\.types"):
        strict.apply(seen_by_two_tasks("STRING", "STRING"))

    declared = pipeline_tables(tmp_path, rules_with(n="BIGINT"))
    assert [declared.apply(seen_by_two_tasks("STRING", "STRING")) for _ in range(2)] == [True, False]

    reasons = run(tmp_path, creates(1, {"id": 2, "n": "two"}, {"id": 3, "n": 3}), n="BIGINT")
    assert [row["id"] for row in rows_in(tmp_path)] == [3] and len(reasons) == 1


def test_a_key_column_that_has_only_null_is_told_with_the_cause(tmp_path: Path) -> None:
    rule: dict[str, object] = {"match": {"table": "t"}, "into": "lake.t", "primary_key": ["id", "note"]}
    with pytest.raises(
        ConfigError, match=r"column 'note' of its key has only NULL so far in .*Set another primary_key"
    ):
        run_batches(pipeline_tables(tmp_path, [rule]), [creates(0, {"id": 1, "note": None})], tmp_path)


@pytest.mark.parametrize(("column", "hint"), [("dt", ""), ("placed-at", r" \(did you mean 'placed_at'\?\)")])
def test_a_key_column_that_no_event_has_is_refused_before_a_record_is_put_aside(
    tmp_path: Path, column: str, hint: str
) -> None:
    rule: dict[str, object] = {"match": {"table": "t"}, "into": "lake.t", "primary_key": ["id", column]}
    rule |= {"partition_by": [column], "columns": {"types": {} if hint else {column: "STRING"}}}
    tables = pipeline_tables(tmp_path, [rule])

    with pytest.raises(ConfigError, match=f"'{column}' of its key or partition is not in the events of .*t{hint},"):
        run_batches(tables, [creates(0, {"id": 1, "placed_at": "2026-01-01"})], tmp_path)

    assert not list(tmp_path.rglob("*.jsonl")) and not list((tmp_path / "warehouse").rglob("schema*"))
