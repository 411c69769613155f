"""Dump files with offsets that were read before: counted as they are, and told once for each partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.tables.tables import PipelineTables
from tests.support.clicks import inserts, records, rule
from tests.support.local_batches import pipeline_tables, run_batches
from tests.support.placed_changes import RULE, Change, batch, postgresql

OF_APPEND = {"bucket": "-1"}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "is applied twice" in r.getMessage()]


@pytest.mark.slow
def test_offsets_that_rise_are_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [rule()], **OF_APPEND)
    parts = [records(*inserts(3)), records(*inserts(3), first_offset=3), records(*inserts(2), partition=1)]
    run_batches(tables, [*parts, records(*inserts(9), first_offset=900)], tmp_path)
    again = pipeline_tables(tmp_path, [rule()], **OF_APPEND)  # the last batch runs again, and the next one comes
    more = [records(*inserts(9), first_offset=900), records(*inserts(1), first_offset=909)]
    run_batches(again, more, tmp_path, first_batch_id=3)
    assert warnings(caplog) == []


@pytest.mark.slow
def test_late_offsets_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_batches(pipeline_tables(tmp_path, [rule()], **OF_APPEND), [records(*inserts(5), first_offset=10)], tmp_path)
    tables = pipeline_tables(tmp_path, [rule()], **OF_APPEND)
    late = [records(*inserts(5), first_offset=n) for n in (12, 2)]
    run_batches(tables, late, tmp_path, first_batch_id=1)
    (text,) = warnings(caplog)
    assert text.startswith("shop.public.clicks partition 0: batch 1: offsets from 12 on come after 14 was read,")
    assert "for table lake.clicks. A record that two files hold" in text
    assert tables.sinks["lake.clicks"].table.to_arrow().num_rows == 15


def test_one_offset_twice_in_a_batch_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [rule()], **OF_APPEND)
    rows = records(*inserts(4)).to_pylist()
    run_batches(tables, [type(records()).from_pylist(rows + rows[1:3], schema=records().schema)], tmp_path)
    (text,) = warnings(caplog)
    assert "batch 0: 6 records have 4 offsets from 0 on, for table lake.clicks" in text


def test_a_new_checkpoint_leaves_out_what_the_tables_have(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = pipeline_tables(tmp_path, [rule()], **OF_APPEND)
    run_batches(tables, [records(*inserts(5))], tmp_path)
    other = PipelineTables(tables.config, "another-checkpoint")
    run_batches(other, [records(*inserts(3)), records(*inserts(4), first_offset=3)], tmp_path)
    assert warnings(caplog) == []
    assert other.sinks["lake.clicks"].table.to_arrow().num_rows == 7


def test_where_positions_order_the_rows_late_offsets_are_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newer, older = Change("c", 1, 7, postgresql(2)), Change("c", 1, 6, postgresql(1))
    run_batches(
        pipeline_tables(tmp_path, [RULE]), [batch([newer], first_offset=10), batch([older], first_offset=3)], tmp_path
    )
    assert warnings(caplog) == []
