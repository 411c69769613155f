"""NOT NULL columns of tables that another program has made, where the source's columns take NULL."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paimon_table import Table, create_schema
from paimon_table.errors import MalformedRecord, SchemaChangeRefused
from paimon_table.types import parse_type
from pipelines.config.schema_changes import PRESETS
from pipelines.tables.column_changes import column_differences
from pipelines.tables.tables import PipelineTables
from pipelines.trial.ddl import alter_table
from sinks.commit.own_position import OwnReading
from tests.support.avro_topics import AvroTopics
from tests.support.item_batches import event, records, typed
from tests.support.local_batches import pipeline_tables, reported_batches, shop_config
from tests.support.table_driver import TableDriver, new_table

KINDS = {"id": "int32", "a": "int32", "b": "string"}
Event = tuple[Any, Any]


def made_by_others(root: Path, **options: str) -> None:
    columns = [("id", "INT"), ("a", "INT NOT NULL"), ("b", "STRING NOT NULL")]
    new_table(root / "warehouse" / "lake.db" / "items", columns, ["id"], options=options)


def at(row: dict[str, Any], *, nullable: str = "") -> Event:
    """A record whose embedded schema lets these columns be NULL."""
    key, value = typed(row["id"], row, KINDS)
    for column in value["schema"]["fields"][0]["fields"]:
        column["optional"] = column["field"] in nullable
    return key, value


def tables_with(root: Path, words: Any, **rule: Any) -> PipelineTables:
    return pipeline_tables(
        root, [{"match": {"table": "items"}, "into": "lake.items", "schema_changes": words, **rule}], bucket="1"
    )


def items(root: Path) -> Table:
    return Table.open(f"{root}/warehouse/lake.db/items")


def content(root: Path) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in items(root).to_arrow().to_pylist()}


def types(root: Path) -> list[str]:
    return [str(f.type) for f in items(root).schema.fields]


def reasons(root: Path) -> list[str]:
    files = sorted((root / "quarantine").rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["apply", "ignore"])
def test_any_history_of_nullability_gives_what_the_word_says(tmp_path: Path, word: str) -> None:
    """The model: a column takes NULL once a schema of the batch has let it; else the record is bad."""
    for seed in range(3):
        r, root = random.Random(seed), tmp_path / str(seed)
        made_by_others(root)
        taken, rows, bad, offset, nullable = set[str](), dict[int, Any](), 0, 0, ""
        tables = tables_with(root, {"nullability": word})
        for batch in range(8):
            if r.random() < 0.3:
                nullable = r.choice(["", "a", "b", "ab"])
            drawn: list[tuple[dict[str, Any], str]] = []  # rows, and the columns that their schema lets be NULL
            for _ in range(r.randint(1, 4)):
                row: dict[str, Any] = {
                    "id": r.randrange(4),
                    "a": r.choice([1, 2, None]),
                    "b": r.choice(["x", "y", None]),
                }
                drawn.append((row, nullable))
            taken |= {name for _, names in drawn for name in names} if word == "apply" else set()
            for row, _ in drawn:
                if any(row[name] is None and name not in taken for name in "ab"):
                    bad += 1
                else:
                    rows[row["id"]] = row
            if batch % 3 == 0:
                tables = PipelineTables(tables.config, tables.commit_user)
            events = [at(row, nullable=names) for row, names in drawn]
            reported_batches(tables, [records(*events, first_offset=offset)], root, batch)
            offset += len(events)

            assert content(root) == rows, f"seed {seed}, batch {batch}"
            assert {f.name for f in items(root).schema.fields if f.type.nullable} == taken
        assert len(reasons(root)) == bad
        assert all("NULL in a column that is NOT NULL" in reason for reason in reasons(root))


def test_a_change_counts_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made_by_others(tmp_path)

    with caplog.at_level("INFO"):
        batch = records(at({"id": 1, "a": None, "b": "x"}, nullable="a"))
        reported_batches(tables_with(tmp_path, "evolve"), [batch], tmp_path)

    before, after = (items(tmp_path).context.schemas[n] for n in (0, 1))
    assert column_differences(before, after) == [("nullability", "a takes NULL")]
    assert alter_table("lake.items", before, after, {}) == ["ALTER TABLE `lake`.`items` MODIFY (`a` INT);"]
    assert "lake.items: column a takes NULL" in caplog.text


def test_the_source_pauses_a_frozen_table_before_its_first_null(tmp_path: Path) -> None:
    made_by_others(tmp_path)
    frozen, first = tables_with(tmp_path, "freeze"), records(at({"id": 1, "a": 1, "b": "x"}))
    reported_batches(frozen, [first], tmp_path)
    change = records(at({"id": 2, "a": 2, "b": "y"}), at({"id": 3, "a": None, "b": "z"}, nullable="a"), first_offset=1)

    for words in ("freeze", {"nullability": "pause"}):
        with pytest.raises(
            SchemaChangeRefused, match=r"shop\.public\.items: column a can be NULL in the source.*pause"
        ):
            reported_batches(tables_with(tmp_path, words), [change], tmp_path, 1)
    assert content(tmp_path).keys() == {1} and types(tmp_path)[1] == "INT NOT NULL"

    reported_batches(tables_with(tmp_path, {"preset": "freeze", "nullability": "apply"}), [change], tmp_path, 1)
    assert content(tmp_path)[3] == {"id": 3, "a": None, "b": "z"}


@pytest.mark.parametrize("preset", PRESETS)
def test_columns_that_take_null_and_keys_that_do_not_stay_as_they_are(tmp_path: Path, preset: str) -> None:
    """Tidemark makes every column nullable but those of the key, whatever the source says then and later."""
    tables = tables_with(tmp_path, preset)
    row = {"id": 1, "a": 1, "b": "x"}
    for number, nullable in enumerate(["", "id a b", "id", "b"]):
        reported_batches(tables, [records(at(row, nullable=nullable), first_offset=number)], tmp_path, number)

    assert types(tmp_path) == ["INT NOT NULL", "INT", "STRING"]
    assert content(tmp_path) == {1: row} and reasons(tmp_path) == []
    assert len(items(tmp_path).context.schemas) == 1


def test_columns_under_other_names_and_wider_types_take_null_too(tmp_path: Path) -> None:
    columns = [("id", "INT"), ("aa", "SMALLINT NOT NULL"), ("b", "STRING NOT NULL"), ("c", "STRING")]
    new_table(tmp_path / "warehouse" / "lake.db" / "items", columns, ["id"])
    rule = {"columns": {"rename": {"a": "aa"}, "add": {"c": "b || '!'"}}}
    change = records(at({"id": 1, "a": None, "b": None}, nullable="ab"), at({"id": 2, "a": 70000, "b": "x"}))

    tables = tables_with(tmp_path, "evolve", **rule)
    reported_batches(tables, [change], tmp_path, 0, tables.config.decoder)

    assert types(tmp_path) == ["INT NOT NULL", "INT", "STRING", "STRING"]
    assert content(tmp_path) == {
        1: {"id": 1, "aa": None, "b": None, "c": None},
        2: {"id": 2, "aa": 70000, "b": "x", "c": "x!"},
    }


def test_avro_unions_with_null_are_followed(tmp_path: Path) -> None:
    made_by_others(tmp_path)
    topics, tables = AvroTopics(), tables_with(tmp_path, "evolve")
    rows = [at({"id": 1, "a": 1, "b": "x"}), at({"id": 2, "a": None, "b": "y"}, nullable="a")]
    of_key = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    keyed = [({"schema": of_key, "payload": key}, value) for key, value in rows]
    for _, value in rows:
        value["schema"]["fields"][0]["name"] = "Value"
    batches = [topics.batch(records(event, first_offset=n)) for n, event in enumerate(keyed)]

    reported_batches(tables, batches, tmp_path, 0, topics.decoder(tmp_path))

    assert types(tmp_path) == ["INT NOT NULL", "INT", "STRING NOT NULL"]
    assert content(tmp_path)[2] == {"id": 2, "a": None, "b": "y"}


def test_a_null_without_a_schema_does_not_say_that_the_source_takes_it(tmp_path: Path) -> None:
    made_by_others(tmp_path)
    key, value = at({"id": 1, "a": None, "b": "x"})

    reported_batches(tables_with(tmp_path, "evolve"), [records((key, value["payload"]))], tmp_path)

    assert types(tmp_path)[1] == "INT NOT NULL"
    assert reasons(tmp_path) == ["column a INT NOT NULL: NULL in a column that is NOT NULL"]


def test_a_replay_lets_the_table_take_null_as_the_stream_does(tmp_path: Path) -> None:
    made_by_others(tmp_path)
    tables = tables_with(tmp_path, "evolve")
    reported_batches(tables, [records(at({"id": 1, "a": 1, "b": "x"}))], tmp_path)
    beside = OwnReading(lambda _: {"replay": "r"}, by_offsets=False)
    replayed = PipelineTables(tables.config, "tidemark-shop-replay", beside=beside)

    batch = records(at({"id": 2, "a": None, "b": "y"}, nullable="a"))
    reported_batches(replayed, [batch], tmp_path, 100)

    assert content(tmp_path)[2] == {"id": 2, "a": None, "b": "y"}


def bare(row: dict[str, Any]) -> Event:
    return event("c", row["id"], row)


DELETED = [event("d", 1), event("d", 9)]


@pytest.mark.parametrize(
    ("rule", "events", "told"),
    [
        ({}, DELETED, [(2, 2, "y")]),
        ({"options": {"merge-engine": "partial-update", "ignore-delete": "true"}}, DELETED, [(1, 1, "x"), (2, 2, "y")]),
        ({"history": "soft_delete"}, DELETED, [(1, 1, "x"), (2, 2, "y"), (9, None, None)]),
        (
            {"columns": {"replace": {"a": "nullif(a, 7)"}}},
            [bare({"id": 1, "a": 7, "b": "z"})],
            [(1, None, "z"), (2, 2, "y")],
        ),
        ({"columns": {"mask": {"a": "redact"}}}, [], [(1, None, "x"), (2, None, "y")]),
    ],
)
def test_a_column_takes_the_null_that_a_delete_or_the_rule_gives(
    tmp_path: Path, rule: dict[str, Any], events: list[Event], told: list[tuple[Any, ...]]
) -> None:
    """Without a schema too: these NULLs say nothing about the source."""
    made_by_others(tmp_path)
    tables = tables_with(tmp_path, "evolve", **rule)
    first = [bare({"id": 1, "a": 1, "b": "x"}), bare({"id": 2, "a": 2, "b": "y"})]
    for number, batch in enumerate([first, events]):
        if batch:
            reported_batches(
                tables, [records(*batch, first_offset=10 * number)], tmp_path, number, tables.config.decoder
            )

    assert sorted((row["id"], row["a"], row["b"]) for row in content(tmp_path).values()) == told
    takes_null = {f.name for f in items(tmp_path).schema.fields if f.type.nullable} & {"a", "b"}
    expected = {"replace": {"a"}, "mask": {"a"}}
    assert takes_null == (
        set() if "options" in rule else expected.get(next(iter(rule.get("columns", {})), ""), {*"ab"})
    )
    assert reasons(tmp_path) == []


@pytest.mark.parametrize("word", ["ignore", "pause"])
def test_a_table_that_is_to_stay_as_it_is_names_the_column_and_the_way_on(tmp_path: Path, word: str) -> None:
    made_by_others(tmp_path)
    tables = tables_with(tmp_path, {"nullability": word})
    reported_batches(tables, [records(bare({"id": 1, "a": 1, "b": "x"}))], tmp_path)

    with pytest.raises(
        MalformedRecord, match=r"null to non-null column\(a\): .* ALTER COLUMN a DROP NOT NULL"
    ) as caught:
        reported_batches(tables, [records(event("d", 1), first_offset=1)], tmp_path, 1)

    assert str(tmp_path) not in str(caught.value)
    assert types(tmp_path) == ["INT NOT NULL", "INT NOT NULL", "STRING NOT NULL"] and content(tmp_path).keys() == {1}


@pytest.mark.parametrize("word", ["apply", "pause"])
def test_records_without_schemas_never_say_that_a_column_takes_null(tmp_path: Path, word: str) -> None:
    source = {"files": {"path": str(tmp_path)}, "format": "maxwell-json"}
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
    rule["schema_changes"] = {"nullability": word}
    with pytest.raises(ValidationError, match="needs schemas in the records, and those of maxwell-json have none"):
        shop_config(tmp_path, [rule], {}, source=source)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_files_from_before_are_read_and_compacted_with_those_from_behind(tmp_path: Path, file_format: str) -> None:
    from paimon_table import NullableColumn

    columns: Mapping[str, str] = {"k": "INT", "v": "BIGINT NOT NULL", "s": "STRING NOT NULL"}
    table = new_table(tmp_path / "t", [*columns.items()], ["k"], options={"file.format": file_format})
    TableDriver(table, tmp_path / "lookup").commit([["+I", 1, 10, "a"], ["+I", 2, 20, "b"]])
    table = table.evolve([NullableColumn("v"), NullableColumn("s"), NullableColumn("v")], 5)
    assert table.schema.id == 1
    driver = TableDriver(table, tmp_path / "lookup2", first_identifier=2)
    driver.commit([["+I", 2, None, None], ["+I", 3, None, "c"]])
    expected = {1: (10, "a"), 2: (None, None), 3: (None, "c")}

    for _ in ("merged on read", "compacted"):
        found = {row["k"]: (row["v"], row["s"]) for row in table.refreshed().to_arrow().to_pylist()}
        assert found == expected
        driver.compact()


def test_a_key_takes_no_null() -> None:
    from paimon_table import NullableColumn, apply_changes

    schema = create_schema([("id", parse_type("INT"))], ["id"])
    with pytest.raises(SchemaChangeRefused, match="part of the primary key"):
        apply_changes(schema, [NullableColumn("id")], 0)


def test_records_that_lack_a_not_null_column_go_where_the_log_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made_by_others(tmp_path)
    tables = tables_with(tmp_path, {"drop": "keep_null"})
    lacking = typed(2, {"id": 2, "a": 2}, {"id": "int32", "a": "int32"})
    batches = [records(at({"id": 1, "a": 1, "b": "x"})), records(lacking, first_offset=1)]
    _, reports = reported_batches(tables, batches, tmp_path)

    assert content(tmp_path) == {1: {"id": 1, "a": 1, "b": "x"}}
    assert list(reports[-1].quarantined_reasons.values()) == [1]
    (told,) = [r.getMessage() for r in caplog.records if "no longer have column b" in r.getMessage()]
    assert "new records go to quarantine, because b is NOT NULL in the table" in told and "have NULL" not in told
