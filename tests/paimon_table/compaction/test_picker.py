"""The compaction strategies against their golden file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from paimon_table.compaction.picker import CompactUnit, force_up_level0, pick, pick_full
from paimon_table.mergetree.levels import SortedRun
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats
from paimon_table.options.table_options import TableOptions

_GOLDEN = Path(__file__).with_name("picks.txt")
_Strategy = Callable[[Sequence[SortedRun], TableOptions, int], CompactUnit | None]
_STRATEGIES: dict[str, _Strategy] = {
    "pick": pick,
    "force": lambda runs, options, top: force_up_level0(runs, options, top, patience=1),
    "patient": lambda runs, options, top: force_up_level0(runs, options, top, patience=3),
    "full": lambda runs, _, top: pick_full(runs, top, lambda file: False),
}


def _cases() -> Iterator[str]:
    for line in _GOLDEN.read_text().splitlines():
        case = line.split("#")[0].strip()
        if case:
            yield case


def _run(text: str, number: int) -> SortedRun:
    level, size_bytes = map(int, text.split(":"))
    file = DataFileMeta(
        file_name=f"data-{number}",
        file_size_bytes=size_bytes,
        row_count=1,
        min_key=b"",
        max_key=b"",
        key_stats=SimpleStats(),
        value_stats=SimpleStats(),
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=level,
    )
    return SortedRun(level, (file,))


@pytest.mark.parametrize("case", list(_cases()))
def test_strategy_chooses_as_in_the_golden_file(case: str) -> None:
    given, runs_text, expectation = (part.strip() for part in case.split("|"))
    numbers = dict(pair.split("=") for pair in given.split())
    options = TableOptions(
        compaction_trigger=int(numbers["trigger"]),
        max_size_amplification_percent=int(numbers["amp"]),
        size_ratio=int(numbers["ratio"]),
    )
    runs = [_run(text, number) for number, text in enumerate(runs_text.split())]
    strategy, _, expected = expectation.partition(" -> ")

    unit = _STRATEGIES[strategy](runs, options, int(numbers["max"]))

    assert _text(unit) == expected
    assert unit is None or unit.runs == tuple(runs[: len(unit.runs)])


def test_full_compaction_rewrites_files_with_deletion_vectors_on_the_highest_level() -> None:
    top = SortedRun(5, tuple(file for number in range(3) for file in _run("5:1", number).files))
    unit = pick_full([top], 5, lambda file: file.file_name == "data-1")
    assert unit == CompactUnit(5, (SortedRun(5, (top.files[1],)),), rewrites_each=True)
    all_runs = pick_full([_run("0:1", 9), top], 5, lambda file: True)
    assert all_runs is not None
    assert (len(all_runs.runs), all_runs.rewrites_each) == (2, False)


def _text(unit: CompactUnit | None) -> str:
    return "none" if unit is None else f"L{unit.output_level} x{len(unit.runs)}"
