"""Reads a Paimon table some times, and times it: ``table_reader.py READER TASK.json``, with Tidemark or pypaimon.

The rows of the last turn go into a Parquet file, with the kind of each change in front. The seconds and processor
seconds of each turn go into a JSON file. A reader that is as users call it may use all its threads.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KINDS = pa.array(["+I", "-U", "+U", "-D"])
ROW_KIND = "row_kind"


def tidemark_rows(path: str, key: str, keys: Sequence[int] | None) -> pa.Table:
    import pyarrow.compute as pc

    from paimon_table import Table

    chosen = None if keys is None else (pc.field(key) >= keys[0]) & (pc.field(key) < keys[1])
    return Table.open_for_reading(path).to_arrow(predicate=chosen)


def tidemark_changes(path: str) -> pa.Table:
    from paimon_table import Table

    return pa.concat_tables([rows for _, rows in Table.open_for_reading(path).changes()])


def tidemark_kinds(changes: pa.Table) -> pa.Table:
    kinds = KINDS.take(changes["_VALUE_KIND"].combine_chunks())
    return changes.drop_columns(["_VALUE_KIND"]).add_column(0, ROW_KIND, kinds)


def pypaimon_rows(path: str, key: str, keys: Sequence[int] | None) -> pa.Table:
    from pypaimon.table.file_store_table import FileStoreTable

    builder = FileStoreTable.from_path(path).new_read_builder()
    if keys is not None:
        predicates = builder.new_predicate_builder()
        at_least, below = predicates.greater_or_equal(key, keys[0]), predicates.less_than(key, keys[1])
        builder = builder.with_filter(predicates.and_predicates([at_least, below]))
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def pypaimon_changes(path: str) -> pa.Table:
    from pypaimon.table.file_store_table import FileStoreTable

    table = FileStoreTable.from_path(path)
    snapshots = table.snapshot_manager()
    last = snapshots.get_latest_snapshot().id
    while snapshots.get_snapshot_by_id(last).changelog_manifest_list is None:
        last -= 1  # the stream would wait for the next one
    builder = table.new_stream_read_builder().with_include_row_kind()
    scan, read = builder.new_streaming_scan(), builder.new_read()
    scan.next_snapshot_id = 1
    scan._diff_threshold = last + 1  # it gives the difference of two snapshots instead of the changelog otherwise
    parts = []
    for plan in scan.stream_sync():
        parts.append(read.to_arrow(plan.splits()))
        if scan.next_snapshot_id > last:
            break
    return pa.concat_tables(parts)


def pypaimon_kinds(changes: pa.Table) -> pa.Table:
    return changes.rename_columns([ROW_KIND if name == "_row_kind" else name for name in changes.column_names])


READERS: dict[tuple[str, str], tuple[Callable[..., pa.Table], Callable[[pa.Table], pa.Table]]] = {
    ("tidemark", "rows"): (tidemark_rows, lambda rows: rows),
    ("tidemark", "changes"): (tidemark_changes, tidemark_kinds),
    ("pypaimon", "rows"): (pypaimon_rows, lambda rows: rows),
    ("pypaimon", "changes"): (pypaimon_changes, pypaimon_kinds),
}


def main() -> None:
    task: dict[str, Any] = json.loads(Path(sys.argv[2]).read_text())
    read, finish = READERS[sys.argv[1], task["what"]]
    arguments = (task["path"],) if task["what"] == "changes" else (task["path"], task["key"], task["keys"])
    turns = []
    for _ in range(task["turns"]):
        found = None  # the rows of the turn before need their memory no longer
        started, cpu_started = time.perf_counter(), time.process_time()
        found = read(*arguments)
        turns.append([time.perf_counter() - started, time.process_time() - cpu_started])
    Path(task["times"]).write_text(json.dumps(turns))
    pq.write_table(finish(found), task["output"])


if __name__ == "__main__":
    main()
