"""What a soak makes of its samples and of the log of the service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.line_charts import Panel
from benchmarks.soaking import curves as drawing
from benchmarks.soaking.curves import batches_in, curves, judged
from benchmarks.soaking.samples import Sample

TABLES = ("orders", "clicks")
FLAT = {"driver.own_mb": 200.0, "jvm.threads": 90.0, "orders.files": 80.0, "checkpoint.files": 220.0}


def _samples(leak: str = "", per_sample: float = 0.0) -> list[Sample]:
    """Two lives; the second one is long. The table of clicks grows, its bytes follow its rows."""
    found = []
    for at in range(200):
        life, rows = (1 if at < 20 else 2), 1_000 + 100 * at
        numbers = {**FLAT, "clicks.rows": rows, "clicks.mb": rows * 50 / 1e6, "processor_s": 0.4 * at}
        if leak:
            numbers[leak] += per_sample * at
        found.append(Sample(at * 3.0, 2 * at, life, numbers))
    return found


def _rising(samples: Sequence[Sample]) -> list[str]:
    return [verdict.series for verdict in judged(samples, TABLES) if verdict.is_flat is False]


@pytest.mark.parametrize(
    ("leak", "per_sample"),
    [("driver.own_mb", 1), ("jvm.threads", 0.5), ("orders.files", 2), ("checkpoint.files", 1)],
)
def test_what_grows_is_found(leak: str, per_sample: float) -> None:
    assert _rising(_samples()) == []
    assert _rising(_samples(leak, per_sample)) == [leak]


def test_a_start_that_lasts_is_no_rise_and_one_behind_it_is_found() -> None:
    """A life that needs as long for its first batches as for all others: nothing of the start is held against it."""

    def life(rise: float) -> list[Sample]:
        slow = [Sample(at * 3.0, at // 8, 1, {"jvm.threads": 10.0}) for at in range(160)]
        steady = [Sample(480 + at * 3.0, 20 + at, 1, {"jvm.threads": 90 + rise * at}) for at in range(160)]
        return slow + steady

    assert _rising(life(0)) == []
    assert _rising(life(0.5)) == ["jvm.threads"]


def test_batches_that_take_more_and_more_of_the_processors_are_found() -> None:
    rising = [
        Sample(s.at_s, s.batch, s.life, {**s.numbers, "processor_s": 0.002 * number**2})
        for number, s in enumerate(_samples())
    ]

    assert _rising(rising) == ["processor seconds of a batch"]


def test_the_first_batch_of_a_life_is_left_out_and_half_a_line_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    events = [("00", 9.0), ("01", 0.5), ("10", 8.0), ("11", 0.6)]
    lines = [
        json.dumps({"event": "batch", "time": f"1970-01-01T00:00:{second}.000Z", "seconds": took})
        for second, took in events
    ]
    log.write_text("\n".join([lines[0], lines[1], lines[1][:20], "Killed", *lines[2:]]))

    assert batches_in(log, 0.0, [0.0, 9.5]) == [(1.0, 1, 0.5), (11.0, 2, 0.6)]


def test_lines_of_batches_begin_anew_with_a_life_and_where_a_process_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Panel] = []
    monkeypatch.setattr(drawing, "draw", lambda _path, _heading, panels, _marks, _end: drawn.extend(panels))
    samples = [
        Sample(at * 3.0, 2 * at, 1 if at < 20 else 2, {"processor_s": 0.4 * at - (6 if at >= 60 else 0)})
        for at in range(100)
    ]
    batches = [(float(at), 1 if at < 15 else 2, 0.5 if at < 15 else 0.9) for at in range(40)]

    curves(Path("unused"), "heading", samples, batches, TABLES, [])

    (lines,) = (panel.lines for panel in drawn if panel.title == "seconds of a batch")
    assert [value for _, value in lines["it took"]] == [0.5, 0.5, None, 0.9, 0.9, 0.9]
    used = [value for _, value in lines["of processors"]]
    assert used.count(None) == 1
    assert {round(value, 3) for value in used if value is not None} == {0.2}


@pytest.mark.slow
def test_they_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    file = tmp_path / "soak.png"

    curves(file, "heading", _samples(), [(1.0, 1, 0.5), (11.0, 2, 0.6)], TABLES, [])

    assert file.read_bytes().startswith(b"\x89PNG") and file.stat().st_size < 200_000
