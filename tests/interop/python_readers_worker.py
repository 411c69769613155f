"""Process that runs pypaimon and pypaimon-rust in their own environment: JSON lines in, Arrow files out.

Started by ``python_readers.PythonReaders`` with the interpreter of that environment, so it imports nothing of the
project. The Rust reader is driven directly, not through pypaimon, whose fallback would read with Python in silence.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def _with_snapshot(options: dict[str, str], snapshot_id: int | None) -> dict[str, str]:
    return {**options, "scan.snapshot-id": str(snapshot_id)} if snapshot_id is not None else options


def _pypaimon_table(path: str) -> Any:
    """``path`` may be the options of a REST catalog as JSON, with the name of the table as ``table``."""
    from pypaimon import CatalogFactory
    from pypaimon.table.file_store_table import FileStoreTable

    if not path.startswith("{"):
        return FileStoreTable.from_path(path)
    told = json.loads(path)
    name = told.pop("table")
    return CatalogFactory.create(told).get_table(name)


def read_pypaimon(path: str, snapshot_id: int | None, columns: list[str] | None) -> pa.Table:
    table = _pypaimon_table(path)
    dynamic = _with_snapshot({"read.native.enabled": "false", "scan.native-plan.enabled": "false"}, snapshot_id)
    builder = table.copy(dynamic).new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def _rust_table(path: str, options: dict[str, str]) -> Any:
    from pypaimon_rust.datafusion import Table

    schema_dir = os.path.join(path, "schema")
    newest = max(int(name.removeprefix("schema-")) for name in os.listdir(schema_dir) if name.startswith("schema-"))
    with open(os.path.join(schema_dir, f"schema-{newest}"), encoding="utf-8") as file:
        schema = json.load(file)
    schema["options"] = {**schema["options"], **options}
    return Table.from_resolved_schema("file://" + path, json.dumps(schema))


def read_rust(path: str, snapshot_id: int | None, columns: list[str] | None) -> pa.Table | None:
    builder = _rust_table(path, _with_snapshot({}, snapshot_id)).new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns)
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return pa.Table.from_batches(batches) if batches else None


def changes_rust(path: str, after: int, upto: int) -> pa.Table | None:
    """Changes of the snapshots in (after, upto], with the row kind in the leading column ``rowkind``."""
    builder = _rust_table(path, {}).new_read_builder().with_include_row_kind(True)
    batches = builder.new_read().read(builder.new_incremental_scan(after, upto, "auto").plan().splits())
    return pa.Table.from_batches(batches) if batches else None


COMMANDS: dict[str, Callable[..., pa.Table | None]] = {
    "pypaimon": read_pypaimon,
    "rust": read_rust,
    "rust_changes": changes_rust,
}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    table = COMMANDS[request["command"]](**request["arguments"])
    if table is None:
        return {"ok": None}
    with pa.OSFile(request["out"], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return {"ok": request["out"]}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep the answer channel apart from what the libraries print
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line))
        except BaseException as error:  # a panic of the Rust reader is a BaseException; the caller gets it as an answer
            answer = {"error": repr(error), "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
