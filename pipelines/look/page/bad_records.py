"""The newest records in quarantine for the page: a bounded part of them, grouped by table and kind of reason."""

from __future__ import annotations

from typing import Any

from pipelines.bad_records.bad_lines import BadLine, BadLines
from pipelines.config.config import PipelineConfig
from pipelines.look.page.details import cut
from pipelines.prepared import own_tables
from pipelines.quarantine.selection import grouped
from pipelines.tables.target_names import TargetNames

FILES_READ = 100


def bad_records(config: PipelineConfig) -> dict[str, Any]:
    """Groups with a few records each, from the newest files."""
    if config.source.on_bad_record == "fail":
        return {"files": 0, "read": 0, "groups": []}
    bad = BadLines(config)
    files = bad.files()
    newest = files[-FILES_READ:]
    names = TargetNames(config, lambda: own_tables(config).positions().known.items())
    lines = (line for line in bad.lines(newest, lambda: None) if isinstance(line, BadLine))
    groups = [
        {
            "table": group.table,
            "reason": group.reason,
            "count": group.count,
            "examples": [
                {
                    "place": f"{line.topic} {line.partition}:{line.offset}",
                    "reason": cut(line.reason),
                    "record": cut(line.text.decode(errors="replace")),
                }
                for line in group.examples
            ],
        }
        for group in grouped(lines, names.of)
    ]
    return {"files": len(files), "read": len(newest), "groups": groups}
