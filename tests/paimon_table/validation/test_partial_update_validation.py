"""Options of partial-update tables that are refused when the table is created or changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type
from paimon_table.validation.table_validation import validate_table

_COLUMNS = [("k", "INT"), ("a", "INT"), ("b", "STRING"), ("g", "INT"), ("h", "INT"), ("n", "ARRAY<INT>")]
_GROUP = {"fields.g.sequence-group": "a,b"}
_IGNORE = "ignore-delete"
_REMOVE = "partial-update.remove-record-on-delete"
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"


def validate(options: Mapping[str, str], engine: str = "partial-update") -> None:
    columns = [(name, parse_type(text)) for name, text in _COLUMNS]
    validate_table(create_schema(columns, ["k"], options={"bucket": "1", "merge-engine": engine, **options}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fields.g.sequence-group": "a, b"}, ["field  b can not be found", "fields.g.sequence-group"]),
        ({"fields.z.sequence-group": "a"}, ["z can not be found", "fields.z.sequence-group"]),
        ({"fields.k.sequence-group": "a"}, ["sequence-group", "primary key field 'k'"]),
        ({"fields.g.sequence-group": "a,k"}, ["fields.g.sequence-group", "primary key field 'k'"]),
        ({**_GROUP, "fields.h.sequence-group": "a"}, ["Field a", "repeatedly", "fields.h.sequence-group"]),
        ({"fields.g.sequence-group": "a,a"}, ["Field a", "repeatedly", "fields.g.sequence-group"]),
        ({_IGNORE: "true", _REMOVE: "true"}, [_IGNORE, _REMOVE, "conflict"]),
        ({"partial-update.ignore-delete": "true", _REMOVE: "true"}, [_IGNORE, _REMOVE, "conflict"]),
        ({**_GROUP, _REMOVE: "true"}, ["sequence-group", _REMOVE, "conflict"]),
        ({**_GROUP, _IGNORE: "true", _REMOVE_ON_GROUP: "g"}, [_IGNORE, _REMOVE_ON_GROUP, "conflict"]),
        ({**_GROUP, _REMOVE_ON_GROUP: "a"}, ["'a'", _REMOVE_ON_GROUP, "sequence groups"]),
        ({**_GROUP, "fields.h.sequence-group": "n", _REMOVE_ON_GROUP: "g, h"}, ["' h'", _REMOVE_ON_GROUP]),
        ({"fields.a.aggregate-function": "max"}, ["fields.a.aggregate-function", "sequence group", "field a"]),
        (
            {**_GROUP, "fields.default-aggregate-function": "last_value"},
            ["fields.default-aggregate-function", "sequence group", "field h"],
        ),
        ({**_GROUP, "fields.a.aggregate-function": "total"}, ["'total'"]),
        ({**_GROUP, "fields.b.aggregate-function": "sum"}, ["sum", "numeric", "'b'"]),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(options)
    assert not isinstance(caught.value, UnsupportedFeature)
    assert [word for word in words if word.lower() not in str(caught.value).lower()] == []


@pytest.mark.parametrize(
    "options",
    [
        {"fields.g.sequence-group": "a", "fields.g,h.sequence-group": "b"},
        {"fields.g.sequence-group": "a", "fields.h.sequence-group": "g"},
        {"fields.n.sequence-group": "a"},
    ],
)
def test_groups_without_a_defined_order_are_not_supported(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeature, match=r"fields\.\S+\.sequence-group"):
        validate(options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {**_GROUP, _IGNORE: "true"},
        {**_GROUP, _REMOVE_ON_GROUP: "g"},
        {"fields.g,h.sequence-group": "a,b", _REMOVE_ON_GROUP: "h"},
        {"fields.g.sequence-group": "g,a"},
        {"fields.default-aggregate-function": "last_non_null_value"},
        {"fields.g.sequence-group": "a", "fields.a.aggregate-function": "sum"},
        {"fields.g.sequence-group": "a,b,h,n", "fields.default-aggregate-function": "last_value"},
    ],
)
def test_options_that_fit_are_accepted(options: dict[str, str]) -> None:
    validate(options)


def test_other_engines_may_keep_options_of_partial_update() -> None:
    validate({"fields.g.sequence-group": "a", _REMOVE: "true"}, engine="deduplicate")
