"""Power cuts around every file of a pipeline's own: marks in tables, requests, and what the checkpoint has of tables.

A process dies just before or just after one of these files is written or removed; the next one goes on from what a disk
keeps. The tables lie on the same disk, so that what the files say and what the tables hold is compared at every cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.storage.memory_io import MemoryDisk, MemoryFileIO, SimulatedCrash
from pipelines import storage
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import Cause
from pipelines.control.request_desk import RequestDesk
from pipelines.control.requests import KEPT_MS, Answer, Requests, State
from pipelines.storage import catalog_of
from pipelines.tables.written_tables import search_tables, written_tables
from sources.changes import RECORD_SCHEMA
from tests.support.item_batches import event, records
from tests.support.paused_pipeline import PausedPipeline

PER_TABLE = 16
TABLES = ("sums", "other")
SUMS = {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"}
"""Rows that are applied twice, or never, show in these."""
RULES = [{"match": {"table": "sums"}, "into": "lake.sums", "merge_sources": "same_rows"}]
KEYS: Mapping[str, Any] = {
    "defaults": {"options": {"bucket": "2", "changelog-producer": "lookup", **SUMS}},
    "otherwise": {"create": {"into": "lake.{table}"}},
}
"""The other table is made by a pattern."""


class CutIO(MemoryFileIO):
    """Storage of a process that dies at the ``cut``-th step of files of its own: before or after one is changed."""

    cut = 0
    steps = 0
    known = 0
    """Changes of the disk before the last step: where there is none between two, both leave the same."""

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        self._step(path)
        super().write(path, data, durable)
        self._step(path)

    def delete(self, path: str) -> None:
        self._step(path)
        super().delete(path)
        self._step(path)

    def _step(self, path: str) -> None:
        if "/tidemark" in path and (not self.steps or len(self.changes) > self.known):
            self.steps, self.known = self.steps + 1, len(self.changes)
            if self.steps == self.cut:
                self.crash_after = self.operations
                raise SimulatedCrash(f"power cut at {path}")


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryDisk, int], CutIO]:
    """Lets everything that a pipeline stores lie on one disk, by a process that dies at a step."""

    def mounted(disk: MemoryDisk, cut: int) -> CutIO:
        io = CutIO(disk)
        io.cut = cut
        monkeypatch.setattr(storage, "file_io_for", lambda uri, _options=None: (io, uri))
        return io

    return mounted


def _source() -> pa.RecordBatch:
    """Records of both tables by turns; those of the sums come by two topics."""
    rows: list[dict[str, Any]] = []
    for n in range(PER_TABLE):
        for table in TABLES:
            (row,) = records(event("c", n % 3, {"id": n % 3, "amount": 1}, table=table), first_offset=n).to_pylist()
            suffix = ".later" if table == "sums" and n % 2 else ""
            rows.append({**row, "topic": f"shop.public.{table}{suffix}"})
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def _story(root: Path, source: pa.RecordBatch, now_ms: int) -> PausedPipeline:
    """One life: batches, requests to pause and resume both tables, catching up; may begin anywhere."""
    pipeline = PausedPipeline(root, source, RULES, batch_size=6, slice_size=9, **KEYS)
    requests = Requests(pipeline.checkpoint.io, pipeline.checkpoint.path, lambda: now_ms)
    handlers = {
        "pause": lambda request, _: _paused(pipeline, request.text("table")),
        "resume": lambda request, _: _resumed(pipeline, request.text("table")),
    }
    desk = RequestDesk(requests, handlers)
    while pipeline.run_batch():
        if pipeline.stream.next_batch in (1, 3):
            for table in TABLES:
                requests.leave("pause" if pipeline.stream.next_batch == 1 else "resume", {"table": f"lake.{table}"})
        desk.take()
    for table in TABLES:
        requests.leave("resume", {"table": f"lake.{table}"})
    while desk.take():
        pass
    assert requests.waiting() == []
    return pipeline


def _paused(pipeline: PausedPipeline, table: str) -> Answer:
    if pipeline.paused.pauses.get(table) is None:
        pipeline.pause(table)
    return Answer(State.DONE, "paused")


def _resumed(pipeline: PausedPipeline, table: str) -> Answer:
    if table in pipeline.paused.pauses:
        mark = pipeline.paused.pauses[table]
        pipeline.paused.pause(table, Cause.FAILED, "it was resumed", mark.batch, mark.topics)
        catch_up = pipeline.catch_up(table)
        while catch_up.step() is not Step.DONE:
            pass
    return Answer(State.DONE, "in the stream")


def _check(pipeline: PausedPipeline, at: str) -> None:
    assert pipeline.behind == {}, at
    for table in TABLES:
        found = {key: row["amount"] for key, row in pipeline.rows(f"lake.{table}").items()}
        assert found == {key: len(range(key, PER_TABLE, 3)) for key in range(3)}, f"{table}, {at}"
    assert set(pipeline.book.topic_ids) == {"shop.public.sums", "shop.public.sums.later", "shop.public.other"}, at
    noted = {name: entry.commits for name, entry in pipeline.book.tables.items()}
    names = [*catalog_of(pipeline.config).names()]
    positions = {str(t.name): t.position for t in written_tables(catalog_of(pipeline.config), "shop", names)}
    assert noted.keys() == positions.keys(), at
    assert all(noted[name] <= position.commit_count for name, position in positions.items()), at


def _check_marks(pipeline: PausedPipeline, at: str) -> None:
    """A checkpoint that is lost now finds every table that has rows."""
    catalog = catalog_of(pipeline.config)
    written = {table.name for table in written_tables(catalog, "shop", catalog.names())}
    assert written <= set(search_tables(catalog, "shop")), at


@pytest.mark.crash
def test_a_power_cut_at_any_file_of_the_pipeline_loses_and_doubles_nothing(
    tmp_path: Path, mount: Callable[[MemoryDisk, int], CutIO]
) -> None:
    source, steps = _source(), 0
    for cut in count(1):
        root = tmp_path / str(cut)
        root.mkdir()
        first = mount(MemoryDisk(), cut)
        try:
            _story(root, source, 0)
        except SimulatedCrash as crash:
            at = f"cut {cut}: {str(crash).replace(str(root), '')}"
        else:
            break
        steps += 1
        mount(first.disk.after_power_cut(), 0)
        _check_marks(PausedPipeline(root, source, RULES, **KEYS), at)
        _check(_story(root, source, KEPT_MS * 2), at)
    assert steps > 50
