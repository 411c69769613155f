"""Another format of records, from the pipeline file to the table: nothing but its entry in the registry is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import create_model

from pipelines.config.config import PipelineConfig
from pipelines.config.format_config import format_model
from pipelines.config.source_config import Source
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Decoder
from sources.formats import FORMATS
from sources.values.value_forms import ValueForms
from tests.support.local_batches import reported_batches
from tests.support.plain_json import PLAIN_JSON, PlainJsonDecoder, PlainPolicies

CONFIG: Any = create_model(
    "PipelineConfig",
    __base__=PipelineConfig,
    source=(
        create_model(
            "Source", __base__=Source, format=(format_model({**FORMATS, "plain-json": PLAIN_JSON}), ...)
        ),
        ...,
    ),
)  # fmt: skip
"""Pipeline files where the format is registered."""


SUPPORTED = ", ".join([*FORMATS, "plain-json"])


def config(directory: Path, form: object = "plain-json", **rule: object) -> PipelineConfig:
    loaded: PipelineConfig = CONFIG.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": str(directory)}, "format": form},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": str(directory / "warehouse")},
            "defaults": {"options": {"bucket": "2"}},
            "tables": [{"match": {"topic": "orders"}, "into": "lake.orders", **rule}],
        }
    )
    return loaded


def batch(first_offset: int, *records: tuple[int, dict[str, object] | bytes | None]) -> pa.RecordBatch:
    """Records of topic orders: the id in the key, and the value."""
    rows = [
        {
            "topic": "orders", "partition": 0, "offset": offset, "key": json.dumps({"id": key}).encode(),
            "value": json.dumps(value).encode() if isinstance(value, dict) else value,
        }
        for offset, (key, value) in enumerate(records, first_offset)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def test_plain_rows_come_into_a_table_that_follows_their_columns(tmp_path: Path) -> None:
    of_file = config(tmp_path)
    tables = PipelineTables(of_file, "tidemark-shop-test")
    first = batch(0, (1, {"id": 1, "v": "a"}), (2, {"id": 2, "v": "b"}), (3, b"no JSON"))
    second = batch(3, (2, None), (1, {"id": 1, "v": "c", "paid": True}))

    decoder = of_file.source.format.decoder
    _, reports = reported_batches(tables, [first, second], tmp_path, decoder=decoder)

    table = tables.sinks["lake.orders"].table
    assert table.schema.primary_keys == ("id",)
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [{"id": 1, "v": "c", "paid": True}]
    assert [report.counts.quarantined for report in reports] == [1, 0]


def test_a_pipeline_file_gives_each_format_its_own_options(tmp_path: Path) -> None:
    def decoder(form: object) -> Decoder:
        return config(tmp_path, form).source.format.decoder

    options = {"on_tombstone": "ignore", "infinity": "null"}
    assert decoder({"plain-json": options}) == PlainJsonDecoder(PlainPolicies("ignore"), ValueForms(infinity="null"))
    assert isinstance(decoder("debezium-json"), DebeziumJsonDecoder)
    assert decoder({"canal-json": {"time_zone": "+08:00"}}) != decoder("canal-json")


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("nonsense", f"unknown format; supported: {SUPPORTED}"),
        ("plain_json", "unknown format; did you mean 'plain-json'?"),
        ("debezium-protobuf", f"format debezium-protobuf is not supported yet; use {SUPPORTED.replace(', ', ' or ')}"),
        ({}, f"give exactly one format: {SUPPORTED}"),
        ({"canal-json": {"time_zone": "Shanghai"}}, "'Shanghai' is not a time zone; give a name such as Asia/Shanghai"),
        ({"dms-json": {"before_image": "data"}}, "'data' is not a field of its own"),
        ({"dms-json": {"before_prefix": " "}}, "expected a text, found an empty one"),
        ({"canal-json": {"zero_dates": "keep"}}, "Input should be 'null' or 'quarantine'"),
        ({"plain-json": {}, "debezium-json": {}}, "give exactly one format"),
        ({"plain-json": {"on_message": "skip"}}, "Extra inputs are not permitted"),
        ({"plain-json": {"on_tombstone": "keep"}}, "Input should be 'delete' or 'ignore'"),
    ],
)
def test_a_format_that_is_not_one_of_those_is_refused(tmp_path: Path, form: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        config(tmp_path, form)
