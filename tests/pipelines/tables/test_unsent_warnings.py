"""Values that the source does not send: told at once, then with what has come since, every ten minutes."""

from __future__ import annotations

import pytest

from pipelines.tables.unsent_warnings import EVERY_MS, UnsentWarnings
from sinks.write.unsent import Became


def test_a_flood_is_told_now_and_then_and_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnsentWarnings()
    for batch, now_ms in enumerate([0, 1, EVERY_MS - 1, EVERY_MS, EVERY_MS + 1]):
        warnings.note(batch, "lake.orders", {("body", Became.NULL): 2}, now_ms)
    warnings.note(4, "lake.items", {("body", Became.OLDER): 1}, EVERY_MS + 1)
    told = [r.getMessage().partition(" value(s)")[0] for r in caplog.records]
    assert told == [
        "batch 0: table lake.orders: NULL was written for 2",
        "batch 3: table lake.orders: NULL was written for 6",
        "batch 4: table lake.items: what may be an older value was written for 1",
    ]


def test_batches_without_such_values_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnsentWarnings()
    for batch in range(3):
        warnings.note(batch, "lake.orders", {}, batch * EVERY_MS)
    assert not caplog.records
