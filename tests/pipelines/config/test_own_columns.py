"""Columns that Tidemark fills itself: no other word of a rule fills, renames or drops them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from paimon_table.errors import ConfigError
from paimon_table.row_kind import VALUE_KIND
from pipelines.config.own_columns import NAME_OF_CHANGES, makers
from sinks.exchange import target
from sources import change_columns
from sources.change_columns import CHANGE_COLUMNS
from tests.support.column_rules import ROW_OF_T, Run
from tests.support.local_batches import shop_config

MAKERS: dict[str, dict[str, Any]] = {
    "history: soft_delete": {"history": {"soft_delete": {"column": "gone"}}},
    "history: scd2": {"history": "scd2"},
    "order_by: source_position": {"order_by": "source_position"},
    "on_change: log": {"mode": "append", "on_change": "log"},
}
WORDS: list[dict[str, Any]] = [
    {"types": {"NAME": "STRING"}},
    {"add": {"NAME": "id"}},
    {"replace": {"NAME": "id"}},
    {"mask": {"NAME": "redact"}},
    {"rename": {"x": "NAME"}},
    {"mask": {"x": "redact"}, "rename": {"x": "NAME"}},
]


def of_rule(word: dict[str, Any], name: str) -> dict[str, Any]:
    def named(text: Any) -> Any:
        return name if text == "NAME" else text

    return {block: {named(key): named(value) for key, value in names.items()} for block, names in word.items()}


@pytest.mark.parametrize("option", MAKERS)
def test_no_word_fills_a_column_that_an_option_fills(tmp_path: Path, option: str) -> None:
    rule: dict[str, Any] = {"match": {"table": "t"}, "into": "lake.t", **MAKERS[option]}
    plain = shop_config(tmp_path, [rule], {})
    own = makers(plain.target_rule(plain.tables[0]))
    assert own and {maker.option for maker in own.values()} == {option}

    for name in own:
        for word in WORDS:
            with pytest.raises(ValidationError, match=f"`{option}` stores its own values under this name"):
                shop_config(tmp_path, [{**rule, "columns": of_rule(word, name)}], {})


def test_all_columns_of_change_rows_are_known() -> None:
    stated = {
        value
        for module in (change_columns, target)
        for value in vars(module).values()
        if isinstance(value, str) and re.fullmatch("_[A-Z_]+", value)
    }
    assert stated | {VALUE_KIND} == CHANGE_COLUMNS


@pytest.mark.parametrize("name", sorted(CHANGE_COLUMNS))
def test_no_word_names_a_column_of_change_rows(tmp_path: Path, name: str) -> None:
    told = re.escape(f"column {name!r}: {NAME_OF_CHANGES}")
    for word in [*WORDS, {"rename": {"NAME": "x"}}]:
        with pytest.raises(ValidationError, match=told):
            Run(tmp_path, {"columns": of_rule(word, name)})
    needed = {"drop": [name], "add": {"longer": f"{name} || '!'"}}
    with pytest.raises(ConfigError, match=f"expressions need column {name!r}.*{NAME_OF_CHANGES}"):
        Run(tmp_path, {"columns": needed}).take([("c", None, {**ROW_OF_T, name: "x"})])


def test_each_of_two_options_is_named_for_its_own_column(tmp_path: Path) -> None:
    rule = {"match": {"table": "t"}, "into": "lake.t", **MAKERS["history: soft_delete"], "order_by": "source_position"}
    for name, option in (("gone", "history: soft_delete"), ("_tidemark_position", "order_by: source_position")):
        with pytest.raises(ValidationError, match=f"`{option}` stores its own values"):
            shop_config(tmp_path, [{**rule, "columns": {"types": {name: "STRING"}}}], {})


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            {"mode": "append", "on_change": "log", "columns": {"rename": {"event_op": "op"}}},
            "no column 'event_op', and",
        ),
        ({"history": "scd2", "columns": {"drop": ["is_current"]}}, "columns.drop: .* no column 'is_current'"),
        ({"history": "soft_delete", "columns": {"drop": ["deleted_at"]}}, "soft_delete: {column: ...}"),
        ({"columns": {"add": {"twice": "n * 2"}, "rename": {"twice": "double"}}}, "`columns.add` adds: remove"),
    ],
)
def test_what_means_no_column_of_the_source_is_refused(tmp_path: Path, rule: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Run(tmp_path, rule).take([("c", None, ROW_OF_T)])


@pytest.mark.parametrize("option", MAKERS)
def test_a_column_of_the_source_gives_way_to_an_own_one(tmp_path: Path, option: str) -> None:
    rule = MAKERS[option]
    plain = shop_config(tmp_path, [{"match": {"table": "t"}, "into": "lake.t", **rule}], {})
    own = makers(plain.target_rule(plain.tables[0]))
    row, names = {**ROW_OF_T, **dict.fromkeys(own, "of the source")}, [*own]
    options = {"bucket": "-1"} if option == "on_change: log" else {}

    run = Run(tmp_path, {**rule, "columns": {"drop": names}}, **options).take([("c", None, row)])

    (found,) = run.rows
    assert run.reasons == {} and {*found} == {*ROW_OF_T, *own} and "of the source" not in found.values()
    if option != "on_change: log":
        with pytest.raises(ValidationError, match=f"`{option}` stores its own values under this name"):
            Run(tmp_path, {**rule, "columns": {"rename": {names[0]: "renamed"}}})
        needed = {"drop": names, "add": {"longer": f"{names[0]} || '!'"}}
        with pytest.raises(ConfigError, match=f"expressions need column '{names[0]}'.*`{option}` stores its own"):
            Run(tmp_path / "needed", {**rule, "columns": needed}, **options).take([("c", None, row)])


@pytest.mark.parametrize("option", MAKERS)
def test_a_name_that_differs_from_an_own_one_in_case_gives_no_second_column(tmp_path: Path, option: str) -> None:
    rule = MAKERS[option]
    plain = shop_config(tmp_path, [{"match": {"table": "t"}, "into": "lake.t", **rule}], {})
    own = [*makers(plain.target_rule(plain.tables[0]))]
    options = {"bucket": "-1"} if option == "on_change: log" else {}
    twins = {name.title(): "of the source" for name in own}
    events = [("c", None, {**ROW_OF_T, **twins}), ("c", None, {**ROW_OF_T, "id": 2, **dict.fromkeys(twins)})]

    run = Run(tmp_path, rule, **options).take(events)

    assert [row["id"] for row in run.rows] == [2] and {*run.types} == {*ROW_OF_T, *own}
    (reason,) = run.reasons
    assert f"only in case from column {own[0]!r}, which `{option}` fills" in reason
    twin = own[0].title()
    for columns in ({"add": {twin: "id"}}, {"rename": {"n": twin}}, {"mask": {twin: "redact"}}):
        with pytest.raises(ValidationError, match=f"column {twin!r}: its name differs only in case"):
            Run(tmp_path, {**rule, "columns": columns}, **options)


@pytest.mark.parametrize("primary_key", [None, ["id"]])
def test_versions_of_a_row_stay_in_one_partition(tmp_path: Path, primary_key: list[str] | None) -> None:
    """The key of the file, or that of the messages."""
    rule = {"history": "scd2", "partition_by": ["n"], **({"primary_key": primary_key} if primary_key else {})}
    with pytest.raises((ConfigError, ValidationError), match="add n of partition_by to primary_key"):
        Run(tmp_path, rule).take([("c", None, ROW_OF_T)])
