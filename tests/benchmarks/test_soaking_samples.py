"""What a soak sees on disk."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.soaking.samples import Samples


def test_a_table_that_comes_later_has_no_curve_before(tmp_path: Path) -> None:
    """Its first files would be a rise from nothing."""
    service: Any = SimpleNamespace(processes=dict, life=1)
    samples = Samples(service, tmp_path, 9, ["orders", "returns"], time.monotonic())
    (tmp_path / "warehouse" / "lake.db" / "orders").mkdir(parents=True)

    samples.poll(0)

    assert samples.taken[0].numbers["orders.files"] == 0
    assert "returns.files" not in samples.taken[0].numbers
    assert "local.files" in samples.taken[0].numbers
