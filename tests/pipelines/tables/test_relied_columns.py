"""Columns that the source loses while the rule relies on them: masks, conditions, the order of changes."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import SchemaChangeRefused
from paimon_table.ids import Offset
from pipelines.config.config import PipelineConfig
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA, NewestRow, SourceTable
from tests.support.item_batches import event, records, typed
from tests.support.local_batches import processed, reported_batches, shop_config, task_settings
from tests.support.mongodb_events import insert
from tests.support.source_content import open_table

AB = {"id": "int32", "a": "int32", "b": "string"}
AC = {"id": "int32", "a": "int32", "c": "string"}
A = {"id": "int32", "a": "int32"}
ROWS = {"id": 1, "a": 1, "b": "x"}


def pipeline(root: Path, fmt: str = "debezium-json", **rule: Any) -> PipelineConfig:
    source = {"files": {"path": str(root)}, "format": fmt}
    return shop_config(root, [{"match": {"topic": ".*items"}, "into": "lake.items", **rule}], {}, source=source)


def run(root: Path, config: PipelineConfig, batch: int, *events: tuple[Any, Any]) -> PipelineTables:
    tables = PipelineTables(config, "tidemark-shop-test")
    reported_batches(tables, [records(*events, first_offset=10 * batch)], root, batch, config.decoder)
    return tables


def rows(tables: PipelineTables) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_table(tables, "items").to_arrow().sort_by("id").to_pylist()
    return found


def bare(row: dict[str, Any]) -> tuple[Any, Any]:
    return event("u", row["id"], row)


@pytest.mark.parametrize("rename", ["add_and_keep", "apply"])
@pytest.mark.parametrize("has_schema", [True, False])
def test_the_new_name_of_a_masked_column_shows_no_value(tmp_path: Path, rename: str, has_schema: bool) -> None:
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}}, schema_changes={"rename": rename})
    new = {"id": 2, "a": 2, "c": "secret"}
    tables = run(tmp_path, config, 0, typed(1, ROWS, AB) if has_schema else bare(ROWS))

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        run(tmp_path, config, 1, typed(2, new, AC) if has_schema else bare(new))

    assert rows(tables) == [{"id": 1, "a": 1, "b": "***"}]
    both = pipeline(tmp_path, columns={"mask": {"b": "redact", "c": "redact"}})
    run(tmp_path, both, 1, typed(2, new, AC) if has_schema else bare(new))
    assert rows(tables)[1] == {"id": 2, "a": 2, "b": None, "c": "***"}


def test_a_masked_column_that_is_renamed_in_the_first_batch_makes_no_table(tmp_path: Path) -> None:
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    new = typed(2, {"id": 2, "a": 2, "c": "secret"}, AC)

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        run(tmp_path, config, 0, typed(1, ROWS, AB), new)

    declared = pipeline(tmp_path, columns={"mask": {"b": "redact"}, "types": {"c": "STRING"}})
    assert len(rows(run(tmp_path, declared, 0, typed(1, ROWS, AB), new))) == 2


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("in_first_batch", [True, False])
def test_a_masked_column_without_a_value_so_far_is_not_forgotten(
    tmp_path: Path, has_schema: bool, in_first_batch: bool
) -> None:
    """What the source calls otherwise now may have had only NULL, so that the table has no column for it."""
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    old, new = {**ROWS, "b": None}, {"id": 2, "a": 2, "c": "secret"}
    sent = [typed(1, old, AB), typed(2, new, AC)] if has_schema else [bare(old), bare(new)]

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        if in_first_batch:
            run(tmp_path, config, 0, *sent)
        else:
            run(tmp_path, config, 0, bare({"id": 0, "a": 0}))
            run(tmp_path, config, 1, sent[0])
            run(tmp_path, config, 2, sent[1])


@pytest.mark.parametrize("is_schema_last", [True, False])
@pytest.mark.parametrize("of_one_batch", [True, False])
def test_schemas_that_are_switched_on_or_off_hide_no_new_name(
    tmp_path: Path, is_schema_last: bool, of_one_batch: bool
) -> None:
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    new = {"id": 2, "a": 2, "c": "secret"}
    sent = [bare(ROWS), typed(2, new, AC)] if is_schema_last else [typed(1, ROWS, AB), bare(new)]

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        for number, events in enumerate([sent] if of_one_batch else [[one] for one in sent]):
            run(tmp_path, config, number, *events)


def test_one_row_of_the_new_name_is_enough(tmp_path: Path) -> None:
    """Rows of dump files may be mixed: the newest one has the masked column."""
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    tables = run(tmp_path, config, 0, typed(1, ROWS, AB))

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        run(tmp_path, config, 1, typed(2, {"id": 2, "a": 2, "c": "secret"}, AC), typed(1, ROWS, AB))

    assert rows(tables) == [{"id": 1, "a": 1, "b": "***"}]


@pytest.mark.parametrize("has_column", [True, False])
def test_a_partition_that_is_behind_hides_no_loss(tmp_path: Path, has_column: bool) -> None:
    """The row that was produced last tells; those of before the column was added lack it too."""
    config = pipeline(tmp_path, where="b = 'x'")
    run(tmp_path, config, 0, typed(1, ROWS, AB), typed(2, {**ROWS, "id": 2}, AB))
    found = records(typed(1, ROWS, AB), typed(2, {"id": 2, "a": 2}, A), first_offset=10).to_pylist()
    times = [2000, 1000] if has_column else [1000, 2000]
    placed = [row | {"partition": n, "timestamp": time} for n, (row, time) in enumerate(zip(found, times, strict=True))]
    batch = pa.RecordBatch.from_pylist(placed, schema=RECORD_SCHEMA)
    tables = PipelineTables(config, "tidemark-shop-test")

    if has_column:
        reported_batches(tables, [batch], tmp_path, 1, config.decoder)
    else:
        with pytest.raises(SchemaChangeRefused, match="`where`"):
            reported_batches(tables, [batch], tmp_path, 1, config.decoder)

    assert [row["id"] for row in rows(tables)] == [1] + [2] * (not has_column)


def test_a_masked_column_that_comes_later_opens_nothing(tmp_path: Path) -> None:
    """Records of before the column was added bring no column that the others lack."""
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    first, later = typed(1, {"id": 1, "a": 1}, A), typed(2, {"id": 2, "a": 2, "b": "secret"}, AB)

    assert rows(run(tmp_path, config, 0, first, later)) == [{"id": 1, "a": 1, "b": None}, {"id": 2, "a": 2, "b": "***"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"where": "b = 'x'"}, "`where`"),
        ({"options": {"sequence.field": "b"}}, "sequence.field"),
        (
            {"options": {"merge-engine": "partial-update", "ignore-delete": "true", "fields.b.sequence-group": "a"}},
            "sequence-group",
        ),
        ({"columns": {"rename": {"b": "s"}}, "options": {"sequence.field": "s"}}, "no longer have column b"),
    ],
)
@pytest.mark.parametrize("types", [A, AC])
def test_a_lost_column_that_decides_about_rows_pauses(
    tmp_path: Path, rule: dict[str, Any], told: str, types: dict[str, str]
) -> None:
    """With NULL there, updates would delete the rows of the condition, or lose against older ones."""
    config = pipeline(tmp_path, **rule)
    tables = run(tmp_path, config, 0, typed(1, ROWS, AB))
    before = rows(tables)

    with pytest.raises(SchemaChangeRefused, match=told):
        run(tmp_path, config, 1, typed(1, {"id": 1, "a": 2} | ({"c": "x"} if types is AC else {}), types))

    assert [{name: row[name] for name in before[0]} for row in rows(tables)] == before


def maxwell(row: dict[str, Any]) -> tuple[Any, Any]:
    about = {"database": "shop", "table": "items", "type": "insert", "ts": 1, "primary_key_columns": ["id"]}
    return None, {**about, "data": row}


def flat(row: dict[str, Any]) -> tuple[Any, Any]:
    return {"id": row["id"]}, row


@pytest.mark.parametrize(
    ("fmt", "words"),
    [(fmt, {}) for fmt in ("json", "maxwell-json")] + [(fmt, {"drop": "drop"}) for fmt in ("upsert-json", "auto")],
)
def test_a_row_that_leaves_a_field_out_drops_no_column(
    tmp_path: Path, fmt: str, words: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """What is not there may only be NULL: no column goes for that, and no condition fails."""
    made = maxwell if fmt == "maxwell-json" else flat
    config = pipeline(tmp_path, fmt, primary_key=["id"], schema_changes=words, where="b IS NULL OR b = 'x'")
    run(tmp_path, config, 0, made(ROWS))

    tables = run(tmp_path, config, 1, made({"id": 2, "a": 2}))

    assert rows(tables) == [ROWS, {"id": 2, "a": 2, "b": None}]
    assert "no longer have column b" not in caplog.text


def by_canal(word: str, row: dict[str, Any]) -> tuple[Any, Any]:
    about = {"database": "shop", "table": "items", "type": word, "es": 1, "pkNames": ["id"], "isDdl": False}
    return None, {**about, "data": [row], "old": [{"a": 0}] if word == "UPDATE" else None}


def named_types(record: tuple[Any, Any]) -> tuple[Any, Any]:
    return None, {**record[1], "mysqlType": dict.fromkeys(record[1]["data"][0], "varchar(9)")}


MASK: dict[str, Any] = {"mask": {"b": "redact"}}
OPEN = {"id": 2, "a": 2, "c": "secret"}
TEXTS, OPEN_TEXTS = {"id": "1", "a": "1", "b": "x"}, {"id": "1", "a": "1", "c": "secret"}


@pytest.mark.parametrize("columns", [MASK, {"drop": ["b"]}])
@pytest.mark.parametrize(
    ("fmt", "first", "new"),
    [
        ("debezium-json", bare(ROWS), [event("d", 1, None, {**OPEN, "id": 1})]),
        ("debezium-json", bare(ROWS), [bare(OPEN), bare({**ROWS, "id": 3})]),
        ("canal-json", by_canal("INSERT", TEXTS), [by_canal("UPDATE", OPEN_TEXTS)]),
        ("canal-json", by_canal("UPDATE", TEXTS), [by_canal("INSERT", OPEN_TEXTS)]),
        ("canal-json", named_types(by_canal("UPDATE", TEXTS)), [named_types(by_canal("DELETE", OPEN_TEXTS))]),
    ],
)
def test_whatever_record_brings_the_new_name_shows_no_value(
    tmp_path: Path, columns: dict[str, Any], fmt: str, first: tuple[Any, Any], new: list[tuple[Any, Any]]
) -> None:
    """Deletes and updates bring columns as inserts do."""
    config = pipeline(tmp_path, fmt, columns=columns)
    before = rows(run(tmp_path, config, 0, first))

    with pytest.raises(SchemaChangeRefused, match=r"column c is new .* no longer have column b"):
        run(tmp_path, config, 1, *new)

    assert rows(PipelineTables(config, "tidemark-shop-test")) == before


def test_a_log_of_changes_shows_no_value_of_the_new_name_in_deletes(tmp_path: Path) -> None:
    config = pipeline(tmp_path, columns=MASK, mode="append", on_change="log")
    before = rows(run(tmp_path, config, 0, bare(ROWS)))

    with pytest.raises(SchemaChangeRefused, match=r"columns\.mask"):
        run(tmp_path, config, 1, event("d", 1, None, {**OPEN, "id": 1}))

    assert rows(PipelineTables(config, "tidemark-shop-test")) == before


def test_a_column_that_came_beside_the_masked_one_is_not_its_new_name(tmp_path: Path) -> None:
    """Updates may have a part of their row."""
    config = pipeline(tmp_path, "canal-json", columns=MASK)
    run(tmp_path, config, 0, by_canal("INSERT", TEXTS))

    both, part = by_canal("INSERT", {**TEXTS, "c": "y"}), by_canal("UPDATE", {"id": "1", "c": "z"})
    tables = run(tmp_path, config, 1, both, part)

    assert [(row["b"], row["c"]) for row in rows(tables)] == [("***", "z")]


DROP: dict[str, Any] = {"drop": ["b"]}
NEW = {"id": 2, "a": 2, "c": "secret"}


def record_of(row: dict[str, Any], *, has_schema: bool) -> tuple[Any, Any]:
    return typed(row["id"], row, {n: "int32" if n in A else "string" for n in row}) if has_schema else bare(row)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [DROP, {"drop": ["/b.*/"], "add": {"twice": "b || b"}}])
@pytest.mark.parametrize("has_schema", [True, False])
def test_the_new_name_of_a_dropped_column_shows_no_value(
    tmp_path: Path, columns: dict[str, Any], has_schema: bool
) -> None:
    config = pipeline(tmp_path, columns=columns)
    before = rows(run(tmp_path, config, 0, record_of(ROWS, has_schema=has_schema)))
    new = record_of(NEW, has_schema=has_schema)

    with pytest.raises(SchemaChangeRefused, match=r"column c is new .* no longer have column b, which columns\.drop"):
        run(tmp_path, config, 1, new)

    assert rows(PipelineTables(config, "tidemark-shop-test")) == before
    declared = pipeline(tmp_path, columns={**columns, "types": {"c": "STRING"}})
    assert rows(run(tmp_path, declared, 1, new))[1]["c"] == "secret"
    later = record_of({**NEW, "id": 3, "d": "x"}, has_schema=has_schema)
    assert rows(run(tmp_path, declared, 2, later))[2]["d"] == "x", "b is long gone"


@pytest.mark.slow
@pytest.mark.parametrize("has_schema", [True, False])
def test_a_dropped_column_that_records_lack_already_pauses_nothing(tmp_path: Path, has_schema: bool) -> None:
    """It never came, was dropped at the source before, or comes later."""
    config = pipeline(tmp_path, columns={"drop": ["b", "never", "later"]})
    steps: list[dict[str, Any]] = [
        ROWS,
        {"id": 2, "a": 2},
        {"id": 3, "a": 3, "c": "x"},
        {"id": 4, "a": 4, "later": "y", "d": "z"},
    ]

    for batch, row in enumerate(steps):
        tables = run(tmp_path, config, batch, record_of(row, has_schema=has_schema))

    assert [row["id"] for row in rows(tables)] == [1, 2, 3, 4]
    assert rows(tables)[3] == {"id": 4, "a": 4, "c": None, "d": "z"}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [{"mask": {"b": "redact"}}, DROP])
@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("is_new", [True, False], ids=["at once", "later"])
def test_a_source_that_never_had_the_hidden_column_pauses_nothing(
    tmp_path: Path, columns: dict[str, Any], has_schema: bool, is_new: bool
) -> None:
    """Another source of the table has it, and stays under watch."""
    config = pipeline(tmp_path, columns=columns, merge_sources="same_rows")

    def take(batch: int, topic: str, row: dict[str, Any]) -> PipelineTables:
        tables = PipelineTables(config, "tidemark-shop-test")
        key, value = record_of(row, has_schema=has_schema)
        (record,) = records((key, value), first_offset=10 * batch).to_pylist()
        told = pa.RecordBatch.from_pylist([{**record, "topic": topic}], schema=RECORD_SCHEMA)
        reported_batches(tables, [told], tmp_path, batch, config.decoder)
        return tables

    take(0, "one.public.items", ROWS)
    if not is_new:
        take(1, "two.public.items", {"id": 2, "a": 2})
    tables = take(2, "two.public.items", {"id": 3, "a": 3, "c": "x"})
    assert rows(tables)[-1]["c"] == "x"

    with pytest.raises(SchemaChangeRefused, match=r"column d is new in records that no longer have column b"):
        take(3, "one.public.items", {"id": 4, "a": 4, "d": "secret"})


@pytest.mark.slow
@pytest.mark.parametrize("columns", [{"mask": {"b": "redact"}}, DROP])
@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("is_new", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("is_one_task", [True, False], ids=["one task", "two tasks"])
def test_a_source_that_has_and_loses_the_hidden_column_in_one_batch_shows_no_value(
    tmp_path: Path, columns: dict[str, Any], has_schema: bool, is_new: bool, is_one_task: bool
) -> None:
    config = pipeline(tmp_path, columns=columns, merge_sources="same_rows")

    def take(batch: int, topic: str, *found: dict[str, Any]) -> None:
        told = records(*(record_of(row, has_schema=has_schema) for row in found), first_offset=10 * batch).to_pylist()
        tasks = [told] if is_one_task else [[one] for one in told]
        of_topic = [
            pa.RecordBatch.from_pylist([{**one, "topic": topic} for one in task], schema=RECORD_SCHEMA)
            for task in tasks
        ]
        tables = PipelineTables(config, "tidemark-shop-test")
        processed(tables, [of_topic], task_settings(tmp_path, decoder=config.decoder), batch)

    take(0, "one.public.items", ROWS)
    if not is_new:
        take(1, "two.public.items", {"id": 2, "a": 2})
    with pytest.raises(SchemaChangeRefused, match=r"column c is new in records that no longer have column b"):
        take(2, "two.public.items", {"id": 3, "a": 3, "b": "y"}, {"id": 3, "a": 3, "c": "secret"})


def test_the_newer_of_two_rows_keeps_what_either_hides() -> None:
    """A task reads a partition in pieces: each notes its newest row."""
    source = SourceTable("shop.public.items", "shop", "public", "items")
    rows = [
        NewestRow(source, 0, Offset(number), None, absent, hidden=frozenset(hidden))
        for number, (absent, hidden) in enumerate([((), "b"), (("b",), ""), (("b",), "c")])
    ]
    for first, second, third in permutations(rows):
        newest = third.after(second.after(first.after(None)))
        assert (newest.offset, newest.absent, newest.hidden) == (Offset(2), ("b",), frozenset("bc"))


@pytest.mark.slow
def test_a_new_name_that_has_only_null_at_first_shows_no_value(tmp_path: Path) -> None:
    config = pipeline(tmp_path, columns=DROP)
    run(tmp_path, config, 0, bare(ROWS))
    run(tmp_path, config, 1, bare({**NEW, "c": None}))

    with pytest.raises(SchemaChangeRefused, match=r"columns\.drop leaves out"):
        run(tmp_path, config, 2, bare(NEW))


def test_a_dropped_column_that_is_renamed_in_the_first_batch_makes_no_table(tmp_path: Path) -> None:
    config, older = pipeline(tmp_path, columns=DROP), pipeline(tmp_path / "older", columns=DROP)

    with pytest.raises(SchemaChangeRefused, match=r"columns\.drop leaves out"):
        run(tmp_path, config, 0, typed(1, ROWS, AB), typed(2, NEW, AC))

    late = run(tmp_path / "older", older, 0, typed(2, NEW, AC), typed(1, ROWS, AB))
    assert len(rows(late)) == 2, "the column was added after the other was dropped"


def test_a_wider_column_of_records_without_a_masked_one_is_not_new(tmp_path: Path) -> None:
    config = pipeline(tmp_path, columns={"mask": {"b": "redact"}})
    run(tmp_path, config, 0, typed(1, ROWS, AB))

    tables = run(tmp_path, config, 1, typed(2, {"id": 2, "a": 1 << 40}, {"id": "int32", "a": "int64"}))

    assert rows(tables)[1] == {"id": 2, "a": 1 << 40, "b": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"options": {"sequence.field": "b"}, "columns": {"types": {"b": "STRING"}}}, "sequence.field"),
        ({"where": "b = 'x' OR b IS NULL", "columns": {"types": {"b": "STRING"}}}, "`where`"),
        (
            {"columns": {"rename": {"b": "s"}, "types": {"s": "STRING"}}, "options": {"sequence.field": "s"}},
            "sequence.field",
        ),
    ],
)
def test_a_lost_column_that_is_declared_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: dict[str, Any], place: str
) -> None:
    """It may still come, which is why the table goes on."""
    config = pipeline(tmp_path, **rule)
    run(tmp_path, config, 0, typed(1, ROWS, AB))
    caplog.clear()
    tables = PipelineTables(config, "tidemark-shop-test")
    batches = [records(typed(n, {"id": n, "a": n}, A), first_offset=10 * n) for n in (2, 3)]

    reported_batches(tables, batches, tmp_path, 1, config.decoder)

    told = [r.getMessage() for r in caplog.records if "its events have no column b, and" in r.getMessage()]
    assert len(told) == 1 and f"{place} of table lake.items needs it" in told[0]
    assert "name the new column in the rule" in told[0]
    assert len(rows(tables)) == 3


@pytest.mark.slow
def test_documents_have_the_fields_that_they_like(tmp_path: Path) -> None:
    config = pipeline(tmp_path, columns=DROP)
    run(tmp_path, config, 0, insert({"_id": 1, "b": "x"}))

    tables = run(tmp_path, config, 1, insert({"_id": 2, "c": "y"}))

    assert sorted(row["_id"] for row in open_table(tables, "items").to_arrow().to_pylist()) == [1, 2]


@pytest.mark.parametrize("columns", [{"mask": {"b": "redact"}}, DROP])
def test_a_first_batch_that_has_and_loses_the_hidden_column_shows_no_value(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    config = pipeline(tmp_path, columns=columns)
    with pytest.raises(SchemaChangeRefused, match=r"column c is new in records that no longer have column b"):
        run(tmp_path, config, 0, bare({"id": 3, "a": 3, "b": "y"}), bare({"id": 4, "a": 3, "c": "secret"}))
