"""A dump file that was cut short: a run that reads what is there says so and ends with 1, until the file is whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.pipeline_run import run_once, write_pipeline

pytestmark = pytest.mark.slow


def record(number: int) -> str:
    source = {"db": "shop", "schema": "public", "table": "orders"}
    event = {"op": "c", "before": None, "after": {"id": number, "note": f"{number * 7919:x}"}, "source": source}
    key, payload = json.dumps({"id": number}), json.dumps(event)
    return json.dumps({"topic": "shop.orders", "partition": 0, "offset": number, "key": key, "payload": payload})


def test_a_cut_dump_ends_the_run_with_1_until_the_file_is_whole(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{record(number)}\n" for number in range(20_000)).encode())
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    file = write_pipeline(tmp_path, dumps, max_records=50_000)
    (dumps / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])

    cut, again = run_once(file), run_once(file)
    (dumps / "a.jsonl.gz").write_bytes(whole)
    mended = run_once(file)

    assert (cut.returncode, again.returncode, mended.returncode) == (1, 1, 0), cut.stderr + again.stderr + mended.stderr
    for done in (cut, again):
        assert f"pipeline shop: {dumps}/a.jsonl.gz: its compressed stream is incomplete" in done.stderr
        assert f"not all was read: {dumps}/a.jsonl.gz" in done.stdout
    assert "shop: nothing new" in again.stdout and "20,000" in mended.stdout and "not all" not in mended.stdout
