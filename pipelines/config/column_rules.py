"""The `columns` block of a table rule: what is known of columns beforehand, by their names or by patterns of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from paimon_table.types import DataType
from pipelines.config.config_values import ColumnType, ConfigModel, Text, check_pattern, meant_by_glob, refused
from sources.column_paths import ColumnPath, path_of

_T = TypeVar("_T")


def pattern_of(key: str) -> str | None:
    """The regular expression of a key between slashes; None for the name of a column."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == "/" else None


def _check_key(key: str) -> str:
    pattern = pattern_of(key)
    if pattern is not None:
        check_pattern(pattern)
    elif "*" in key and (_HALF_PATTERN.fullmatch(key) or meant_by_glob(key)):
        meant = meant_by_glob(key) or key.strip("/")
        raise refused(f"this would be the name of one column; a regular expression stands between slashes: '/{meant}/'")
    return key


_HALF_PATTERN = re.compile(r"/.*[^/]|[^/].*/")
"""A key with a slash on one side; names of columns may have one too, but no ``*``."""


def first_match(rules: Mapping[str, _T], column: str) -> _T | None:
    """What is said of a column: under its name, else under the first pattern that matches all of it."""
    if column in rules:
        return rules[column]
    patterns = ((pattern_of(key), value) for key, value in rules.items())
    return next((value for p, value in patterns if p is not None and re.fullmatch(p, column)), None)


ColumnKey = Annotated[Text, AfterValidator(_check_key)]
"""The name of a column, or a regular expression between slashes."""

DecimalFormat = Literal["auto", "base64", "text"]


def _check_path(text: str) -> str:
    try:
        path_of(text)
    except ValueError as error:
        raise refused(str(error)) from None
    return text


ColumnPathText = Annotated[Text, AfterValidator(_check_path)]
"""The names of nested fields with dots between them."""


class ColumnRules(ConfigModel):
    """What is known of the columns beforehand."""

    NOT_YET: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("add", "computed", "compute"), "compute the column where the table is read"),
        **dict.fromkeys(
            ("drop", "exclude", "include", "only"),
            "leave the column out in the connector (`column.exclude.list`, `column.include.list`)",
        ),
        **dict.fromkeys(("rename", "mask", "hash"), "change the column in the connector, or in a view"),
    }

    @field_validator("types", mode="before")
    @classmethod
    def _without_halves(cls, value: Any) -> Any:
        """The rest of a type that a comma has cut is no column of its own."""
        if not isinstance(value, dict):
            return value
        cut = any(isinstance(text, str) and text.count("(") > text.count(")") for text in value.values())
        return {name: text for name, text in value.items() if not (cut and text is None and str(name).endswith(")"))}

    types: Mapping[ColumnKey, ColumnType] = Field(
        default_factory=dict,
        description="Column name to Paimon type, such as `DECIMAL(10, 2)`, `VARCHAR(40)` or `TIMESTAMP_LTZ(6)`. "
        "Declares the type where the records carry no schema, and decoding follows it. A key between slashes is a "
        "regular expression for whole names: `/.*_at/` declares the type of every column that it matches and that has "
        "no key of its own; the first that matches wins.",
    )
    decimal_format: DecimalFormat | None = Field(
        default=None,
        description="How the source writes decimals of these tables where the records carry no schema; it wins over "
        "the option of the format.",
    )
    decimal_formats: Mapping[ColumnKey, DecimalFormat] = Field(
        default_factory=dict,
        description="The same for single columns: column name, or a regular expression between slashes, to `auto`, "
        "`base64` or `text`. It wins over `decimal_format`.",
    )

    paths: Mapping[Text, ColumnPathText] = Field(
        default_factory=dict,
        description="Column name to the place of its value inside of nested fields, such as "
        "`city: customer.address.city`, for documents of MongoDB. The column needs its type under `types`, and wins"
        " over a field of its name.",
    )

    @model_validator(mode="after")
    def _paths_have_types(self) -> Self:
        for name in self.paths:
            if name not in self.types:
                raise refused(f"declare the type of column {name!r} under `types`", "paths", name)
        return self

    @property
    def column_paths(self) -> dict[str, ColumnPath]:
        """The places of the columns under ``paths``."""
        return {name: path_of(text) for name, text in self.paths.items()}

    @property
    def named_types(self) -> dict[str, DataType]:
        """The types of columns that the file names one by one."""
        return {name: t for name, t in self.types.items() if pattern_of(name) is None}
