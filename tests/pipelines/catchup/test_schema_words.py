"""Words of `schema_changes` give the same table in the stream, after a restart and when the table catches up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.item_batches import records, typed
from tests.support.local_batches import shop_config
from tests.support.paused_pipeline import PausedPipeline

I32, I64, TEXT = "int32", "int64", "string"


def history() -> pa.RecordBatch:
    """A source table whose columns are renamed, added, widened, retyped and dropped; two rows of each form."""
    forms: list[dict[str, str]] = [
        {"id": I32, "a": I32, "b": TEXT, "w": I32},
        {"id": I32, "a": I32, "c": TEXT, "w": I32},
        {"id": I32, "a": I32, "c": TEXT, "w": I64, "d": I32},
        {"id": I32, "a": TEXT, "c": TEXT, "w": I64, "d": I32},
        {"id": I32, "a": TEXT, "c": TEXT, "w": I64},
    ]
    events, n = [], 0
    for form in forms:
        for _ in range(2):
            row: dict[str, Any] = {name: n if kind in (I32, I64) else str(n) for name, kind in form.items()} | {
                "id": n % 7
            }
            key, value = typed(row["id"], row, form)
            for column in value["schema"]["fields"][0]["fields"]:
                column |= {"doc": f"the {column['field']}"}
            events.append((key, value))
            n += 1
    return records(*events)


ALL: dict[str, Any] = {"drop": "drop", "rename": "apply", "retype": "new_column"}
WORDS: dict[str, tuple[Any, list[str]]] = {
    "evolve": ("evolve", ["id", "a", "b", "w", "c", "d"]),
    "lenient": ("lenient", ["id", "a", "b", "w", "c", "d"]),
    "all that is not the default": (ALL, ["id", "a", "c", "w", "a_v2"]),
    "as it was": ({"add": "ignore", "widen": "cast", "comment": "ignore"}, ["id", "a", "b", "w"]),
}
APPEND: dict[str, Any] = {
    "mode": "append", "on_change": "log", "options": {"bucket": "-1", "changelog-producer": None},
}  # fmt: skip


def seen(pipeline: PausedPipeline) -> tuple[Any, ...]:
    table = pipeline.table("lake.items")
    fields = [(f.name, str(f.type), f.description) for f in table.schema.fields]
    rows = sorted(map(str, table.to_arrow().to_pylist()))
    return fields, rows, len(table.context.schemas)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [{}, APPEND], ids=["upsert", "log"])
@pytest.mark.parametrize("words", WORDS)
def test_a_table_that_catches_up_is_the_table_of_the_stream(tmp_path: Path, words: str, mode: dict[str, Any]) -> None:
    stated, columns = WORDS[words]
    rules = [{"match": {"table": "items"}, "into": "lake.items", "schema_changes": stated, **mode}]

    def pipeline(name: str) -> PausedPipeline:
        decoder = shop_config(tmp_path, rules, {}).decoder
        of_two: dict[str, Any] = {"batch_size": 2, "slice_size": 2}
        return PausedPipeline(tmp_path / name, history(), rules, decoder=decoder, has_quarantine=True, **of_two)

    pipeline("stream").run()
    for _ in range(5):
        pipeline("restarts").run(1)
    behind = pipeline("catch-up")
    behind.run(1)
    behind.pause("lake.items")
    behind.run()
    pipeline("catch-up").caught_up()

    streamed = seen(pipeline("stream"))
    assert [name for name, _, _ in streamed[0] if not name.startswith("event_")] == columns
    assert seen(pipeline("restarts")) == streamed
    assert seen(pipeline("catch-up")) == streamed
