"""A sample of dump files: records of each topic, from the begin of each file and from the end of the inspected part."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from sources.changes import RECORD_SCHEMA
from sources.dumps.dump_file import head_text
from sources.dumps.dump_lines import MALFORMED_PREFIX
from sources.dumps.dump_records import records_of_text
from sources.dumps.dump_source import dump_files
from sources.dumps.settings import DumpSettings
from sources.samples import Sample

LOOK_BYTES = 8 << 20
"""Bytes of each file's text that are inspected."""


def dump_sample(settings: DumpSettings, most: int) -> Sample:
    """At most ``most`` records of each topic, half of them the first; includes lines that are not records.

    Raises ConfigError for a path without readable dumps, OSError and CorruptFile for an unreadable file.
    """
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    found: dict[str, int] = defaultdict(int)
    is_whole = True
    for _, path in dump_files(settings.path):
        text = head_text(path, LOOK_BYTES)
        if len(text) == LOOK_BYTES:
            text, is_whole = text[: text.rfind(b"\n") + 1], False
        records = pa.Table.from_batches([records_of_text(text, path, 0)])
        for topic in records.column("topic").unique().to_pylist():
            if settings.topics.selects(topic) or topic.startswith(MALFORMED_PREFIX):
                of_topic = records.filter(pc.equal(records.column("topic"), topic))
                found[topic] += of_topic.num_rows
                parts[topic].append(_ends(of_topic, most))
    sampled = [_ends(pa.concat_tables(tables), most) for tables in parts.values()]
    records = pa.concat_tables([RECORD_SCHEMA.empty_table(), *sampled]).combine_chunks()
    batches = tuple(batch for batch in records.to_batches() if batch.num_rows)
    counts = {topic: found[topic] for topic in sorted(found) if not topic.startswith(MALFORMED_PREFIX)}
    return Sample(batches, counts, counts_all=is_whole)


def _ends(records: pa.Table, most: int) -> pa.Table:
    """The first and the last of the records."""
    if records.num_rows <= most:
        return records
    last = most // 2
    return pa.concat_tables([records.slice(0, most - last), records.slice(records.num_rows - last)])
