"""How much of dump files is still to be read, as their sizes tell."""

from __future__ import annotations

import gzip
from pathlib import Path

from sources.dumps.dump_source import DumpPlanner
from sources.dumps.settings import DumpSettings
from sources.topics import TopicSelection

LINE = b'{"topic":"t","partition":0,"offset":1,"payload":"{}"}\n'


def test_what_no_finished_batch_has_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE * 10)
    packed = gzip.compress(LINE.replace(b"0", b"1") * 10)
    (tmp_path / "b.jsonl.gz").write_bytes(packed)
    planner = DumpPlanner(DumpSettings(str(tmp_path), TopicSelection(), 6))
    assert planner.unread_bytes is None

    left, at = list[int | None](), planner.initial_offset()
    for _ in range(5):
        end = planner.latest_offset(at)  # asked for once the batch before is done
        left.append(planner.unread_bytes)
        at = end
    planner.stop()

    lines = len(LINE)
    assert left == [10 * lines + len(packed), 4 * lines + len(packed), len(packed), len(packed), 0]
