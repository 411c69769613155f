"""How much of changed and deleted rows a table keeps."""

from __future__ import annotations

from typing import Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pipelines.config.config_values import ConfigModel, Text, refused
from sinks.exchange.version_columns import VersionColumns

_WORDS = ("soft_delete", "scd2")


class SoftDelete(ConfigModel):
    """The table keeps deleted rows, with the time of the delete."""

    column: Text = Field(
        default="deleted_at",
        description="The column that Tidemark adds, TIMESTAMP_LTZ(3): the time of the delete in the source, or else "
        "of the record. It is NULL in rows that are not deleted.",
    )


class Scd2(ConfigModel):
    """The table keeps every version of a row, with the times from and to which it was valid."""

    valid_from: Text = Field(
        default="valid_from",
        description="The column with the time of the change that created the version, TIMESTAMP_LTZ(3), in the "
        "source, or else of the record. A second column, with `_offset` appended to the name, has the offset of the "
        "record. Both are the last columns of the primary key.",
    )
    valid_to: Text = Field(
        default="valid_to",
        description="The column with the time of the change that ended the version, NULL in current versions. A "
        "second column, with `_offset` appended to the name, has the offset of the record.",
    )
    is_current: Text = Field(default="is_current", description="The column that is true in current versions.")

    @model_validator(mode="after")
    def _distinct(self) -> Scd2:
        names = self.columns.names
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise refused(f"two columns would have the name {repeated}; choose other names")
        return self

    @property
    def columns(self) -> VersionColumns:
        return VersionColumns(self.valid_from, self.valid_to, self.is_current)


class History(ConfigModel):
    """The forms of history; one of them."""

    soft_delete: SoftDelete | None = Field(
        default=None, description="The table keeps deleted rows, with the time of the delete."
    )
    scd2: Scd2 | None = Field(
        default=None,
        description="The table keeps every version of a row, with the times from and to which it was valid.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in _WORDS:
                raise refused(
                    "expected soft_delete, scd2, {soft_delete: {column: NAME}} or {scd2: {valid_from: NAME, valid_to:"
                    " NAME, is_current: NAME}}"
                )
            return {value: {}}
        return value

    @model_validator(mode="after")
    def _one(self) -> History:
        if (self.soft_delete is None) == (self.scd2 is None):
            raise refused("expected one of soft_delete and scd2")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"enum": list(_WORDS)}, {**schema, "minProperties": 1, "maxProperties": 1}]}
