"""Embedded schemas that come and go: a column holds one form of its values, across batches and restarts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sources.column_forms import OPTION
from tests.support.item_batches import event, records, run
from tests.support.local_batches import pipeline_tables, run_batches

RULE: list[dict[str, object]] = [{"match": {"table": "items"}, "into": "lake.items"}]
MICRO_TIME = {"type": "int64", "name": "io.debezium.time.MicroTime"}
FIELDS: dict[str, dict[str, Any]] = {
    "w": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "30", "connect.decimal.precision": "65"},
    },
    "m": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    "tm": MICRO_TIME,
    "ta": {"type": "array", "items": MICRO_TIME},
    "d": {"type": "int32", "name": "io.debezium.time.Date"},
    "s": {"type": "string"},
}
ROW = {"w": "fje+ICLAkUsmgAAAAQ==", "m": "1234", "tm": 1_000_001, "ta": [1_000_001], "d": 19_723, "s": "MDk="}


def change(key: int, schema: bool, op: str = "c", fields: Any = None, **values: Any) -> tuple[Any, Any]:
    """An event with ROW or ``values``, as the connector writes it with an embedded schema or without one."""
    row = {"id": key, **(values or ROW)}
    message, value = event(op, key, None if op == "d" else row, row if op == "d" else None)
    if not schema:
        return message, value
    described = [{**t, "optional": True, "field": name} for name, t in (fields or FIELDS).items() if name in row]
    after = {"type": "struct", "fields": [{"type": "int32", "field": "id"}, *described], "field": "after"}
    whole = {"type": "struct", "fields": [{**after, "field": "before"}, after, {"type": "string", "field": "op"}]}
    return message, {"schema": whole, "payload": value}


def restarted(tables: PipelineTables) -> PipelineTables:
    return PipelineTables(tables.config, tables.commit_user)


def stored(tables: PipelineTables) -> dict[int, dict[str, Any]]:
    rows = Table.open(f"{tables.config.catalog.warehouse}/lake.db/items").to_arrow().to_pylist()
    return {row.pop("id"): {name: str(value) for name, value in row.items()} for row in rows}


def ran(tables: PipelineTables, directory: Path, *changes: tuple[Any, Any]) -> tuple[PipelineTables, list[str]]:
    """Each change in a batch and a process of its own; with the reasons of the quarantine."""
    for batch_id, one in enumerate(changes, 10):
        tables = restarted(tables)
        quarantine = run_batches(tables, [records(one, first_offset=100 * batch_id)], directory, batch_id)
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return tables, [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("together", [True, False])
def test_records_without_a_schema_are_read_as_those_with_one_were(tmp_path: Path, together: bool) -> None:
    changes = [change(1, True), change(2, False), change(3, True), change(4, False)]
    tables = pipeline_tables(tmp_path, RULE)
    if together:
        run(tables, tmp_path, records(*changes))
    else:
        tables, _ = ran(tables, tmp_path, *changes)
    rows = stored(tables)
    assert rows.keys() == {1, 2, 3, 4}
    assert rows[1] == rows[2] == rows[3] == rows[4]
    assert rows[1]["w"] == "10.000000000000000000000000000001"
    assert rows[1] | {"w": ""} == {
        "w": "", "m": "-26588.24", "tm": "00:00:01.000001", "ta": "['00:00:01.000001']", "d": "2024-01-01", "s": "MDk=",
    }  # fmt: skip


@pytest.mark.parametrize("declared", [{}, {"m": "STRING", "tm": "STRING", "w": "STRING", "d": "STRING"}], ids=str)
def test_a_column_begun_without_a_schema_goes_on_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, declared: dict[str, str]
) -> None:
    tables = pipeline_tables(tmp_path, [{**RULE[0], "columns": {"types": declared}}])
    tables, reasons = ran(tables, tmp_path, change(1, False), change(2, True), change(3, False))
    rows = stored(tables)
    assert reasons == []
    assert rows[1] == rows[2] == rows[3]
    assert (rows[1]["m"], rows[1]["tm"], rows[1]["d"]) == ("1234", "1000001", "19723")
    assert any("column 'm' keeps the form of records without an embedded schema" in m for m in caplog.messages)


def test_schemas_that_disagree_leave_no_way_to_read_a_record_without_one(tmp_path: Path) -> None:
    wider = {**FIELDS, "m": {**FIELDS["m"], "parameters": {"scale": "4", "connect.decimal.precision": "14"}}}
    fifty = {"m": "MDk="}
    changes = [change(1, True, **fifty), change(2, True, fields=wider, **fifty), change(3, False, **fifty)]
    tables, reasons = ran(pipeline_tables(tmp_path, RULE), tmp_path, *changes)
    assert {key: row["m"] for key, row in stored(tables).items()} == {1: "123.4500", 2: "1.2345"}
    assert len(reasons) == 1 and "earlier records disagree about the meaning" in reasons[0]


@pytest.mark.parametrize("form, plain", [("m", "123.45"), ("s", "Nw==")])
def test_a_value_that_no_schema_so_far_explains_leaves_the_others_open(tmp_path: Path, form: str, plain: str) -> None:
    """The mode of the decimals has changed along with the schemas: what may be both is none of the two."""
    rule = [{**RULE[0], "columns": {"types": {"s": "DECIMAL(20, 2)"}}}]
    changes = [change(1, True, **{form: "1234"}), change(2, False, **{form: plain}), change(3, False, **{form: "1234"})]
    tables, reasons = ran(pipeline_tables(tmp_path, rule), tmp_path, *changes)
    assert stored(tables).keys() == {1}
    assert ["declare decimal_format" in reason for reason in reasons] == [True, True]


def test_both_schemas_in_one_batch_settle(tmp_path: Path) -> None:
    wider = {**FIELDS, "m": {**FIELDS["m"], "parameters": {"scale": "4", "connect.decimal.precision": "14"}}}
    changes = [change(key, True, fields=wider if key % 2 else None, m="MDk=") for key in range(6)]
    tables = pipeline_tables(tmp_path, RULE)
    assert run(tables, tmp_path, records(*changes), records(*changes, first_offset=6))[0] == []


def test_a_new_column_has_the_form_of_its_first_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    changes = [change(1, False, s="x"), change(2, True, s="x", tm=1_000_001), change(3, False, s="x", tm=1_000_001)]
    tables, _ = ran(pipeline_tables(tmp_path, RULE), tmp_path, *changes)
    assert {row["tm"] for key, row in stored(tables).items() if key > 1} == {"00:00:01.000001"}
    assert "column tm STRING added" in caplog.text
    assert OPTION not in caplog.text


def test_a_delete_without_a_schema_finds_its_row(tmp_path: Path) -> None:
    rule = [{**RULE[0], "primary_key": ["m", "tm"], "before": "full"}]
    changes = [change(1, True), change(1, False, "d")]
    tables, reasons = ran(pipeline_tables(tmp_path, rule), tmp_path, *changes)
    assert (stored(tables), reasons) == ({}, [])


def test_a_remembered_form_is_published_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tables, _ = ran(pipeline_tables(tmp_path, RULE), tmp_path, *(change(key, key % 2 > 0) for key in range(1, 6)))
    table = Table.open(f"{tables.config.catalog.warehouse}/lake.db/items")
    assert table.schema.id == 0
    assert '"time(1000000)":["tm"]' in table.schema.options[OPTION]


def test_many_values_that_agree_are_remembered(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{**RULE[0], "columns": {"types": {"m": "DECIMAL(20, 2)"}}}])
    whole = [change(key, False, m=f"{key}.00") for key in range(1, 101)]
    reasons, _ = run(tables, tmp_path, records(*whole, change(200, False, m="1234")))
    assert (reasons, stored(tables)[200]["m"]) == ([], "1234.00")
    tables, reasons = ran(tables, tmp_path / "later", change(201, False, m="5678"))
    assert (reasons, stored(tables)[201]["m"]) == ([], "5678.00")


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{**t, "optional": True, "field": name} for name, t in fields.items()]}


FINE = {**FIELDS["m"], "parameters": {"scale": "4", "connect.decimal.precision": "10"}}
MILLIS = {"type": "int64", "name": "io.debezium.time.Timestamp"}


@pytest.mark.parametrize(
    ("declared", "schema", "bare", "described", "means"),
    [
        ("ROW<d DECIMAL(12, 6), s STRING>", struct(d=FINE, s=MICRO_TIME), {"d": "1.00", "s": 7}, {"d": "MDk=", "s": 7},
         "{'d': Decimal('1.234500'), 's': '7'}"),
        ("MAP<STRING, TIMESTAMP(6)>", {"type": "map", "keys": {"type": "string"}, "values": MILLIS}, {"k": 1_000_000},
         {"k": 1_000}, "[('k', datetime.datetime(1970, 1, 1, 0, 0, 1))]"),
    ],
    ids=["row", "map"],
)  # fmt: skip
def test_only_the_texts_in_a_nested_column_go_on_raw(
    tmp_path: Path, declared: str, schema: Any, bare: Any, described: Any, means: str
) -> None:
    """What its schema says of numbers and times beside them stands: ``MDk=`` is read by the scale of the schema."""
    rule = [{**RULE[0], "columns": {"types": {"r": declared}}}]
    changes = [change(1, False, r=bare), change(2, True, fields={"r": schema}, r=described)]
    tables, reasons = ran(pipeline_tables(tmp_path, rule), tmp_path, *changes)
    assert (reasons, stored(tables)[2]["r"]) == ([], means)


@pytest.mark.parametrize(("stated", "schema"), [("text", FIELDS["m"]), ("base64", {"type": "string"})])
def test_a_stated_decimal_format_reaches_into_nested_columns(tmp_path: Path, stated: str, schema: Any) -> None:
    types = {"r": "ROW<d DECIMAL(20, 2), s STRING>"}
    rule = [{**RULE[0], "columns": {"types": types, "decimal_formats": {"r": stated}}}]
    fields = {"r": struct(d=schema, s=FIELDS["tm"])}
    changes = [change(1, True, fields=fields, r={"d": "1234"}), change(2, False, r={"d": "1234", "s": 1_000_001})]
    tables, reasons = ran(pipeline_tables(tmp_path, rule), tmp_path, *changes)
    number = "1234.00" if stated == "text" else "-26588.24"
    assert (reasons, stored(tables)[2]["r"]) == ([], f"{{'d': Decimal('{number}'), 's': '00:00:01.000001'}}")


@pytest.mark.parametrize(
    ("declared", "schemas", "values"),
    [
        ("DOUBLE", ({"type": "string"}, FIELDS["m"]), ("1234", "MDk=")),
        ("BIGINT", ({"type": "string"}, FIELDS["m"]), ("1234", "Jw8A")),
        ("TIMESTAMP(3)", ({"type": "int64"}, {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}), (1, 1000)),
    ],
    ids=str,
)
@pytest.mark.parametrize("turn", [1, -1])
def test_schemas_disagree_in_whichever_order_they_come(
    tmp_path: Path, declared: str, schemas: Any, values: Any, turn: int
) -> None:
    rule = [{**RULE[0], "columns": {"types": {"m": declared}}}]
    both = [*zip(schemas, values, strict=True)][::turn]
    changes = [change(key, True, fields={"m": schema}, m=value) for key, (schema, value) in enumerate(both)]
    tables, reasons = ran(pipeline_tables(tmp_path, rule), tmp_path, *changes, change(9, False, m=values[0]))
    assert 9 not in stored(tables)
    assert "earlier records disagree" in reasons[-1]


def drop_column(table: Path, name: str) -> None:
    """As Java does: the options stay."""
    schema = json.loads((table / "schema" / "schema-0").read_text())
    fields = [field for field in schema["fields"] if field["name"] != name]
    (table / "schema" / "schema-1").write_text(json.dumps({**schema, "id": 1, "fields": fields}))


@pytest.mark.slow
@pytest.mark.parametrize("schema", [False, True])
def test_a_column_that_comes_again_begins_anew(tmp_path: Path, schema: bool) -> None:
    tables, _ = ran(pipeline_tables(tmp_path, RULE), tmp_path, change(1, True, m="MDk=", s="x"))
    drop_column(tmp_path / "warehouse" / "lake.db" / "items", "m")
    again = {"s": {"type": "string"}, "m": {"type": "string"}}
    changes = [change(2, schema, fields=again, m="1234", s="x"), change(3, False, m="1234", s="x")]
    tables, reasons = ran(tables, tmp_path / "later", change(1, False, s="x"), *changes)
    assert (reasons, {key: row["m"] for key, row in stored(tables).items()}) == ([], {1: "None", 2: "1234", 3: "1234"})


DECIMAL = {"amount": FIELDS["m"]}


def of_sources(directory: Path, *columns: dict[str, Any]) -> PipelineTables:
    """One table of two source tables, a and b, with these columns each."""
    rules: list[dict[str, object]] = []
    for name, given in zip("ab", columns, strict=True):
        keyed = {**given, "add": {"kind": "$table", **given.get("add", {})}}
        merged = {"into": "lake.items", "primary_key": ["kind", "id"], "merge_sources": "disjoint_keys"}
        rules.append({**merged, "match": {"table": name}, "columns": keyed})
    return pipeline_tables(directory, rules)


def from_source(table: str, key: int, fields: Any = None, **values: Any) -> tuple[Any, Any]:
    message, value = change(key, fields is not None, fields=fields, **values)
    (value["payload"] if fields is not None else value)["source"]["table"] = table
    return message, value


def batches_of(changes: list[tuple[Any, Any]], together: bool) -> list[Any]:
    cut = [changes] if together else [[one] for one in changes]
    begins = [sum(map(len, cut[:n])) for n in range(len(cut))]
    return [records(*some, first_offset=begin) for some, begin in zip(cut, begins, strict=True)]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("columns", "stored_in"),
    [
        ({"rename": {"amount": "note"}}, "note"),
        ({"drop": ["amount"], "add": {"note": "lower(amount)"}}, "note"),
        ({"replace": {"amount": "lower(amount)"}, "rename": {"amount": "note"}}, "note"),
    ],
    ids=str,
)
def test_columns_of_one_name_in_two_sources_have_their_own_forms(
    tmp_path: Path, together: bool, columns: dict[str, object], stored_in: str
) -> None:
    tables = of_sources(tmp_path, {}, columns)
    changes = [from_source("a", 1, DECIMAL, amount="1234"), from_source("b", 2, amount="abcd")]
    changes += [from_source("b", 3, amount="hello world"), from_source("a", 4, amount="1234")]

    reasons = json_reasons(tables, tmp_path, batches_of(changes, together))

    rows = stored(tables)
    assert reasons == []
    assert [rows[key]["amount"] for key in (1, 4)] == ["-26588.24", "-26588.24"]
    assert [rows[key][stored_in] for key in (2, 3)] == ["abcd", "hello world"]


def test_a_column_with_another_name_in_each_source_has_one_form(tmp_path: Path) -> None:
    declared = {"types": {"t": "STRING"}}
    tables = of_sources(tmp_path, {**declared, "rename": {"v": "t"}}, {**declared, "rename": {"w": "t"}})
    changes = [from_source("a", 1, {"v": MICRO_TIME}, v=1_000_001), from_source("b", 2, {"w": MICRO_TIME}, w=1_000_001)]
    changes += [from_source("a", 3, v=1_000_001), from_source("b", 4, w=1_000_001)]

    assert json_reasons(tables, tmp_path, batches_of(changes, together=False)) == []

    assert {row["t"] for row in stored(tables).values()} == {"00:00:01.000001"}


@pytest.mark.parametrize(
    "other", [{"rename": {"title": "name"}}, {"drop": ["title"], "add": {"name": "upper(title)"}}], ids=str
)
def test_sources_that_name_columns_differently_settle_in_one_batch(tmp_path: Path, other: dict[str, object]) -> None:
    tables = of_sources(tmp_path, {}, other)
    changes = [from_source("a", 1, name="x"), from_source("b", 2, title="Y")]

    assert json_reasons(tables, tmp_path, batches_of([*changes, from_source("b", 3, title="Z")], together=True)) == []

    assert [stored(tables)[key]["name"] for key in (1, 2, 3)] == ["x", "Y", "Z"]
    assert len(Table.open(f"{tables.config.catalog.warehouse}/lake.db/items").context.schemas) <= 4


def json_reasons(tables: PipelineTables, directory: Path, batches: list[Any]) -> list[str]:
    quarantine = run_batches(tables, batches, directory, 1, tables.config.decoder)
    files = sorted(Path(quarantine.path).rglob("*.jsonl"))
    return [json.loads(line)["reason"] for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"replace": {"tm": "tm"}}, {}), ({}, {"replace": {"tm": "tm"}}), ({}, {"rename": {"s": "text"}})],
    ids=str,
)
def test_a_rule_that_hides_a_column_or_no_longer_does_keeps_its_form(
    tmp_path: Path, first: dict[str, object], second: dict[str, object]
) -> None:
    for number, columns in enumerate((first, second)):
        tables = pipeline_tables(tmp_path, [{**RULE[0], "columns": {"types": {"tm": "STRING"}, **columns}}])
        changes = records(change(number, schema=number == 0), first_offset=number)
        run_batches(tables, [changes], tmp_path, number, tables.config.decoder)
    assert [stored(tables)[key]["tm"] for key in (0, 1)] == ["00:00:01.000001"] * 2


def test_a_column_that_only_an_expression_reads_from_now_on_keeps_its_type(tmp_path: Path) -> None:
    given: list[tuple[dict[str, object], object]] = [({}, "abc"), ({"drop": ["s"]}, 5)]
    for number, (columns, value) in enumerate(given):
        rule: dict[str, object] = {**RULE[0], "columns": {"add": {"g": "s > '30'"}, **columns}}
        tables = pipeline_tables(tmp_path, [rule])
        batch = records(change(number, schema=False, s=value), first_offset=number)
        run_batches(tables, [batch], tmp_path, number, tables.config.decoder)
    assert {key: row["g"] for key, row in stored(tables).items()} == {0: "True", 1: "True"}
