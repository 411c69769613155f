"""What each word of `schema_changes` does when the schema of a source changes."""

from __future__ import annotations

import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paimon_table import Table
from paimon_table.errors import SchemaChangeRefused
from pipelines.config.schema_changes import PRESETS, SchemaChanges
from pipelines.tables.tables import PipelineTables
from tests.support.item_batches import drawn_value, event, records, typed
from tests.support.local_batches import dump_batches, pipeline_tables, reported_batches, shop_config
from tests.support.replay import CAPTURES
from tests.support.source_content import open_table

PAIMON = {"int32": "INT", "int64": "BIGINT", "string": "STRING"}
WIDTH = {"INT": 31, "BIGINT": 63}


class Naive:
    """The table as the words say, row by row."""

    def __init__(self, words: dict[str, str]) -> None:
        self.words, self.types = words, dict[str, str]()
        self.rows: dict[int, dict[str, Any]] = {}
        self.bad = 0

    def take(self, row: dict[str, Any], types: dict[str, str]) -> None:
        is_first = not self.types
        beyond = [name for name, value in row.items() if name not in self.types and value is not None]
        if beyond and not is_first and self.words["add"] == "quarantine":
            self.bad += 1  # its schema changes nothing either
            return
        for name, kind in types.items():
            self._follow(name, PAIMON[kind], is_first)
        stored: dict[str, Any] = {}
        for name, value in row.items():
            if name not in self.types:
                continue
            try:
                stored[name] = self._fitting(value, self.types[name])
            except ValueError:
                self.bad += 1
                return
        self.rows[row["id"]] = stored

    def _follow(self, name: str, kind: str, is_first: bool) -> None:
        present = self.types.get(name)
        if present is None:
            if is_first or self.words["add"] == "apply":
                self.types[name] = kind
        elif (present, kind) == ("INT", "BIGINT"):
            if self.words["widen"] == "apply":
                self.types[name] = kind
        elif kind == "STRING" != present and self.words["retype"] == "to_string":
            self.types[name] = "STRING"
            for row in self.rows.values():
                row[name] = None if row.get(name) is None else str(row[name])

    @staticmethod
    def _fitting(value: Any, kind: str) -> Any:
        if value is None or kind == "STRING":
            return None if value is None else str(value)
        if not -(1 << WIDTH[kind]) <= int(value) < 1 << WIDTH[kind]:
            raise ValueError
        return int(value)

    @property
    def content(self) -> dict[int, dict[str, Any]]:
        return {key: {name: row.get(name) for name in self.types} for key, row in self.rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("add", ["apply", "ignore", "quarantine"])
@pytest.mark.parametrize(("widen", "retype"), [("apply", "cast"), ("apply", "to_string"), ("cast", "to_string")])
def test_any_history_of_schemas_gives_what_the_words_say(tmp_path: Path, add: str, widen: str, retype: str) -> None:
    """Columns come, go and change their types; every third batch a new process begins."""
    for seed in range(2):
        r, root = random.Random(seed), tmp_path / str(seed)
        words = {"add": add, "widen": widen, "retype": retype}
        naive, types = Naive(words), {"id": "int32", "a": "int32"}
        rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "schema_changes": words}
        tables = pipeline_tables(root, [rule])
        for batch in range(14):
            name = r.choice("abc")
            if name not in types:
                types[name] = r.choice(["int32", "string"])
            elif r.random() < 0.3:
                del types[name]
            elif r.random() < 0.6:
                types[name] = {"int32": "int64", "int64": "string", "string": "int32"}[types[name]]
            row = {"id": r.randrange(4), **{n: drawn_value(r, kind) for n, kind in types.items() if n != "id"}}
            naive.take(row, types)
            if batch % 3 == 0:
                tables = PipelineTables(tables.config, tables.commit_user)
            changed = records(typed(row["id"], row, types), first_offset=batch)
            quarantine, _ = reported_batches(tables, [changed], root, batch)

            stored = {found["id"]: found for found in open_table(tables, "items").to_arrow().to_pylist()}
            assert stored == naive.content, f"seed {seed}, batch {batch}: {row} as {types}"
        assert len(list(Path(quarantine.path).rglob("*.jsonl"))) == naive.bad


BEFORE = typed(1, {"id": 1, "v": 7, "w": 1}, {"id": "int32", "v": "int32", "w": "int32"})
CHANGES = {
    "add": ({"id": "int32", "v": "int32", "w": "int32", "more": "int32"}, {"more": 1}, "apply"),
    "drop": ({"id": "int32", "v": "int32"}, {}, "keep_null"),
    "widen": ({"id": "int32", "v": "int64", "w": "int32"}, {}, "apply"),
    "retype": ({"id": "int32", "v": "string", "w": "int32"}, {}, "cast"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_table_is_paused_before_the_change_and_goes_on_with_another_word(tmp_path: Path, kind: str) -> None:
    types, more, other = CHANGES[kind]
    row = {name: {"int32": 8, "int64": 8, "string": "8"}[t] for name, t in types.items()} | {"id": 2, **more}
    batch = records(typed(2, row, types), first_offset=1)

    def tables_with(words: Any) -> PipelineTables:
        rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "schema_changes": words}
        return pipeline_tables(tmp_path, [rule])

    reported_batches(tables_with({kind: "pause"}), [records(BEFORE)], tmp_path)
    for words in ({kind: "pause"}, "freeze"):
        with pytest.raises(SchemaChangeRefused, match=f"schema_changes: {{{kind}: pause}}"):
            reported_batches(tables_with(words), [batch], tmp_path, 1)
    assert [r["id"] for r in open_table(tables_with("freeze"), "items").to_arrow().to_pylist()] == [1]

    reported_batches(tables_with({"preset": "freeze", kind: other}), [batch], tmp_path, 1)

    table = Table.open(f"{tmp_path}/warehouse/lake.db/items")
    assert sorted(r["id"] for r in table.to_arrow().to_pylist()) == [1, 2]


def test_a_declared_column_is_no_change_for_a_frozen_table(tmp_path: Path) -> None:
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "schema_changes": "freeze"}
    declared: dict[str, object] = {**rule, "columns": {"types": {"more": "INT"}}}
    reported_batches(pipeline_tables(tmp_path, [rule]), [records(BEFORE)], tmp_path)
    types, _, _ = CHANGES["add"]

    row = {"id": 2, "v": 1, "w": 1, "more": 5}
    batch = records(typed(2, row, types), first_offset=1)
    reported_batches(pipeline_tables(tmp_path, [declared]), [batch], tmp_path, 1)

    assert row in open_table(pipeline_tables(tmp_path, [declared]), "items").to_arrow().to_pylist()


def test_a_value_that_only_the_column_of_the_former_type_has_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
    tables = pipeline_tables(tmp_path, [{**rule, "schema_changes": {"retype": "new_column"}}])
    text = {"id": "int32", "n": "int32", "body": "string"}
    rows = [{"id": 1, "n": 1, "body": "long"}, {"id": 2, "n": 1, "body": "aGk="}]
    unsent = {"id": 1, "n": 2, "body": b64encode(b"__debezium_unavailable_value").decode()}
    events = [typed(1, rows[0], text), *(typed(0, row, {**text, "body": "bytes"}) for row in (rows[1], unsent))]

    batches = [records(event, first_offset=offset) for offset, event in enumerate(events)]
    reported_batches(tables, batches, tmp_path, 0, tables.config.decoder)

    assert {row["id"]: row["body_v2"] for row in open_table(tables, "items").to_arrow().to_pylist()} == {
        1: None,
        2: b"hi",
    }
    assert "NULL was written for 1 value(s) that the source did not send ('body_v2': 1)" in caplog.text


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ((1, "abc", 2), {"v": [1, None, None], "v_v2": [None, "abc", "2"]}),
        ((True, 5, "x"), {"v": [True, None, None], "v_v2": [None, 5, None], "v_v3": [None, None, "x"]}),
    ],
    ids=str,
)
def test_values_without_a_schema_start_a_column_of_their_type(
    tmp_path: Path, values: tuple[object, ...], columns: dict[str, list[object]]
) -> None:
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items"}
    tables = pipeline_tables(tmp_path, [{**rule, "schema_changes": {"retype": "new_column"}}])
    batches = [records(event("c", n, {"id": n, "v": v}), first_offset=n) for n, v in enumerate(values)]

    reported_batches(tables, batches, tmp_path, 0, tables.config.decoder)

    rows = open_table(tables, "items").to_arrow().sort_by("id")
    assert rows.drop_columns(["id"]).to_pydict() == columns


@pytest.mark.parametrize("option", [{"sequence.field": "v"}, {"merge-engine": "aggregation"}])
def test_a_column_that_cannot_become_text_is_kept(tmp_path: Path, option: dict[str, str]) -> None:
    if "sequence.field" not in option:
        option = {**option, "fields.v.aggregate-function": "sum"}
    rule: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", "schema_changes": "lenient"}
    tables = pipeline_tables(tmp_path, [{**rule, "options": option}])
    types, _, _ = CHANGES["retype"]
    good, bad = (typed(key, {"id": key, "v": text, "w": 1}, types) for key, text in ((2, "8"), (3, "eight")))

    reported_batches(tables, [records(BEFORE), records(good, bad, first_offset=1)], tmp_path)

    found = open_table(tables, "items")
    assert {row["id"]: row["v"] for row in found.to_arrow().to_pylist()} == {1: 7, 2: 8}


def test_words_win_over_presets_and_rules_over_defaults() -> None:
    defaults = SchemaChanges.model_validate({"preset": "freeze", "truncate": "apply"})
    freeze = PRESETS["freeze"]

    def over(value: Any) -> dict[str, str]:
        return SchemaChanges.model_validate(value).over(defaults).words

    assert over({}) == {**freeze, "truncate": "apply"}
    assert over({"add": "ignore"}) == {**freeze, "truncate": "apply", "add": "ignore"}
    assert over("lenient") == PRESETS["lenient"]
    assert over({"preset": "evolve", "drop": "pause"}) == {**PRESETS["evolve"], "drop": "pause"}
    assert SchemaChanges().over().words == PRESETS["evolve"]


@pytest.mark.parametrize(
    ("rule", "defaults", "told"),
    [
        ({"schema_changes": "frozen"}, {}, "expected evolve, lenient, freeze, or a mapping"),
        ({"schema_changes": {"default": "apply"}}, {}, "'apply' is not supported: no Paimon reader fills older rows"),
        ({"mode": "append", "schema_changes": {"truncate": "apply"}}, {}, "'apply' needs a primary key"),
        ({"merge_sources": "same_rows", "schema_changes": {"truncate": "apply"}}, {}, "also delete rows of the other"),
        ({"new_columns": {"max_per_day": 5}, "schema_changes": "freeze"}, {}, "`new_columns` has no effect with"),
        ({"new_columns": {"max_per_day": 5}}, {"schema_changes": "freeze"}, "`new_columns` has no effect with"),
        ({}, {"new_columns": {"max_per_day": 5}, "schema_changes": "freeze"}, "`new_columns` has no effect with"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, rule: dict[str, object], defaults: dict[str, object], told: str
) -> None:
    with pytest.raises(ValidationError, match=told):
        whole: dict[str, object] = {"match": {"table": "items"}, "into": "lake.items", **rule}
        shop_config(tmp_path, [whole], {}, defaults=defaults)


@pytest.mark.slow
def test_a_captured_column_keeps_its_type(tmp_path: Path) -> None:
    """An INT that became a BIGINT, then a decimal: with `widen: cast` it stays, and what does not fit is put aside."""
    rule: dict[str, object] = {"match": {"table": "acct"}, "into": "lake.acct", "schema_changes": {"widen": "cast"}}
    tables = pipeline_tables(tmp_path, [rule])

    quarantine, _ = reported_batches(tables, dump_batches(CAPTURES / "evolve_schema.jsonl.gz", 7), tmp_path)

    table = open_table(tables, "acct")
    rows = {row["id"]: row["balance"] for row in table.to_arrow().to_pylist()}
    assert str(table.schema.field("balance").type) == "INT"
    assert 13 not in rows and rows[12] == 2
    reasons = [line for file in Path(quarantine.path).rglob("*.jsonl") for line in file.read_text().splitlines()]
    assert any("9000000000" in line for line in reasons), reasons[0][:400]


FITTING = {
    "the schemas of records": [
        typed(2, {"id": 2, "v": 3_000_000_000, "w": 1}, {"id": "int32", "v": "int64", "w": "int32"}),
        typed(3, {"id": 3, "v": "x", "w": 1}, {"id": "int32", "v": "string", "w": "int32"}),
    ],
    "their values": [event("c", 2, {"id": 2, "v": 2**63, "w": 1}), event("c", 3, {"id": 3, "v": "x", "w": 1})],
}


@pytest.mark.parametrize("shown", FITTING)
@pytest.mark.parametrize("batches", ["one", "two", "one of two tasks"])
@pytest.mark.parametrize("is_reversed", [False, True], ids=["", "reversed"])
def test_a_value_that_fits_no_wider_type_keeps_no_other_one_from_its_column(
    tmp_path: Path, shown: str, batches: str, is_reversed: bool
) -> None:
    first = BEFORE if shown == "the schemas of records" else event("c", 1, {"id": 1, "v": 7, "w": 1})
    wide = FITTING[shown][::-1] if is_reversed else FITTING[shown]
    tables = pipeline_tables(tmp_path, [{"match": {"table": "items"}, "into": "lake.items"}])
    reported_batches(tables, [records(first)], tmp_path)

    parts = [records(value, first_offset=number) for number, value in enumerate(wide, 1)]
    taken = {"one": [records(*wide, first_offset=1)], "two": parts, "one of two tasks": [parts]}[batches]
    quarantine, _ = reported_batches(tables, taken, tmp_path, 1)

    found = {row["id"]: int(row["v"]) for row in open_table(tables, "items").to_arrow().to_pylist()}
    assert found == {1: 7, 2: 3_000_000_000 if shown == "the schemas of records" else 2**63}
    assert len(list(Path(quarantine.path).rglob("*.jsonl"))) == 1
