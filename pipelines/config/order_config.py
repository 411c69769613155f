"""The order of records: which of two records of a key is the newer one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from paimon_table.errors import ConfigError
from paimon_table.option_values import duration_ms
from paimon_table.options.names import (
    BUCKET,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    KEEP_DELETES,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SNAPSHOT_ORDERING,
)
from paimon_table.options.table_options import DELETE_TIME
from paimon_table.types import DataType, parse_type
from pipelines.config.config_values import ConfigModel, refused
from sources.position_kinds import POSITION, POSITION_TYPE

DELETE_TIME_TYPE = parse_type("TIMESTAMP_LTZ(3)")


def _check_duration(value: str) -> str:
    try:
        duration_ms("keep_deletes", value)
    except ConfigError as error:
        raise refused("expected a time such as 7 d or 12 h") from error
    return value


_Duration = Annotated[str, AfterValidator(_check_duration), WithJsonSchema({"type": "string", "examples": ["7 d"]})]


KEPT_FOR = "7 d"


class SourcePosition(ConfigModel):
    """Order by the position of the change in the log of the source."""

    keep_deletes: _Duration = Field(
        default=KEPT_FOR,
        description="How long the table keeps a delete. During this time an older record of the key has no effect; "
        "later, such a record would restore the row. Set at least the retention of the topics.",
    )


class OrderBy(ConfigModel):
    """The forms of order; one of them."""

    source_position: SourcePosition = Field(description="Order by the position of the change in the log of the source.")

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        if isinstance(value, Mapping | OrderBy):
            return value
        if value != "source_position":
            raise refused("expected source_position or {source_position: {keep_deletes: TIME}}")
        return {"source_position": {}}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"enum": ["source_position"]}, handler.resolve_ref_schema(handler(core))]}


def options_of_order(order: OrderBy | None, *, keeps_rows: bool) -> dict[str, str]:
    """The table options that follow from the order. ``keeps_rows``: the rows of deletes stay, so deletes need not."""
    if order is None:
        return {}
    kept = {} if keeps_rows else {KEEP_DELETES: order.source_position.keep_deletes}
    return {SEQUENCE_FIELD: POSITION, **kept}


def options_of_leaving(options: Mapping[str, str]) -> dict[str, str]:
    """The table options that rows which leave their keys add to these, which have a ``sequence.field``.

    A row that leaves its key becomes a delete in that order. If a compaction dropped this delete, an older row that
    arrives later would restore the key.
    """
    return {} if KEEP_DELETES in options or lacking_for_deletes(options) else {KEEP_DELETES: KEPT_FOR}


def lacking_for_deletes(options: Mapping[str, str]) -> str | None:
    """The requirement for keeping deletes in order that a table with these options does not meet."""
    if _word(options, MERGE_ENGINE, "deduplicate") != "deduplicate":
        return f"'{MERGE_ENGINE}' = deduplicate"
    if _word(options, DELETION_VECTORS, "false") == "true":
        return f"a table without '{DELETION_VECTORS}'"
    return f"another '{BUCKET}' than -2" if _word(options, BUCKET, "") == "-2" else None


def _word(options: Mapping[str, str], name: str, default: str) -> str:
    return options.get(name, default).strip().lower()


def order_problems(stated: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (option, problem) for the options that a file sets together with ``order_by``."""
    engine = stated.get(MERGE_ENGINE, "deduplicate").strip().lower()
    if engine != "deduplicate":
        yield (
            MERGE_ENGINE,
            f"it needs '{MERGE_ENGINE}' = deduplicate, which keeps the newest row of a key; not {engine}",
        )
    for name in (SEQUENCE_FIELD, SEQUENCE_SORT_ORDER, SNAPSHOT_ORDERING, KEEP_DELETES):
        if name in stated:
            yield name, f"it sets the order, and so does option '{name}': remove one of them"
    if ROWKIND_FIELD in stated:
        yield ROWKIND_FIELD, f"option '{ROWKIND_FIELD}' creates deletes without a time: remove one of them"
    if stated.get(CHANGELOG_PRODUCER, "none").strip().lower() == "input":
        yield (
            CHANGELOG_PRODUCER,
            f"'{CHANGELOG_PRODUCER}' = input repeats records as they arrive, including older ones: use lookup",
        )
    if stated.get(DELETION_VECTORS, "false").strip().lower() == "true":
        yield (
            DELETION_VECTORS,
            f"'{DELETION_VECTORS}' has no use here: readers must merge kept deletes anyway; remove one of them",
        )
    if stated.get(BUCKET, "").strip() == "-2":
        yield BUCKET, f"it needs another '{BUCKET}' than -2, whose rows wait for a compaction job"


def columns_of_order(options: Mapping[str, str]) -> tuple[tuple[str, DataType], ...]:
    """The columns that a table with these options gets for its order."""
    of_positions = ((POSITION, POSITION_TYPE),) if options.get(SEQUENCE_FIELD) == POSITION else ()
    return of_positions + (((DELETE_TIME, DELETE_TIME_TYPE),) if KEEP_DELETES in options else ())
