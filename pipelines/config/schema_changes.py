"""What a table does when the schema of its source changes: one word for each kind of change, and presets of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pipelines.config.config_values import ConfigModel, refused

Preset = Literal["evolve", "lenient", "freeze"]

PRESETS: Mapping[str, Mapping[str, str]] = {
    "evolve": {"add": "apply", "drop": "keep_null", "widen": "apply", "retype": "cast", "truncate": "pause"},
    "lenient": {"add": "apply", "drop": "keep_null", "widen": "apply", "retype": "to_string", "truncate": "skip"},
    "freeze": {"add": "pause", "drop": "pause", "widen": "pause", "retype": "pause", "truncate": "pause"},
}
"""What each preset says of every kind."""

_REFUSED_WORDS = {
    ("drop", "drop"): "Tidemark cannot tell a dropped column from one that a partition has not got yet, and its values"
    " would be lost; say keep_null, and drop it with Paimon's ALTER TABLE when nobody reads it any more",
    (
        "retype",
        "new_column",
    ): "values of one column would go into two; say to_string, cast or pause, or write into a new"
    " table (another `into`)",
}
"""Words that one may expect, and why this version does not have them."""


class SchemaChanges(ConfigModel):
    """One word for each kind of change; a kind without a word has that of the preset."""

    NOT_YET: ClassVar[Mapping[str, str]] = {
        "rename": "a renamed column is a new one, and the old one keeps its values and gets NULL: events do not tell a"
        " rename from a dropped and an added column. Remove the word",
        "nullability": "columns take NULL, except those of the key, so NOT NULL in the source changes nothing",
        "defaults": "readers of Paimon give rows from before a new column NULL, and not the default of the source;"
        " `backfill` or `tidemark replay` reads rows again that have it",
        "comments": "events do not bring the comments of the source; set them with Paimon's ALTER TABLE",
        "primary_key": "another primary key always pauses the table, because its rows have the old one; write into a"
        " new table (another `into`, with `backfill: true`)",
    }

    preset: Preset | None = Field(
        default=None,
        description="Where the kinds begin that have no word here: `evolve` follows the source and keeps all values, "
        "`lenient` goes on whatever comes, `freeze` pauses the table at any change.",
        json_schema_extra={"default": "evolve"},
    )
    add: Literal["apply", "ignore", "quarantine", "pause"] | None = Field(
        default=None,
        description="A column that the table lacks and no rule declares: add it, leave its values out, put records "
        "with a value in it into the quarantine, or pause the table.",
    )
    drop: Literal["keep_null", "pause"] | None = Field(
        default=None,
        description="A column of the table that the newest rows of its source lack: new rows have NULL there, or the "
        "table is paused.",
    )
    widen: Literal["apply", "cast", "pause"] | None = Field(
        default=None,
        description="A type that needs a wider column: widen it without loss; keep it, and put records whose values do "
        "not fit into the quarantine; or pause the table.",
    )
    retype: Literal["cast", "to_string", "pause"] | None = Field(
        default=None,
        description="A type of which no wider column holds both old and new values: keep the column, and put records "
        "whose values do not fit into the quarantine; make it STRING where its values can become texts, else as "
        "`cast`; or pause the table.",
    )
    truncate: Literal["apply", "skip", "pause"] | None = Field(
        default=None,
        description="A TRUNCATE of the source table: delete all rows of the table, keep them and count the event, or "
        "pause the table.",
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
        """With a word for every kind: its own, else that of its preset, else that of ``defaults``."""
        base = PRESETS["evolve"] if defaults is None else defaults.over().words
        if self.preset is not None:
            base = PRESETS[self.preset]
        return SchemaChanges.model_validate({**base, **self.words})

    @property
    def words(self) -> dict[str, str]:
        """The words that are stated, by kind."""
        return {kind: word for kind in PRESETS["evolve"] if (word := getattr(self, kind)) is not None}


EVOLVE = SchemaChanges().over()
"""What holds where the file says nothing."""
