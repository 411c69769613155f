"""The `columns` block of a table rule: what is known about columns in advance, by their names or by patterns of
names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, field_validator, model_validator

from paimon_table.types import CHARACTERS, DataType, Root
from pipelines.config.config_values import REFUSED, ColumnType, ConfigModel, Text, check_pattern, meant_by_glob, refused
from sources.column_paths import ColumnPath, path_of
from sources.expressions.rule_words import REDACTED

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
        raise refused(f"this is the name of a single column; write a regular expression between slashes: '/{meant}/'")
    return key


_HALF_PATTERN = re.compile(r"/.*[^/]|[^/].*/")
"""A key with a slash on one side; names of columns may have one too, but no ``*``."""


def first_match(rules: Mapping[str, _T], column: str) -> _T | None:
    """The statement about a column: under its name, else under the first pattern that matches the whole name."""
    if column in rules:
        return rules[column]
    patterns = ((pattern_of(key), value) for key, value in rules.items())
    return next((value for p, value in patterns if p is not None and re.fullmatch(p, column)), None)


ColumnKey = Annotated[Text, AfterValidator(_check_key)]
"""The name of a column, or a regular expression between slashes."""


def first_of(keys: Iterable[str], column: str) -> bool:
    """Whether one of the names or patterns means a column."""
    return first_match(dict.fromkeys(keys, True), column) is not None


def _check_name(key: str) -> str:
    if pattern_of(key) is not None or meant_by_glob(key) is not None:
        raise refused("expected the name of a single column, not a pattern: write an entry for each column")
    return key


ColumnName = Annotated[Text, AfterValidator(_check_name)]
"""The name of a column; a pattern would mean none, and its mask would hide nothing."""

Expression = Annotated[
    Text, WithJsonSchema({"type": "string", "examples": ["date_trunc('day', created_at)", "lower(email)", "$op"]})
]
"""SQL over the columns of one row; ``config_checks`` looks at what it says."""


class KeyedHash(ConfigModel):
    """A mask that gives equal values equal hashes."""

    hash: Literal["sha256"] = Field(description="HMAC-SHA256, as 64 hexadecimal digits.")
    key: Text = Field(repr=False, description="The secret key, as a reference: `${env:NAME}`.")


class LastCharacters(ConfigModel):
    """A mask that shows the end of a text, and a star for each character before."""

    show_last: Annotated[int, Field(ge=1, le=32)] = Field(description="How many characters stay visible.")


def _kind_of_mask(value: Any) -> str | None:
    """In angle brackets, which no place in a file has."""
    kinds = {"hash": KeyedHash, "show_last": LastCharacters}
    if value == "redact":
        return "<redact>"
    return next(
        (f"<{k}>" for k, t in kinds.items() if isinstance(value, t) or (isinstance(value, dict) and k in value)), None
    )


ColumnMask = Annotated[
    Annotated[Literal["redact"], Tag("<redact>")]
    | Annotated[KeyedHash, Tag("<hash>")]
    | Annotated[LastCharacters, Tag("<show_last>")],
    Discriminator(
        _kind_of_mask,
        custom_error_type=REFUSED,
        custom_error_message="expected redact, {show_last: 4} or {hash: sha256, key: '${env:NAME}'}",
    ),
]
"""How the values of a column are hidden."""

_HASH_DIGITS = 64


def _misfit_of_mask(mask: ColumnMask, declared: DataType) -> str | None:
    """Why the mask of a column rules out its declared type, if it does."""
    if declared.root is Root.CHAR:
        return "the mask of the column produces texts of any length: declare STRING or VARCHAR, or remove the type"
    if declared.root not in CHARACTERS:
        stores_null = mask == "redact"
        return None if stores_null else "the mask of the column produces a text: declare STRING, or remove the type"
    least = len(REDACTED) if mask == "redact" else _HASH_DIGITS if isinstance(mask, KeyedHash) else 1
    if declared.length is not None and declared.length < least:
        return f"the mask of the column produces {least} characters: declare STRING, or remove the type"
    return None


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
    """Which columns the table has, and their types."""

    NOT_YET: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("computed", "compute"), "use `add` for a new column, `replace` for one of the source"),
        "exclude": "use `drop`",
        **dict.fromkeys(("include", "only"), "use `keep`"),
        "hash": "use `mask`",
    }

    @field_validator("types", mode="before")
    @classmethod
    def _without_halves(cls, value: Any) -> Any:
        """The rest of a type that a comma has cut is not a column."""
        if not isinstance(value, dict):
            return value
        cut = any(isinstance(text, str) and text.count("(") > text.count(")") for text in value.values())
        return {name: text for name, text in value.items() if not (cut and text is None and str(name).endswith(")"))}

    types: Mapping[ColumnKey, ColumnType] = Field(
        default_factory=dict,
        description="Column name to Paimon type, such as `DECIMAL(10, 2)`, `VARCHAR(40)` or `TIMESTAMP_LTZ(6)`. "
        "Declares the type if the records carry no schema, and decoding follows it. A key between slashes is a "
        "regular expression for whole names. `/.*_at/` declares the type of every column that it matches, unless "
        "another key names the column. The first pattern that matches applies.",
    )
    decimal_format: DecimalFormat | None = Field(
        default=None,
        description="How the source writes decimals of these tables in records without a schema; it overrides the "
        "option of the format.",
    )
    decimal_formats: Mapping[ColumnKey, DecimalFormat] = Field(
        default_factory=dict,
        description="The same for single columns: column name, or a regular expression between slashes, to `auto`, "
        "`base64` or `text`. It overrides `decimal_format`.",
    )

    rename: Mapping[ColumnName, Text] = Field(
        default_factory=dict,
        description="Column of the source to its name in the table. `keep`, `drop`, `replace` and `mask` use the name "
        "in the source; all other keys of the rule use the new one.",
    )
    keep: tuple[ColumnKey, ...] = Field(
        default=(),
        description="The columns of the source that the table has, by name or as a regular expression between slashes;"
        " by default all. The table also has the columns that expressions compute.",
    )
    drop: tuple[ColumnKey, ...] = Field(
        default=(),
        description="Columns of the source that the table lacks, by name or as a regular expression between slashes."
        " Expressions may still use them.",
    )
    add: Mapping[ColumnName, Expression] = Field(
        default_factory=dict,
        description="New columns, each an SQL expression over the columns of the source. It can also use `$op`,"
        " `$source_time`, `$topic`, `$partition`, `$offset`, `$timestamp`, `$key`, `$headers`, `$database`, `$schema`,"
        " `$table`, `$ingested_at`, `$position`, `$transaction`, `$total_order` and `$data_collection_order`.",
    )
    replace: Mapping[ColumnName, Expression] = Field(
        default_factory=dict, description="Column of the source to the SQL expression that replaces it."
    )
    mask: Mapping[ColumnName, ColumnMask] = Field(
        default_factory=dict,
        description="Column of the source to the mask of its values. `redact` hides them whole, `{show_last: 4}` "
        "shows the last 4 characters, and `{hash: sha256, key: ${env:NAME}}` gives a keyed hash. The table, its "
        "changelog and statistics never hold the value itself.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for block, names in self._named.items():
            for name in names:
                if first_of(self.drop, name):
                    raise refused(f"column {name!r} is dropped too; remove one of the two", *self._place(block, name))
        for name, target in self.rename.items():
            if name == target:
                raise refused(f"column {name!r} has this name already; remove it here", "rename", name)
            if name not in self.computed.values() and self.leaves_out(name):
                text = f"column {name!r} is not in `keep`, which takes names of the source: add it, or remove it here"
                raise refused(text, "rename", name)
        for name in self.mask:
            if name in self.replace:
                text = f"column {name!r} is replaced too; mask it, or write the mask as the expression"
                raise refused(text, "mask", name)
        self._check_names()
        for name, mask in self.mask.items():
            stored = self.rename.get(name, name)
            problem = None if stored not in self.types else _misfit_of_mask(mask, self.types[stored])
            if problem is not None:
                raise refused(problem, "types", stored)
        for name in self.types:
            if name in self.rename and (why := self.lacks(name)) is not None:
                raise refused(why, "types", name)
        return self

    @property
    def _named(self) -> Mapping[str, Collection[str]]:
        """The columns of the source that the table has for certain, by the key that names them."""
        kept = [name for name in self.keep if pattern_of(name) is None]
        return {"rename": self.rename, "replace": self.replace, "mask": self.mask, "keep": kept}

    def _check_names(self) -> None:
        """Refuse two columns with one name. Their names may differ in case alone if both have a declared type."""
        found: dict[str, tuple[str, str | None]] = {}
        columns = [(block, name, self.rename.get(name, name)) for block, names in self._named.items() for name in names]
        for block, source, stored in (*columns, *(("add", None, name) for name in self.add)):
            other, of_other = found.setdefault(stored.casefold(), (stored, source))
            is_same = other == stored and of_other == source
            if is_same or (other != stored and {other, stored} <= self.types.keys()):
                continue
            if source is None and of_other == stored:
                text = f"column {stored!r} is both added and a column of the source: use `replace`, or rename one"
                raise refused(text, "add", stored)
            pair = ((other, of_other), (stored, source))
            who = " and ".join(f"the added {name!r}" if one is None else repr(one) for name, one in pair)
            text = f"several columns would have the name {stored!r} ({who}): rename or drop one of them"
            if other != stored:
                text += "; case alone distinguishes names only if both have a type in `types`"
            elif block in ("replace", "mask", "keep"):
                text += f"; `{block}` takes names of the source"
            raise refused(text, *self._place(block, source or stored))

    def _place(self, block: str, name: str) -> tuple[str | int, ...]:
        return (block, self.keep.index(name) if block == "keep" else name)

    @property
    def changes_rows(self) -> bool:
        """Whether the table has other columns than the source."""
        return any((self.rename, self.keep, self.drop, self.add, self.replace, self.mask))

    @property
    def hides(self) -> bool:
        """Whether the table must not have the values of some columns of the source."""
        return bool(self.mask or self.drop)

    @property
    def computed(self) -> dict[str, str | None]:
        """Computed columns by their names in the table, each with the column of the source that it replaces, if any."""
        of_source = {self.rename.get(name, name): name for name in (*self.replace, *self.mask)}
        return {**of_source, **dict.fromkeys(self.add)}

    @property
    def expressions(self) -> dict[str, str]:
        """The SQL of computed columns, by their names in the table; masks are none."""
        return {**{self.rename.get(name, name): text for name, text in self.replace.items()}, **self.add}

    @property
    def masked_as_text(self) -> frozenset[str]:
        """The columns of the table that are text whatever their values were: a pattern does not declare these."""
        return frozenset(name for name, (_, mask) in self.masks.items() if mask != "redact")

    @property
    def masks(self) -> dict[str, tuple[str, ColumnMask]]:
        """The masked columns, by their names in the table: the column of the source, and how."""
        return {self.rename.get(name, name): (name, mask) for name, mask in self.mask.items()}

    def stored_as(self, column: str) -> str | None:
        """The name that a column of the source has in the table; None if the table does not have it unchanged."""
        if column in self.replace or column in self.mask or self.leaves_out(column) or self.clash(column):
            return None
        return self.rename.get(column, column)

    def source_of(self, column: str) -> str | None:
        """The column of the source that a column of the table holds unchanged.

        None for a computed column, and for one whose source is stored under another name.
        """
        if column in self.computed:
            return None
        own = None if column in self.rename else column
        return next((name for name, stored in self.rename.items() if stored == column), own)

    def leaves_out(self, column: str) -> bool:
        """Whether the file says that the table lacks a column of the source."""
        if column in self.replace or column in self.mask:
            return False
        if first_of(self.drop, column):
            return True
        return bool(self.keep) and not first_of(self.keep, column)

    def lacks(self, column: str) -> str | None:
        """Why the table has no column of this name, as far as the file shows; None if it may have one."""
        if column in self.computed or column in self.rename.values():
            return None
        if column in self.rename:
            return f"column {column!r} is called {self.rename[column]!r} in the table: write that name"
        return (
            f"column {column!r} is excluded from the table by `columns`: keep it" if self.leaves_out(column) else None
        )

    def clash(self, column: str) -> str | None:
        """Why a column of the source cannot keep its name."""
        if column in self.rename or self.leaves_out(column):
            return None
        if column in self.add:
            return "`columns.add` makes a column of this name: use `replace` for it, rename it, or drop it"
        other = next((name for name, stored in self.rename.items() if stored == column), None)
        return None if other is None else f"{other!r} is renamed to this name: rename this column too, or drop it"

    @property
    def clashes(self) -> dict[str, str]:
        """The columns of the source that would have the name of another column of the table, and why."""
        names = (*self.add, *self.rename.values())
        return {name: why for name in names if (why := self.clash(name)) is not None}

    paths: Mapping[ColumnName, ColumnPathText] = Field(
        default_factory=dict,
        description="Column name to the path of its value inside nested fields, such as `city: "
        "customer.address.city`. For documents of MongoDB and the formats `json`, `avro` and `protobuf`. "
        "The column needs a type under `types`, and replaces a field of the same name. It can be part of the "
        "primary key; records without the field then go to quarantine.",
    )

    @model_validator(mode="after")
    def _paths_have_types(self) -> Self:
        for name in self.paths:
            if name not in self.types:
                raise refused(f"declare the type of column {name!r} under `types`", "paths", name)
            if name in self.replace:
                text = f"`paths` fills column {name!r}: compute another column under `add`, and drop this one"
                raise refused(text, "replace", name)
        return self

    @property
    def column_paths(self) -> dict[str, ColumnPath]:
        """The places of the columns under ``paths``."""
        return {name: path_of(text) for name, text in self.paths.items()}

    @property
    def named_types(self) -> dict[str, DataType]:
        """The types of columns that the file names one by one."""
        return {name: t for name, t in self.types.items() if pattern_of(name) is None}
