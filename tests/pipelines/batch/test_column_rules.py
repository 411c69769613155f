"""What tables and the quarantine contain under rules that rename, compute, filter and mask."""

from __future__ import annotations

import datetime
import hmac
import json
import logging
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from paimon_table.errors import ConfigError, SchemaChangeRefused
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from tests.support.column_rules import HIDDEN, ROW_OF_T, Run, records
from tests.support.local_batches import reported_batches, shop_config
from tests.support.paused_pipeline import PausedPipeline
from tests.support.row_records import rows_of
from tests.support.source_content import open_table

LOOKUP = {"changelog-producer": "lookup"}
ROW = ROW_OF_T


@pytest.mark.slow
def test_columns_are_renamed_left_out_computed_and_typed(tmp_path: Path) -> None:
    rule = {
        "columns": {
            "rename": {"name": "Full Name"},
            "drop": ["secret", "/tmp_.*/"],
            "replace": {"note": "note || '!'"},
            "add": {"half": "n / 2", "day": "CAST(made AS DATE)", "exact": "n", "up": "upper(NAME)", "s": "secret + 1"},
            "types": {"made": "TIMESTAMP(3)", "exact": "DECIMAL(10, 2)"},
        }
    }
    row = {**ROW, "made": 1_704_153_600_000, "secret": 41, "tmp_a": 1, "tmp_b": 2}

    run = Run(tmp_path, rule).take([("c", None, row)])

    assert run.rows == [
        {
            "id": 1, "Full Name": "bob", "n": 6, "note": "x!", "made": datetime.datetime(2024, 1, 2), "half": 3.0,
            "day": datetime.date(2024, 1, 2), "exact": Decimal("6.00"), "up": "BOB", "s": 42,
        }
    ]  # fmt: skip
    assert run.types["exact"] == "DECIMAL(10, 2)" and run.types["day"] == "DATE" and run.types["s"] == "BIGINT"


@pytest.mark.slow
def test_keep_names_the_columns_and_new_ones_follow_the_rule(tmp_path: Path) -> None:
    kept = Run(tmp_path / "kept", {"columns": {"keep": ["id", "/n.*/"], "add": {"m": "n + 1"}}})
    open_ = Run(tmp_path / "open", {"columns": {"rename": {"later": "new name"}, "drop": ["other"]}})

    for run in (kept, open_):
        run.take([("c", None, ROW)], [("u", None, {**ROW, "later": 7, "other": 8, "n2": 9})])

    assert kept.rows == [{"id": 1, "name": "bob", "n": 6, "note": "x", "m": 7, "n2": 9}]
    assert open_.rows == [{"id": 1, "name": "bob", "n": 6, "note": "x", "new name": 7, "n2": 9}]
    assert kept.reasons == open_.reasons == {}


@pytest.mark.slow
def test_names_that_differ_in_case_or_are_words_of_sql_mean_what_they_say(tmp_path: Path) -> None:
    row = {"id": 1, "Val": 1, "val": 20, "order": 3, "odd \"name'": 4, "Größe": 5}
    add = {"a": "Val", "b": "val", "c": '"order" + 1', "d": '"odd ""name\'" + 1', "e": "größe", "select": "Val + val"}

    run = Run(tmp_path, {"columns": {"add": add, "types": {"Val": "INT", "val": "INT"}}}).take([("c", None, row)])

    assert {name: run.rows[0][name] for name in add} == {"a": 1, "b": 20, "c": 4, "d": 5, "e": 5, "select": 21}
    ambiguous = Run(tmp_path / "x", {"columns": {"add": {"a": "VAL"}, "types": {"Val": "INT", "val": "INT"}}})
    with pytest.raises(ConfigError, match="'VAL' may mean 'Val' or 'val'"):
        ambiguous.take([("c", None, row)])


def test_an_expression_that_fails_is_the_trouble_of_its_record(tmp_path: Path) -> None:
    rule = {"columns": {"add": {"q": "100 // n", "d": "CAST(note AS DATE)"}, "types": {"n": "INT"}}}
    good = {**ROW, "note": "2024-02-03"}
    rows = [{**good, "id": i, "n": i} for i in range(6)] + [{**good, "id": 7, "note": "never"}]

    run = Run(tmp_path, rule).take([("c", None, row) for row in rows])

    assert [(row["id"], row["q"]) for row in run.rows] == [(1, 100), (2, 50), (3, 33), (4, 25), (5, 20)]
    assert [reason.partition(" in expression")[0] for reason in run.reasons] == [
        "column q: 100 // n: Division by zero",
        'column d: CAST(note AS DATE): invalid date field format: "never", expected format is (YYYY-MM-DD)',
    ]
    (report,) = run.reports
    assert (report.counts.with_rows, report.counts.quarantined) == (5, 2)


def test_a_stated_type_takes_no_value_that_would_change(tmp_path: Path) -> None:
    types = {"price": "DECIMAL(10, 3)", "p2": "DECIMAL(10, 2)", "word": "VARCHAR(3)", "i": "INT"}
    rule = {"columns": {"types": types, "add": {"p2": "price", "word": "note", "i": "price * 10"}}}
    rows = [
        {"id": 1, "price": 1.25, "note": "abc"}, {"id": 2, "price": 1.2, "note": "abc"},
        {"id": 3, "price": 1.2, "note": "abcd"}, {"id": 4, "price": 1.255, "note": "a"},
    ]  # fmt: skip

    run = Run(tmp_path, rule).take([("c", None, row) for row in rows])

    assert [(r["id"], r["p2"], r["word"], r["i"]) for r in run.rows] == [(2, Decimal("1.20"), "abc", 12)]
    assert [reason.split(": ")[0] for reason in run.reasons] == ["column i", "column word", "column p2"]


@pytest.mark.slow
def test_metadata_stands_in_columns_and_expressions(tmp_path: Path) -> None:
    add = {
        "op": "$op", "src": "$source_time", "ts": "$timestamp", "place": "concat_ws(':', $topic, $partition, $offset)",
        "k": "$key", "trace": "$headers['trace']", "whence": "concat_ws('.', $database, $schema, $table)",
        "seen": "$ingested_at IS NOT NULL",
    }  # fmt: skip
    run = Run(tmp_path, {"columns": {"keep": ["id"], "add": add}})

    run.take([("c", None, ROW), ("u", None, {**ROW, "id": 2})])

    first, second = run.rows
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert (first["op"], second["op"], first["src"]) == ("c", "u", moment)
    assert (first["place"], second["k"], first["trace"]) == ("shop.public.t:0:0", '{"id": 2}', "abc")
    assert (first["whence"], first["seen"], first["ts"].timestamp()) == ("shop.public.t", True, 1.0)


@pytest.mark.slow
def test_shards_get_their_column(tmp_path: Path) -> None:
    rule = {
        "primary_key": ["shard", "id"], "merge_sources": "disjoint_keys", "columns": {"add": {"shard": "$database"}},
    }  # fmt: skip
    run = Run(tmp_path, rule, **LOOKUP)

    run.take([("c", None, ROW)], db="s1").take([("c", None, ROW)], db="s2")
    run.take([("d", {"id": 1, "name": None, "n": None, "note": None}, None)], db="s1")

    assert [(row["shard"], row["id"]) for row in run.rows] == [("s2", 1)]
    assert run.changes("shard", "id") == [("+I", "s1", 1), ("+I", "s2", 1), ("-D", "s1", 1)]


def test_a_computed_key_without_old_rows_sends_updates_to_quarantine(tmp_path: Path) -> None:
    rule = {"primary_key": ["third", "id"], "columns": {"add": {"third": "n % 3"}}}
    run = Run(tmp_path, rule, **LOOKUP)

    run.take([("c", None, ROW)], [("u", None, {**ROW, "n": 7})])

    assert [(row["third"], row["n"]) for row in run.rows] == [(0, 6)]
    (reason,) = run.reasons
    assert "REPLICA IDENTITY FULL" in reason and "n of the primary key is not in the message key" in reason


PRODUCERS = (
    {"changelog-producer": "none", "full-compaction.delta-commits": "1"},
    {"changelog-producer": "lookup", "num-levels": "2", "num-sorted-run.compaction-trigger": "1"},
    {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
    {"changelog-producer": "input", "num-levels": "2", "num-sorted-run.compaction-trigger": "1"},
)
OF_THE_ROW = {"primary_key": ["note", "id"], "before": "full"}
COMPUTED = {"primary_key": ["up", "id"], "before": "full", "columns": {"add": {"up": "upper(note)"}}}


@pytest.mark.parametrize(
    ("rule", "options"), [*product([OF_THE_ROW, COMPUTED], PRODUCERS), ({**OF_THE_ROW, "where": "n < 100"}, LOOKUP)]
)
@pytest.mark.parametrize("is_one_batch", [False, True])
def test_a_late_update_to_another_key_leaves_the_newest_row(
    tmp_path: Path, rule: dict[str, Any], options: dict[str, str], is_one_batch: bool
) -> None:
    """Compactions reach the highest level, where Paimon drops deletes."""
    first, old, new = ({**ROW, "note": note, "n": n} for note, n in (("b", 1), ("a", 2), ("b", 3)))
    run, events = (
        Run(tmp_path, rule, **options, **{"sequence.field": "n"}),
        [("c", None, first), ("u", old, new), ("u", first, old)],
    )

    run.take(*([events] if is_one_batch else [[event] for event in events]))

    assert [(row["note"], row["n"]) for row in run.rows] == [("b", 3)]


def test_a_late_update_of_a_merged_row_leaves_the_newest_row(tmp_path: Path) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    run = Run(tmp_path, OF_THE_ROW, **options, **{"sequence.field": "n"})
    old, new = {**ROW, "note": "a", "n": 2}, {**ROW, "note": "b", "n": 3}

    run.take([("u", old, new)], [("u", {**ROW, "note": "b", "n": 1}, old)])

    assert ("b", 3) in [(row["note"], row["n"]) for row in run.rows]


@pytest.mark.parametrize(("key", "keeps"), [(["id"], False), (["note", "id"], True)])
def test_a_table_whose_key_no_update_changes_keeps_no_deletes(tmp_path: Path, key: list[str], keeps: bool) -> None:
    rule = {"primary_key": key, "before": "full", "options": {"sequence.field": "n"}}
    run = Run(tmp_path, rule).take([("c", None, {**ROW, "note": "a"})])

    run.start(rule)
    run.take([("u", {**ROW, "note": "a"}, {**ROW, "note": "a", "n": 9})])

    assert [(row["id"], row["n"]) for row in run.rows] == [(1, 9)]
    assert ("tidemark.keep-deletes" in run.table.schema.options) is keeps
    assert run.table.schema.has_column("_tidemark_deleted_at") is keeps


@pytest.mark.slow
def test_unsent_values_are_kept_or_the_record_is_refused_by_name(tmp_path: Path) -> None:
    rule = {"columns": {"add": {"up": "upper(note)", "both": "note || n"}, "drop": ["note"]}}
    run = Run(tmp_path, {"columns": {"add": {"up": "upper(note)"}, "drop": ["note"]}}, **LOOKUP)
    mixed = Run(tmp_path / "mixed", rule, **LOOKUP)

    for one in (run, mixed):
        one.take([("c", None, ROW)], [("u", None, {**ROW, "n": 7, "note": HIDDEN})])

    assert run.rows == [{"id": 1, "name": "bob", "n": 7, "up": "X"}] and run.reasons == {}
    assert mixed.rows == [{"id": 1, "name": "bob", "n": 6, "up": "X", "both": "x6"}]
    (reason,) = mixed.reasons
    assert reason.startswith("column both: note || n: the source did not send note (unchanged TOAST)")


def test_a_filter_over_an_unsent_value_refuses_the_record(tmp_path: Path) -> None:
    run = Run(tmp_path, {"where": "note = 'x'"}, **LOOKUP)

    run.take([("c", None, ROW)], [("u", None, {**ROW, "n": 7, "note": HIDDEN})])

    assert [row["n"] for row in run.rows] == [6]
    assert next(iter(run.reasons)).startswith("where: note = 'x': the source did not send note")


@pytest.mark.slow
def test_a_row_that_leaves_or_enters_the_filter_is_deleted_or_inserted(tmp_path: Path) -> None:
    run = Run(tmp_path, {"where": "n > 5"}, **LOOKUP)

    run.take([("c", None, ROW), ("c", None, {**ROW, "id": 2, "n": 1})])
    run.take([("u", None, {**ROW, "n": 2}), ("u", None, {**ROW, "id": 2, "n": 8})])
    run.take([("u", None, {**ROW, "n": 3}), ("u", None, {**ROW, "id": 2, "n": 9}), ("r", None, {**ROW, "n": 0})])
    assert [(row["id"], row["n"]) for row in run.rows] == [(2, 9)]
    run.take([("d", {"id": key, "name": None, "n": None, "note": None}, None) for key in (1, 2)])

    assert run.rows == []
    changes = [("+I", 1, 6), ("-D", 1, 6), ("+I", 2, 8), ("-U", 2, 8), ("+U", 2, 9), ("-D", 2, 9)]
    assert run.changes("id", "n") == changes
    assert run.reports[0].counts.filtered == 1


@pytest.mark.slow
def test_a_filter_that_comes_to_an_ordered_table_later_keeps_its_deletes(tmp_path: Path) -> None:
    """So does the table when the filter is gone again, and the rule of another source without one."""
    options = {"sequence.field": "n", "full-compaction.delta-commits": "1", "changelog-producer": "none"}
    run = Run(tmp_path, {}, **options).take([("c", None, ROW), ("c", None, {**ROW, "id": 2})])

    run.start({"where": "name = 'bob'"})
    run.take([("u", None, {**ROW, "n": 9, "name": "x"})], [("u", None, {**ROW, "n": 8})])
    assert [row["id"] for row in run.rows] == [2]
    run.start({})
    run.take([("u", None, {**ROW, "n": 7})], [("u", None, {**ROW, "id": 2, "n": 10, "name": "x"})])

    assert [(row["id"], row["n"], row["_tidemark_deleted_at"]) for row in run.rows] == [(2, 10, None)]
    assert run.table.schema.options["tidemark.keep-deletes"] == "7 d" and run.reasons == {}


def test_deletes_stay_as_long_as_the_file_says(tmp_path: Path) -> None:
    rule = {"where": "n > 5", "options": {"sequence.field": "n", "tidemark.keep-deletes": "3 h"}}
    run = Run(tmp_path, rule).take([("c", None, ROW)])
    assert run.table.schema.options["tidemark.keep-deletes"] == "3 h"


def test_a_value_never_comes_from_a_record_that_is_older_than_a_kept_delete(tmp_path: Path) -> None:
    left, late = ("u", None, {**ROW, "n": 4, "name": "left"}), ("u", None, {**ROW, "n": 2, "note": "late"})
    back = ("u", None, {**ROW, "n": 5, "note": HIDDEN})
    run = Run(tmp_path, {"where": "name <> 'left'"}, **{"sequence.field": "n"}).take([("c", None, {**ROW, "n": 1})])

    run.take([left], [late, back])

    assert [(row["n"], row["note"]) for row in run.rows] == [(5, None)]


@pytest.mark.slow
def test_a_row_that_left_the_filter_lends_no_values_to_the_key_that_it_goes_to(tmp_path: Path) -> None:
    """It changed outside of the filter, so what the table had of it is not what the source left out."""
    run = Run(tmp_path, {"where": "n > 5"}, **LOOKUP)
    run.take([("c", None, ROW)], [("u", None, {**ROW, "n": 1, "note": "changed"})])
    moved = records([("d", ROW, None), ("c", None, {**ROW, "id": 2, "note": HIDDEN})], first=2).to_pylist()
    moved[0]["headers"] = [{"key": "__debezium.newkey", "value": b'{"id": 2}'}]
    moved[1]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id": 1}'}]

    batch = pa.RecordBatch.from_pylist(moved, schema=RECORD_SCHEMA)
    reported_batches(run.tables, [batch], run.directory, 2, run.config.decoder)

    assert run.rows == [{**ROW, "id": 2, "note": None}]


def test_logs_and_append_tables_hold_the_rows_that_match(tmp_path: Path) -> None:
    of_log = {"mode": "append", "on_change": "log", "where": "n > 5", "columns": {"add": {"o": "$op"}}}
    log = Run(tmp_path / "log", of_log, bucket="-1")
    plain = Run(tmp_path / "plain", {"mode": "append", "where": "n > 5 AND $op = 'c'"}, bucket="-1")

    log.take([("c", None, ROW), ("u", None, {**ROW, "n": 1}), ("d", ROW, None)])
    plain.take([("c", None, ROW), ("c", None, {**ROW, "n": 1}), ("r", None, ROW)])

    assert [(row["event_kind"], row["event_op"], row["o"], row["n"]) for row in log.rows] == [
        ("+I", "c", "c", 6),
        ("-D", "d", "d", 6),
    ]
    assert [row["n"] for row in plain.rows] == [6]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"changelog-producer": "input"}, {}),
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, {"primary_key": ["id"]}),
        ({"merge-engine": "partial-update"}, {}),
    ],
)
def test_a_filter_that_needs_old_rows_is_refused_without_them(
    tmp_path: Path, options: dict[str, str], rule: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="before: full"):
        Run(tmp_path, {"where": "n > 5", **rule}, **options).take([("c", None, ROW)])


def test_an_update_without_its_old_row_is_no_guess_where_sums_depend_on_it(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    run = Run(tmp_path, {"where": "n > 5", "before": "full"}, **options)

    run.take([("c", None, ROW)], [("u", None, {**ROW, "n": 1})])

    assert [row["n"] for row in run.rows] == [6]
    assert next(iter(run.reasons)).startswith("where: the row no longer matches, and the event lacks the old row")


@pytest.mark.parametrize(
    "options",
    [
        {"changelog-producer": "input"},
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    ],
    ids=str,
)
@pytest.mark.parametrize("before", [{"id": 1}, {"id": 1, "n": None, "name": None, "note": None}])
def test_an_old_row_without_values_is_none_where_the_filter_depends_on_it(
    tmp_path: Path, options: dict[str, str], before: dict[str, Any]
) -> None:
    run = Run(tmp_path, {"where": "n > 5", "before": "full"}, **options).take([("c", None, ROW)])

    run.take([("d", before, None), ("u", before, {**ROW, "n": 1})])

    assert [row["n"] for row in run.rows] == [6]
    assert [reason.partition(": let")[0] for reason in run.reasons] == [
        "where: the row is deleted, and the event lacks the old row",
        "where: the row no longer matches, and the event lacks the old row",
    ]


def test_a_filter_over_the_key_needs_no_more_of_an_old_row(tmp_path: Path) -> None:
    run = Run(tmp_path, {"where": "id > 5", "before": "full"}, **{"changelog-producer": "input"})

    run.take([("c", None, {**ROW, "id": 6}), ("c", None, {**ROW, "id": 7})], [("d", {"id": 6}, None)])

    assert [row["id"] for row in run.rows] == [7] and run.reasons == {}


def test_a_tombstone_is_no_delete_without_its_old_row(tmp_path: Path) -> None:
    """It repeats the delete before it, as `rewrite-with-tombstone` does."""
    rule: dict[str, object] = {"match": {"topic": ".*"}, "into": "lake.t", "where": "n > 5", "before": "full"}
    source = {"files": {"path": str(tmp_path)}, "format": "upsert-json"}
    config = shop_config(tmp_path, [rule], {"bucket": "1", "changelog-producer": "input"}, source=source)
    row = {"id": 1, "n": 6, "__deleted": "false"}

    tables = PipelineTables(config, "tidemark-shop-test")
    batch = rows_of(({"id": 1}, row), ({"id": 1}, {**row, "__deleted": "true"}), ({"id": 1}, None))
    _, (report,) = reported_batches(tables, [batch], tmp_path, 0, config.decoder)

    assert open_table(tables, "t").to_arrow().num_rows == 0
    assert (report.counts.quarantined, report.counts.filtered) == (0, 1)


@pytest.mark.slow
def test_masks_hide_values_and_equal_ones_stay_equal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mask = {"name": {"hash": "sha256", "key": "s3cr3t"}, "note": {"show_last": 2}, "n": "redact", "z": "redact"}
    run = Run(tmp_path, {"columns": {"mask": mask, "add": {"bad": "CAST(note AS INTEGER)"}}})
    caplog.set_level(logging.DEBUG)

    run.take([("c", None, {**ROW, "note": "0123", "z": "zzz"}), ("c", None, {**ROW, "id": 2, "note": "O'Hara Street"})])

    (row,) = run.rows
    assert row["name"] == hmac.new(b"s3cr3t", b"bob", "sha256").hexdigest()
    assert (row["note"], row["n"], row["z"]) == ("**23", None, "***")
    run.take([("c", None, {**ROW, "id": "O'Hara Street", "note": "12"})])
    assert run.reports[-1].counts.quarantined == 1
    assert "Hara" not in str(run.reasons) and "Hara" not in caplog.text and "s3cr3t" not in caplog.text
    assert "s3cr3t" not in f"{run.config!r}"
    goals = run.tables.decode_targets()
    assert b"s3cr3t" not in pickle.dumps(goals)


@pytest.mark.slow
def test_a_mask_over_rows_that_are_there_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told(mask: Mapping[str, object]) -> list[str]:
        caplog.clear()
        for _ in range(2):  # two starts
            run.start({"columns": {"mask": mask}})
            run.take([("u", None, {**ROW, "note": "0123"})])
        return [r.getMessage() for r in caplog.records if "hides column" in r.getMessage()]

    run = Run(tmp_path, {"columns": {"mask": {"name": "redact"}}}).take([("c", None, ROW)])
    assert told({"name": "redact", "later": "redact"}) == []

    (warning,) = told({"name": "redact", "note": {"show_last": 2}})
    assert "hides column note from now on" in warning and "tidemark replay FILE --table lake.t --rebuild" in warning
    (again,) = told({"name": {"show_last": 1}})
    assert "hides column name from now on" in again
    assert len(told({"name": {"show_last": 1}, "note": {"show_last": 2}})) == 1  # open in between


@pytest.mark.slow
def test_another_order_over_rows_that_are_there_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"sequence.field": "place"}
    run = Run(tmp_path, {"columns": {"add": {"place": "n"}}}, **options).take([("c", None, ROW)])
    for expression, count in (("n", 0), ("0 - n", 1), ("0 - n", 0)):
        caplog.clear()
        run.start({"columns": {"add": {"place": expression}}})
        told = [r.getMessage() for r in caplog.records if "computes place of `sequence.field`" in r.getMessage()]
        assert len(told) == count, expression
        assert all("tidemark replay FILE --table lake.t --rebuild" in text for text in told)


def test_a_condition_over_rows_that_are_there_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(tmp_path, {}).take([("c", None, ROW)])
    for where, count in (("n > 1", 1), ("n > 1", 0), ("n > 2", 1), (None, 1), (None, 0)):
        caplog.clear()
        run.start({} if where is None else {"where": where})
        assert sum("`where` has changed" in r.getMessage() for r in caplog.records) == count, where


@pytest.mark.slow
def test_what_a_changed_rule_does_to_old_rows_of_an_aggregate_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def rule(where: str, expression: str) -> dict[str, object]:
        return {"where": where, "before": "full", "columns": {"add": {"total": expression}}}

    options = {"merge-engine": "aggregation", "fields.total.aggregate-function": "sum"}
    run = Run(tmp_path, rule("n > 0", "n * 2"), **options).take([("c", None, ROW)])
    said: list[str] = []
    for count in (2, 0):
        caplog.clear()
        run.start(rule("n > 1", "n * 3"))
        told = [r.getMessage() for r in caplog.records if "--table lake.t --rebuild" in r.getMessage()]
        assert len(told) == count
        said += told
    assert "existing rows that do not match it stay, even if the source deletes them" in said[0]
    assert "the rule computes total in another way from now on" in said[1]


@pytest.mark.slow
def test_another_expression_for_the_key_is_refused(tmp_path: Path) -> None:
    def rule(expression: str) -> dict[str, object]:
        return {"columns": {"add": {"k": expression}}, "primary_key": ["k", "id"], "before": "full"}

    run = Run(tmp_path, rule("n % 2")).take([("c", None, ROW)])
    with pytest.raises(ConfigError, match="the rule computes k of its primary key differently from its existing rows"):
        run.start(rule("n % 3"))
        run.take([("u", ROW, {**ROW, "n": 7})])
    run.start(rule("n % 2"))
    assert len(run.take([("u", ROW, {**ROW, "n": 7})]).rows) == 1


@pytest.mark.parametrize(
    "columns", [{"mask": {"name": {"hash": "sha256", "key": "k" * 32}}}, {"replace": {"name": "upper(name)"}}]
)
def test_a_key_that_rows_have_as_it_is_gets_no_mask_and_no_expression(
    tmp_path: Path, columns: Mapping[str, object]
) -> None:
    """The row would stay beside its new one, with the value that the mask is to hide."""
    rule = {"primary_key": ["name"], "before": "full"}
    run = Run(tmp_path, rule).take([("c", None, ROW)])
    with pytest.raises(
        ConfigError, match="the rule computes name of its primary key differently from its existing rows"
    ):
        run.start({**rule, "columns": columns})
        run.take([("u", ROW, {**ROW, "n": 7})])
    run.start(rule)
    assert [(row["name"], row["n"]) for row in run.take([("u", ROW, {**ROW, "n": 8})]).rows] == [("bob", 8)]


def test_redact_leaves_a_column_with_a_declared_type_empty(tmp_path: Path) -> None:
    rule = {"columns": {"mask": {"born": "redact", "name": "redact"}, "types": {"born": "DATE"}}}
    run = Run(tmp_path, rule).take([("c", None, {**ROW, "born": "1980-01-01"})])

    assert run.reasons == {}
    assert [(row["born"], row["name"]) for row in run.rows] == [(None, "***")]


VALUES: dict[str, Any] = {
    "INT": 12345, "BIGINT": 1 << 40, "DATE": 18_000, "DECIMAL(10, 2)": "123.45", "BOOLEAN": True, "DOUBLE": 1.5,
    "TIMESTAMP(3)": 1_704_153_600_123, "BYTES": "c2VjcmV0", "ARRAY<INT>": [4711, 4712], "ROW<k INT, s INT>": {"k": 7},
}  # fmt: skip


@pytest.mark.slow
def test_masks_hide_values_of_every_type(tmp_path: Path) -> None:
    """The values get their types from a first rule, or from a declaration of a hidden column."""
    shown = {"hash": ({"hash": "sha256", "key": "k"}, "[0-9a-f]{64}"), "last": ({"show_last": 2}, r"\*+..|\*+")}
    names = {t: f"c{n}" for n, t in enumerate(VALUES)}
    row = {"id": 1, **{names[t]: value for t, value in VALUES.items()}}
    plain = Run(tmp_path / "plain", {"columns": {"types": {names[t]: t for t in VALUES}}}).take([("c", None, row)])
    assert plain.reasons == {} and all(plain.rows[0].values())

    for word, (mask, pattern) in shown.items():
        run = Run(tmp_path / word, {"columns": {"mask": dict.fromkeys(names.values(), mask)}})
        run.take([("c", None, row)])
        assert run.reasons == {} and {run.types[name] for name in names.values()} == {"STRING"}
        for name in names.values():
            assert re.fullmatch(pattern, run.rows[0][name]), (word, name, run.rows[0][name])
        with pytest.raises(ConfigError, match="its mask gives STRING"):
            plain.start({"columns": {"mask": {"c0": mask}}})
            plain.take([("c", None, {**row, "id": 2})])
        by_pattern = Run(tmp_path / f"{word}2", {"columns": {"mask": {"c0": mask}, "types": {"/c.*0/": "INT"}}})
        by_pattern.take([("c", None, row)])
        by_pattern.start({"columns": {"mask": {"c0": mask}, "types": {"/c.*0/": "INT"}}})
        by_pattern.take([("c", None, {**row, "id": 2})])
        assert by_pattern.reasons == {} and len(by_pattern.rows) == 2
        assert all(re.fullmatch(pattern, found["c0"]) for found in by_pattern.rows)
    assert len(plain.rows) == 1


@pytest.mark.parametrize("t", ["INT", "BOOLEAN", "DECIMAL(10, 2)", "BYTES", "ARRAY<STRING>", "VARCHAR(9)"])
@pytest.mark.parametrize("mask", [{"hash": "sha256", "key": "k"}, {"show_last": 2}])
def test_a_type_that_no_mask_gives_is_refused(tmp_path: Path, t: str, mask: dict[str, Any]) -> None:
    columns = {"mask": {"name": mask}, "rename": {"name": "called"}, "types": {"called": t}}
    if t == "VARCHAR(9)" and "show_last" in mask:
        run = Run(tmp_path, {"columns": columns})
        run.take([("c", None, ROW), ("c", None, {**ROW, "id": 2, "name": "Bartholomew"})])
        assert [row["called"] for row in run.rows] == ["*ob"] and "does not fit" in next(iter(run.reasons))
        return
    with pytest.raises(ValidationError, match="the mask of the column produces"):
        Run(tmp_path, {"columns": columns})


@pytest.mark.parametrize("mask", ["redact", {"show_last": 2}, {"hash": "sha256", "key": "k"}])
def test_a_masked_text_is_stored_whole_or_not_at_all(tmp_path: Path, mask: object) -> None:
    for t in ("CHAR(2)", "CHAR(70)", *([] if isinstance(mask, dict) and "show_last" in mask else ["VARCHAR(2)"])):
        with pytest.raises(ValidationError, match="the mask of the column produces"):
            Run(tmp_path, {"columns": {"mask": {"name": mask}, "types": {"name": t}}})
    by_pattern = Run(tmp_path, {"columns": {"mask": {"name": mask}, "types": {"/na.*/": "VARCHAR(2)"}}})
    by_pattern.take([("c", None, ROW), ("c", None, {**ROW, "id": 2, "name": None})])
    if mask == "redact":
        assert [row["id"] for row in by_pattern.rows] == [2] and "does not fit" in next(iter(by_pattern.reasons))
    else:
        assert by_pattern.types["name"] == "STRING" and len(by_pattern.rows) == 2


def test_a_misspelt_mask_leaves_no_value_open(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"columns.mask: .* no column 'nmae'; did you mean 'name'"):
        Run(tmp_path, {"columns": {"mask": {"nmae": "redact"}}}).take([("c", None, ROW)])


@pytest.mark.slow
def test_a_masked_column_that_shows_late_is_masked_from_its_first_value(tmp_path: Path) -> None:
    run = Run(tmp_path, {"columns": {"mask": {"name": {"show_last": 1}, "phone": {"show_last": 2}}}})

    run.take([("c", None, {**ROW, "name": None})], [("u", None, {**ROW, "phone": "12345"})])

    assert run.rows == [{"id": 1, "n": 6, "note": "x", "name": "**b", "phone": "***45"}]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"columns": {"add": {"a": "nmae"}}}, "records of shop.public.t have no column 'nmae' .did you mean 'name'"),
        ({"where": 'name = "draft"'}, "no column 'draft'; if it is a text, write it in single quotes: 'draft';"),
        ({"where": "n > current_date"}, "where: n > current_date: current_date gives a different value each time"),
        ({"where": "foo = 1"}, "where: foo = 1: records of shop.public.t have no column 'foo'"),
        (
            {"columns": {"add": {"note": "1"}}},
            "column 'note' of shop.public.t: `columns.add` makes a column of this name",
        ),
        ({"columns": {"rename": {"name": "note"}}}, "'name' is renamed to this name"),
        ({"columns": {"drop": ["id"]}}, "'id' of the message key is left out"),
        (
            {"columns": {"add": {"Note": "n"}}},
            "computed column 'Note': its name differs from column 'note' only in case",
        ),
        ({"where": "name"}, "a condition is true or false"),
        ({"columns": {"add": {"a": "sqrt(name)"}}}, "No function matches"),
    ],
)
def test_rules_that_do_not_fit_the_records_say_so(tmp_path: Path, rule: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Run(tmp_path, rule).take([("c", None, ROW)])


@pytest.mark.slow
def test_a_rule_changes_with_its_table_there(tmp_path: Path) -> None:
    run = Run(tmp_path, {"columns": {"drop": ["name"]}}).take([("c", None, ROW)])

    run.start({"columns": {"drop": ["name"], "add": {"double": "n * 2", "up": "upper(name)"}}})
    run.take([("u", None, {**ROW, "n": 7})], [("c", None, {**ROW, "id": 2})])

    assert run.rows == [
        {"id": 1, "n": 7, "note": "x", "double": 14, "up": "BOB"},
        {"id": 2, "n": 6, "note": "x", "double": 12, "up": "BOB"},
    ]
    with pytest.raises(ConfigError, match=r"column 'double' is BIGINT there, and its expression gives STRING"):
        run.start({"columns": {"drop": ["name"], "add": {"double": "note", "up": "upper(name)"}}})
        run.take([("u", None, ROW)])


@pytest.mark.parametrize("columns", [{"drop": ["n"]}, {"keep": ["id", "name", "note"]}], ids=["drop", "keep"])
def test_a_column_that_a_rule_leaves_out_later_gets_no_more_values(tmp_path: Path, columns: dict[str, Any]) -> None:
    run = Run(tmp_path, {}).take([("c", None, ROW), ("c", None, {**ROW, "id": 2})])

    run.start({"columns": columns})
    run.take([("u", None, {**ROW, "n": 7}), ("c", None, {**ROW, "id": 3})])

    assert [(row["id"], row["n"]) for row in run.rows] == [(1, None), (2, 6), (3, None)]


def test_inputs_widen_with_their_source_unless_their_type_is_declared(tmp_path: Path) -> None:
    columns = {"drop": ["v"], "add": {"w": "v", "plus": "v + 1"}}
    run = Run(tmp_path / "open", {"columns": columns}).take([("c", None, {"id": 1, "v": 1})])
    assert run.types["plus"] == "BIGINT"
    fixed = Run(tmp_path / "fixed", {"columns": {**columns, "types": {"v": "BIGINT"}}})
    large = 12345678901234567890123

    for one in (run, fixed):
        one.take([("c", None, {"id": 2, "v": large})])

    assert [(row["w"], row["plus"]) for row in run.rows] == [(1, 2), (large, large + 1)]
    assert run.types["w"].startswith("DECIMAL(") and run.reasons == {}
    assert fixed.reports[-1].counts.quarantined == 1 and "column v BIGINT" in next(iter(fixed.reasons))


def test_columns_of_the_source_may_have_the_names_of_an_event_log(tmp_path: Path) -> None:
    row = {"id": 1, "event_op": "sale", "event_time": 5}
    run = Run(tmp_path / "keyed", {"where": "event_op = 'sale'", "columns": {"add": {"op": "$op"}}}).take(
        [("c", None, row)]
    )
    of_log = {"mode": "append", "on_change": "log", "columns": {"rename": {"event_op": "what", "event_time": "at"}}}
    log = Run(tmp_path / "log", of_log, bucket="-1").take([("c", None, row)])

    assert run.rows == [{**row, "op": "c"}]
    assert [(r["event_op"], r["what"], r["at"]) for r in log.rows] == [("c", "sale", 5)] and log.reasons == {}


def test_options_may_name_computed_columns(tmp_path: Path) -> None:
    rule = {"columns": {"add": {"at": "$offset * -1"}}, "options": {"sequence.field": "at"}}

    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, ROW)], [("u", None, {**ROW, "n": 7})])

    assert [row["n"] for row in run.rows] == [6]


@pytest.mark.slow
def test_two_rules_make_one_wide_table_of_columns_with_one_name(tmp_path: Path) -> None:
    rules: list[dict[str, object]] = [
        {
            "match": {"database": name}, "into": "lake.t", "merge_sources": "same_rows",
            "columns": {"rename": {"v": f"v_{name}"}, "add": {f"up_{name}": "upper(v)"}},
        }
        for name in ("a", "b")
    ]  # fmt: skip
    config = shop_config(tmp_path, rules, {"bucket": "1", "merge-engine": "partial-update"})
    for first in (0, 1):  # the second process knows the sources from the table
        tables = PipelineTables(config, "tidemark-shop-test")
        batches = [records([("c", None, {"id": 1, "v": f"x{first}"})], first=first, db=name) for name in ("a", "b")]
        reported_batches(tables, batches, tmp_path, 2 * first, config.decoder)

    (row,) = tables.sinks["lake.t"].table.to_arrow().to_pylist()
    assert row == {"id": 1, "v_a": "x1", "up_a": "X1", "v_b": "x1", "up_b": "X1"}


def test_no_time_zone_of_the_machine_changes_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    types = {"made": "TIMESTAMP_LTZ(3)"}
    rule = {"columns": {"types": types, "add": {"day": "CAST(made AS DATE)", "text": "strftime(made, '%H:%M')"}}}

    run = Run(tmp_path, rule).take([("c", None, {"id": 1, "made": 1_704_153_600_000})])

    assert (run.rows[0]["day"], run.rows[0]["text"]) == (datetime.date(2024, 1, 2), "00:00")


@pytest.mark.parametrize("before", [{"id": 1}, {"id": 1, "n": None}])
def test_the_word_of_whole_old_rows_never_keeps_a_row_that_its_source_deleted(
    tmp_path: Path, before: dict[str, Any]
) -> None:
    """Records from before REPLICA IDENTITY FULL have the key alone."""
    run = Run(tmp_path, {"where": "n > 5", "before": "full"}, **LOOKUP)

    run.take([("c", None, ROW), ("c", None, {**ROW, "id": 2})], [("d", before, None)])
    run.take([("u", {"id": 2}, {**ROW, "id": 2, "n": 0})])

    assert run.rows == []
    assert run.changes("id") == [("+I", 1), ("+I", 2), ("-D", 1), ("-D", 2)]


@pytest.mark.parametrize(
    ("rule", "options", "told"),
    [
        ({"where": "n > 5"}, {"rowkind.field": "name"}, "'rowkind.field' reads the kind of each row from a column"),
        *(
            (
                {"where": "n > 5", "before": "full"},
                {"sequence.field": "n", **more},
                f"with 'sequence.field' Tidemark .* needs {told}",
            )
            for more, told in (
                ({"merge-engine": "partial-update"}, "'merge-engine' = deduplicate"),
                ({"changelog-producer": "input"}, "another 'changelog-producer' than input"),
                ({"deletion-vectors.enabled": "true"}, "a table without 'deletion-vectors.enabled'"),
                ({"bucket": "-2"}, "another 'bucket' than -2"),
            )
        ),
        *(
            ({"where": "n > 5", "before": "full"}, {**more, name: "True"}, f"option '{name}' ignores deletes")
            for more, name in (
                ({}, "ignore-delete"),
                ({}, "deduplicate.ignore-delete"),
                ({"merge-engine": "partial-update"}, "ignore-delete"),
            )
        ),
        *(
            (
                {"columns": {"mask": {"n": mask}, "rename": {"n": "v"}}},
                more,
                f"option '{name}' orders rows by column 'v'",
            )
            for mask in ("redact", {"hash": "sha256", "key": "k"})
            for name, more in (
                ("sequence.field", {"sequence.field": "note, v"}),
                (
                    "fields.note,v.sequence-group",
                    {"merge-engine": "partial-update", "fields.note,v.sequence-group": "name"},
                ),
            )
        ),
        ({"where": "$offset > 5"}, {}, "it depends on \\$offset, which differs from record to record"),
        ({"where": "$position > ''"}, {}, "it depends on \\$position"),
        ({"primary_key": ["id", "m"], "columns": {"add": {"m": "$transaction"}}}, {}, "depends on \\$transaction"),
        ({"columns": {"add": {"m": "$op"}}}, {"changelog-producer": "input"}, "it depends on \\$op"),
    ],
)
def test_what_would_judge_an_old_row_by_a_new_record_is_refused(
    tmp_path: Path, rule: dict[str, object], options: dict[str, str], told: str
) -> None:
    run = Run(tmp_path, {"primary_key": ["id"], **rule}, **options)

    with pytest.raises(ConfigError, match=told):
        run.take([("c", None, ROW)])


@pytest.mark.parametrize(
    ("rule", "options", "told"),
    [
        ({"where": "n > 5"}, {"ignore-delete": "true"}, "option 'ignore-delete' ignores deletes"),
        ({"columns": {"mask": {"n": "redact"}}}, {"sequence.field": "n"}, "'sequence.field' orders rows by column 'n'"),
    ],
)
def test_options_of_the_table_count_as_those_of_the_rule(
    tmp_path: Path, rule: dict[str, object], options: dict[str, str], told: str
) -> None:
    run = Run(tmp_path, {"options": options}).take([("c", None, ROW)])
    with pytest.raises(ConfigError, match=told):
        run.start(rule)
    assert [row["n"] for row in run.rows] == [ROW["n"]]


def test_rows_are_marked_though_the_table_leaves_deletes_out(tmp_path: Path) -> None:
    rule = {"where": "n > 5", "history": "soft_delete", "options": {"ignore-delete": "true"}}
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, ROW)], [("u", ROW, {**ROW, "n": 1})])
    assert [row["deleted_at"] is None for row in run.rows] == [False]


@pytest.mark.parametrize("columns", [{"drop": ["n"]}, {"keep": ["id", "name"]}], ids=str)
def test_a_marked_row_keeps_the_columns_that_the_rule_no_longer_fills(
    tmp_path: Path, columns: dict[str, object]
) -> None:
    rule: dict[str, object] = {"history": "soft_delete", "where": "name = 'bob'"}
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, ROW), ("c", None, {**ROW, "id": 2})])
    run.start({**rule, "columns": columns})

    run.take([("d", {"id": 1}, None), ("u", None, {**ROW, "id": 2, "name": "ann"})])

    assert [(row["n"], row["note"], row["deleted_at"] is None) for row in run.rows] == [(6, "x", False)] * 2


@pytest.mark.parametrize("history", [None, "soft_delete"])
@pytest.mark.parametrize("key", ["name", "shard"])
def test_an_update_that_changes_the_key_takes_unsent_values_from_the_row_that_it_names(
    tmp_path: Path, key: str, history: str | None
) -> None:
    """Not from an older row of the new key, which is marked as deleted."""
    columns = {"add": {"shard": "upper(name)"}} if key == "shard" else {}
    rule = {"primary_key": ["id", key], "before": "full", "columns": columns, "history": history}
    a, b, unsent = {**ROW, "name": "a"}, {**ROW, "name": "b"}, {"note": HIDDEN}
    there, back = ("u", {**a, **unsent}, {**b, "note": "y"}), ("u", {**b, **unsent}, {**a, "note": "z"})
    last = ("u", {**a, **unsent}, {**b, **unsent})
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, a)], [there], [back], [last])
    assert [row["note"] for row in run.rows if row["name"] == "b"] == ["z"]


@pytest.mark.parametrize("shard", ["$database", "n % 3"])
def test_a_row_that_moves_under_a_computed_key_needs_all_of_its_values(tmp_path: Path, shard: str) -> None:
    rule = {"primary_key": ["shard", "id"], "before": "full", "columns": {"add": {"shard": shard}}}
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, ROW)])
    moved = records([("c", None, {**ROW, "id": 11, "note": HIDDEN})], first=1).to_pylist()
    moved[0]["headers"] = [{"key": "__debezium.oldkey", "value": b'{"id": 1}'}]

    batch = pa.RecordBatch.from_pylist(moved, schema=RECORD_SCHEMA)
    reported_batches(run.tables, [batch], run.directory, 1, run.config.decoder)

    assert [row["id"] for row in run.rows] == [1]
    (reason,) = run.reasons
    assert reason.startswith("the key changed, part of it is computed, and the source did not send note")


@pytest.mark.parametrize("block", [{"mask": {"note": "redact"}}, {"replace": {"note": "upper(note)"}}], ids=str)
def test_a_row_keeps_a_value_that_is_not_sent_after_a_mask_or_an_expression_began(
    tmp_path: Path, block: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, {}, **LOOKUP).take([("c", None, ROW)])

    run.start({"columns": block})
    run.take([("u", None, {**ROW, "note": HIDDEN, "n": 7}), ("u", None, {**ROW, "id": 2, "note": HIDDEN})])

    assert [(row["id"], row["n"], row["note"]) for row in run.rows] == [(1, 7, "x"), (2, 6, None)]
    assert "NULL was written for 1 value(s) that the source did not send ('note': 1)" in caplog.text


def test_a_value_that_the_mark_of_an_unknown_row_lacks_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, {"history": "soft_delete"}, **LOOKUP).take([("c", None, ROW), ("c", None, {**ROW, "id": 2})])
    run.take([("d", {"id": 2}, None), ("d", {"id": 3}, None)])

    run.take([("u", None, {**ROW, "id": number, "note": HIDDEN}) for number in (2, 3)])

    assert [(row["id"], row["note"], row["deleted_at"]) for row in run.rows[1:]] == [(2, "x", None), (3, None, None)]
    assert "NULL was written for 1 value(s) that the source did not send ('note': 1)" in caplog.text


def two_tables(*events: tuple[str, str, Any, Any]) -> pa.RecordBatch:
    """Events (table, operation, before, after) of the tables t and other."""
    parts = [
        records([(op, before, after)], first=offset, table=table, db=table)
        for offset, (table, op, before, after) in enumerate(events)
    ]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


RULES_OF_TWO = [
    {"match": {"table": "t"}, "into": "lake.t", "where": "status = 'open'"},
    {"match": {"table": "other"}, "into": "lake.other"},
]
OTHERS = [("other", "c", None, {"id": n}) for n in range(4)]
OPEN = ("t", "c", None, {"id": 9, "status": "open"})


@pytest.mark.slow
@pytest.mark.parametrize("before", [{"id": 1}, {"id": 1, "status": None}])
def test_deletes_that_show_no_column_of_a_filter_wait_for_the_first_row(tmp_path: Path, before: Any) -> None:
    batch = two_tables(("t", "d", before, None), *OTHERS, OPEN, ("t", "d", {"id": 9}, None), OPEN)
    pipeline = PausedPipeline(tmp_path, batch, RULES_OF_TWO, batch_size=5)
    pipeline.settings = replace(pipeline.settings, decoder=pipeline.config.decoder)

    pipeline.run()

    assert pipeline.rows("lake.t") == {9: {"id": 9, "status": "open"}}
    assert (len(pipeline.rows("lake.other")), pipeline.behind) == (4, {})
    assert pipeline.reports[0].counts.skipped == {"deletes without a table": 1}


@pytest.mark.slow
def test_rows_with_nothing_but_null_for_a_filter_pause_their_table_alone(tmp_path: Path) -> None:
    """Once the rule says the type, the table has them all."""
    batch = two_tables(("t", "c", None, {"id": 1, "status": None}), *OTHERS, OPEN)
    pipeline = PausedPipeline(tmp_path, batch, RULES_OF_TWO, batch_size=5)
    pipeline.settings = replace(pipeline.settings, decoder=pipeline.config.decoder)
    pipeline.run()
    assert len(pipeline.rows("lake.other")) == 4
    assert "column 'status' has only NULL so far" in pipeline.behind["lake.t"]

    typed = {**RULES_OF_TWO[0], "columns": {"types": {"status": "STRING"}}}
    again = PausedPipeline(tmp_path, batch, [typed, RULES_OF_TWO[1]], batch_size=5)
    again.settings = replace(again.settings, decoder=again.config.decoder)
    again.caught_up()

    assert (again.rows("lake.t"), again.behind) == ({9: {"id": 9, "status": "open"}}, {})


@pytest.mark.parametrize("drop", [[], ["note"]], ids=str)
@pytest.mark.parametrize("together", [True, False])
def test_null_is_a_value_for_the_expression_of_a_key(tmp_path: Path, together: bool, drop: list[str]) -> None:
    rule = {
        "primary_key": ["k", "id"],
        "before": "full",
        "columns": {"add": {"k": "coalesce(note, '-')"}, "drop": drop, "types": {"note": "STRING"}},
    }
    none, some = {**ROW, "note": None}, {**ROW, "note": "x"}
    other = {**none, "id": 2}
    events: list[Any] = [
        ("c", None, none),
        ("c", None, other),
        ("u", none, some),
        ("u", some, none),
        ("d", other, None),
    ]
    run = Run(tmp_path, rule, **LOOKUP)

    run.take(*([events[:3]] if together else [[event] for event in events[:3]]))
    assert [(row["k"], row["id"]) for row in run.rows] == [("-", 2), ("x", 1)]

    run.take(*([events[3:]] if together else [[event] for event in events[3:]]))
    assert [(row["k"], row["id"]) for row in run.rows] == [("-", 1)]
    assert run.reasons == {}


def test_a_key_whose_expression_gives_null_is_a_bad_record(tmp_path: Path) -> None:
    rule = {"primary_key": ["k", "id"], "before": "full", "columns": {"add": {"k": "upper(note)"}}}
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, {**ROW, "note": None}), ("c", None, ROW)])
    assert [row["k"] for row in run.rows] == ["X"]
    assert list(run.reasons) == ["column k STRING NOT NULL: NULL in a column that is NOT NULL"]


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ({"replace": {"made": "epoch_ms(made)"}, "types": {"made": "TIMESTAMP(3)"}}, 1_714_557_600_000),
        ({"replace": {"made": "made > 5"}, "types": {"made": "BOOLEAN"}}, 9),
        ({"replace": {"made": "made // 2"}, "types": {"made": "DOUBLE"}}, 5),
        ({"replace": {"made": "greatest(made, '5')"}, "types": {"made": "STRING"}}, "10"),
        ({"replace": {"made": "CASE WHEN made > 5 THEN 'a' END"}, "types": {"made": "STRING"}}, 10),
        ({"mask": {"made": {"show_last": 1}}, "types": {"made": "STRING"}, "add": {"lt": "made < 10"}}, 9),
    ],
    ids=str,
)
def test_the_declared_type_of_a_result_is_not_that_of_its_values(
    tmp_path: Path, columns: dict[str, object], value: object
) -> None:
    """Whether the first value comes with the first record or later."""
    first, second = ("c", None, {**ROW, "made": None}), ("c", None, {**ROW, "id": 2, "made": value})
    at_once = Run(tmp_path / "at once", {"columns": columns}).take([first, second])
    apart = Run(tmp_path / "apart", {"columns": columns})

    with pytest.raises(SchemaChangeRefused, match="the type of the result"):
        apart.take([first])

    assert at_once.rows == apart.take([first, second]).rows
    assert at_once.reasons == apart.reasons == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"replace": {"made": "coalesce(made, '-')"}, "types": {"made": "STRING"}},
        {"mask": {"made": {"show_last": 1}}, "types": {"made": "STRING"}},
    ],
    ids=str,
)
def test_a_result_of_the_type_of_its_values_needs_no_value(tmp_path: Path, columns: dict[str, Any]) -> None:
    run = Run(tmp_path, {"columns": columns}).take([("c", None, {**ROW, "made": None})])
    run.take([("c", None, {**ROW, "id": 2, "made": "abc"})])
    given = {"coalesce(made, '-')": ["-", "abc"], "": [None, "**c"]}
    assert [row["made"] for row in run.rows] == given[columns.get("replace", {"made": ""})["made"]]


@pytest.mark.parametrize("op", ["d", "u"])
@pytest.mark.parametrize("before", [None, {"id": 2}], ids=str)
def test_an_old_row_without_a_column_of_the_key_is_no_row_with_null(tmp_path: Path, op: str, before: Any) -> None:
    columns = {"add": {"k": "coalesce(note, '-')"}, "types": {"note": "STRING"}}
    rule = {"primary_key": ["k", "id"], "before": "full", "columns": columns}
    run = Run(tmp_path, rule, **LOOKUP).take([("c", None, {**ROW, "id": 2})])
    (record,) = records(
        [(op, {**ROW, "id": 2}, {**ROW, "id": 2, "note": "y"} if op == "u" else None)], first=1
    ).to_pylist()
    value = {**json.loads(record["value"]), "before": before}
    batch = pa.RecordBatch.from_pylist([{**record, "value": json.dumps(value).encode()}], schema=RECORD_SCHEMA)

    reported_batches(run.tables, [batch], run.directory, 1, run.config.decoder)

    assert [(row["k"], row["id"]) for row in run.rows] == [("x", 2)]
    assert len(run.reasons) == 1
