"""How a table follows schema changes of its source: one word for each kind of change, and presets of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pipelines.config.config_values import ConfigModel, refused

Preset = Literal["evolve", "lenient", "freeze"]

PRESETS: Mapping[str, Mapping[str, str]] = {
    "evolve": {
        "add": "apply", "drop": "keep_null", "rename": "add_and_keep", "widen": "apply", "retype": "cast",
        "nullability": "apply", "comment": "apply", "default": "ignore", "primary_key": "pause", "truncate": "pause",
    },
    "lenient": {
        "add": "apply", "drop": "keep_null", "rename": "add_and_keep", "widen": "apply", "retype": "to_string",
        "nullability": "apply", "comment": "apply", "default": "ignore", "primary_key": "pause", "truncate": "skip",
    },
    "freeze": {
        "add": "pause", "drop": "pause", "rename": "pause", "widen": "pause", "retype": "pause",
        "nullability": "pause", "comment": "ignore", "default": "pause", "primary_key": "pause", "truncate": "pause",
    },
}  # fmt: skip
"""The word of each preset for every kind."""

_REFUSED_WORDS = {
    (
        "default",
        "apply",
    ): "no Paimon reader fills older rows with the default of a new column. Set ignore to leave them NULL. To fill "
    "them, set pause and rebuild the table (`tidemark replay --rebuild`)",
}
"""Words that one may expect, and why this version does not have them."""


BY_SCHEMA = (
    ("rename", "apply"),
    ("rename", "pause"),
    ("nullability", "apply"),
    ("nullability", "pause"),
    ("comment", "apply"),
    ("default", "pause"),
)
"""Kinds and words that need records with a schema."""


class SchemaChanges(ConfigModel):
    """One word for each kind of change. A kind without a word has that of the preset
    ([words and presets](SCHEMA_CHANGES.md#words-and-presets)).
    """

    NOT_YET: ClassVar[Mapping[str, str]] = {
        "defaults": "use `default`",
        "comments": "use `comment`",
        "recreated": "records do not show whether a table was recreated or got other columns. Events of the schema "
        "change topic have no order relative to records. Write the new table into another `into`",
    }

    preset: Preset | None = Field(
        default=None,
        description="The preset for all kinds without a word. `evolve` follows the source and keeps all values. "
        "`lenient` continues if rows stay correct. `freeze` pauses the table at every change.",
        json_schema_extra={"default": "evolve"},
    )
    add: Literal["apply", "ignore", "quarantine", "pause"] | None = Field(
        default=None,
        description="If the source has a column that the table lacks and no rule declares, `apply` adds it. "
        "`ignore` drops its values. `quarantine` stores records with a value in it in the quarantine. "
        "`pause` pauses the table.",
    )
    drop: Literal["keep_null", "drop", "pause"] | None = Field(
        default=None,
        description="If the newest rows of the source lack a column of the table, `keep_null` gives new rows NULL "
        "there. `drop` drops the column once the newest rows of all partitions lack it. `pause` pauses the table.",
    )
    rename: Literal["add_and_keep", "apply", "pause"] | None = Field(
        default=None,
        description="If a new column takes the place of one of the same type in an embedded schema, `add_and_keep` "
        "adds it and keeps the old one. `apply` renames the column with all its values. `pause` pauses the table.",
    )
    widen: Literal["apply", "cast", "pause"] | None = Field(
        default=None,
        description="If a type needs a wider column, `apply` widens the column without loss. `cast` keeps its "
        "type; records whose values do not fit go to quarantine. `pause` pauses the table.",
    )
    retype: Literal["cast", "to_string", "new_column", "pause"] | None = Field(
        default=None,
        description="If no wider type holds both old and new values of a column, `cast` keeps its type. Records "
        "whose values do not fit go to quarantine. `to_string` makes it STRING if its values can become texts, "
        "else it is `cast`. `new_column` stores new values in another column of the new type, such as `price_v2`. "
        "`pause` pauses the table.",
    )
    nullability: Literal["apply", "ignore", "pause"] | None = Field(
        default=None,
        description="If an embedded schema allows NULL in a column that is NOT NULL in the table, `apply` makes the "
        "column nullable. `ignore` keeps NOT NULL; records with NULL there go to quarantine. `pause` pauses the "
        "table. Only tables that other programs created have such columns outside the key.",
    )
    comment: Literal["apply", "ignore"] | None = Field(
        default=None,
        description="If an embedded schema documents a column, `apply` makes the text the comment of the column. "
        "`ignore` leaves comments as they are.",
    )
    default: Literal["ignore", "pause"] | None = Field(
        default=None,
        description="If an embedded schema states a default for an added column, `ignore` leaves older rows NULL. "
        "`pause` pauses the table, so that a rebuild can fill them.",
    )
    primary_key: Literal["new_table", "pause"] | None = Field(
        default=None,
        description="If the fields of the message key differ from the primary key, `pause` pauses the table before "
        "that record. `new_table` continues in a new table with the new key, such as `orders_v2`; the old table stays "
        "as it is.",
    )
    truncate: Literal["apply", "skip", "pause"] | None = Field(
        default=None,
        description="If the source table was truncated, `apply` deletes all rows of the table. `skip` keeps them "
        "and counts the event. `pause` pauses the table.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in PRESETS:
                raise refused(f"expected {', '.join(PRESETS)}, or a mapping with a word for each kind of change")
            return {"preset": value}
        if isinstance(value, Mapping):
            for (kind, word), why in _REFUSED_WORDS.items():
                if value.get(kind) == word:
                    raise refused(f"'{word}' is not supported: {why}", kind)
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"enum": [*PRESETS]}, handler.resolve_ref_schema(handler(core))]}

    def over(self, defaults: Self | None = None) -> SchemaChanges:
        """The same with a word for every kind: its own word, else the word of its preset, else of ``defaults``."""
        base = PRESETS["evolve"] if defaults is None else defaults.over().words
        if self.preset is not None:
            base = PRESETS[self.preset]
        return SchemaChanges.model_validate({**base, **self.words})

    @property
    def words(self) -> dict[str, str]:
        """The words that are stated, by kind."""
        return {kind: word for kind in PRESETS["evolve"] if (word := getattr(self, kind)) is not None}

    @property
    def follows_renames(self) -> bool:
        """Whether to compare schemas for renamed columns."""
        return self.rename in ("apply", "pause")

    @property
    def follows_order(self) -> bool:
        """Whether it matters which of several schemas is the newest."""
        return self.follows_renames or self.retype == "new_column"


EVOLVE = SchemaChanges().over()
"""The words that apply if the file sets none."""
