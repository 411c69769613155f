"""Rows with fields that the embedded schema in front of them lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.plain_pipeline import PlainPipeline, plain_batch

FIELDS = [{"field": "id", "type": "int32"}, {"field": "a", "type": "int32", "optional": True}]
SOURCE = {"db": "shop", "schema": "public", "table": "orders"}


def _wrapped(form: str, row: dict[str, Any]) -> Any:
    struct = {"type": "struct", "fields": FIELDS}
    if form != "debezium-json":
        return {"schema": struct, "payload": row}
    envelope = {"type": "struct", "fields": [{**struct, "field": "after"}, {"field": "op", "type": "string"}]}
    return {"schema": envelope, "payload": {"before": None, "after": row, "source": SOURCE, "op": "c"}}


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("form", ["json", "upsert-json", "debezium-json"])
def test_a_field_that_the_schema_lacks_is_a_column_all_the_same(
    tmp_path: Path, form: str, copies: int, caplog: pytest.LogCaptureFixture
) -> None:
    rows: list[list[dict[str, Any]]] = [
        [{"id": 1, "a": 1, "x": "new"}],
        [{"id": 2, "a": 1, "y": 7}, {"id": 3, "a": None, "x": "x", "y": None}],
        [{"id": 4, "a": 2, "x": None, "y": None}],
    ]
    pipeline = PlainPipeline(tmp_path, form, {"primary_key": ["id"]})

    for number, batch in enumerate(rows):
        records = [({"id": row["id"]}, _wrapped(form, row)) for row in batch * copies]
        pipeline.run(plain_batch(records, first=100 * number))

    assert pipeline.rows("id", "a", "x", "y") == [
        (1, 1, "new", None),
        (2, 1, None, 7),
        (3, None, "x", None),
        (4, 2, None, None),
    ]
    assert (pipeline.types["x"], pipeline.types["y"], pipeline.bad) == ("STRING", "BIGINT", {})
    assert "any more" not in caplog.text
