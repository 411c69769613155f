"""What a table keeps of rows that the source has deleted."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pipelines.config.config_values import ConfigModel, Text, refused

_SCD2 = (
    "a log of events has every version of a row: `mode: append` with `on_change: log`; compute the intervals where you"
    " read it"
)


class SoftDelete(ConfigModel):
    """Deleted rows stay, with the time of their delete."""

    column: Text = Field(
        default="deleted_at",
        description="The column that Tidemark adds, TIMESTAMP_LTZ(3): the time of the delete in the source, else that "
        "of the record; NULL in rows that are there.",
    )


class History(ConfigModel):
    """The forms of history; one of them."""

    NOT_YET: ClassVar = {"scd2": _SCD2}

    soft_delete: SoftDelete = Field(description="Deleted rows stay, with the time of their delete.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if value == "scd2":
            raise refused(f"scd2 is not supported yet; {_SCD2}")
        if isinstance(value, str):
            if value != "soft_delete":
                raise refused("expected soft_delete or {soft_delete: {column: NAME}}")
            return {"soft_delete": {}}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"enum": ["soft_delete"]}, handler.resolve_ref_schema(handler(core))]}
