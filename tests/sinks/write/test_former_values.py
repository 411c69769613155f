"""Values that a changed key takes along from a row whose delete came in an earlier batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from paimon_table import lane_split, open_assigner
from paimon_table.write.bucket_writer import WriterEnvironment
from sinks.exchange.blob import Blob, encode_rows
from sinks.exchange.target import OTHER_KEY, UNAVAILABLE, Target
from sinks.write.arrived_rows import ArrivedRows
from sinks.write.gap_filling import Filled
from sinks.write.unsent import null_count
from tests.support.table_driver import TableDriver, new_table

KINDS = {"fixed": ("2", ()), "dynamic": ("-1", ()), "cross-partition": ("-1", ("region",))}


def filled(driver: TableDriver, lookup: Path) -> Filled:
    """The row of key 2, which was key 1 and whose body the source left out."""
    live, ctx = driver.state().live_files(), driver.table.context
    rows = driver.arrow([["+I", 2, "us", None]])
    rows = rows.append_column(UNAVAILABLE, pa.array([[2]], pa.list_(pa.int16())))
    rows = rows.append_column(OTHER_KEY, pa.array(["[1]"]))
    ((lane, _),) = lane_split(ctx.schema, ctx.options, live).split(rows)
    environment = WriterEnvironment(str(lookup))
    blobs = {lane: [Blob(0, 0, lane, "t", 0, 0, 1, encode_rows(rows))]}
    return ArrivedRows(Target("t", ctx, live), blobs, open_assigner(ctx, live, environment), environment).filled(lane)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_kept", [True, False], ids=["the same process", "after a restart"])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_a_value_is_found_in_former_snapshots(tmp_path: Path, kind: str, is_kept: bool, producer: str) -> None:
    bucket, partition = KINDS[kind]
    columns = [("id", "BIGINT NOT NULL"), ("region", "STRING"), ("body", "STRING")]
    options = {"bucket": bucket, "changelog-producer": producer, "dynamic-bucket.initial-buckets": "1"}
    driver = TableDriver(new_table(tmp_path / "t", columns, ["id"], partition, options), tmp_path / "lookup")
    driver.commit([["+I", 1, "africa", "older"]])
    driver.commit([["+U", 1, "eu", "old"], ["+I", 2000, "eu", ""]])
    driver.commit([["+U", 1, "asia", "BODY"], ["-D", 2000, "eu", ""]], full_compact=True)
    driver.commit([["+U", 1, "africa", "BODY"], ["-D", 1, None, None]], full_compact=True)
    driver.commit([["+I", 5, "us", "x"], ["+I", 0, "us", "x"]])

    found = filled(driver, tmp_path / ("lookup" if is_kept else "another"))

    assert (found.rows.column("body").to_pylist(), null_count(found.unsent)) == (["BODY"], 0)


def test_a_value_of_a_partition_that_was_dropped_is_found(tmp_path: Path) -> None:
    columns = [("id", "BIGINT NOT NULL"), ("region", "STRING"), ("body", "STRING")]
    driver = TableDriver(new_table(tmp_path / "t", columns, ["id"], ["region"], {"bucket": "-1"}), tmp_path / "lookup")
    driver.commit([["+I", 1, "eu", "BODY"]])
    driver.commit([["+U", 1, "us", "BODY"]])
    driver.overwrite([], {"region": "us"})

    assert filled(driver, tmp_path / "lookup").rows.column("body").to_pylist() == ["BODY"]

    driver.table.io.delete(driver.table.paths.snapshot_file(1))
    driver.table.io.delete(driver.table.paths.snapshot_file(2))
    assert null_count(filled(driver, tmp_path / "lookup").unsent) == 1
