"""Interval partition and the choice between upgrade and rewrite."""

from __future__ import annotations

import pytest

from paimon_table.mergetree.sections import Rewrite, Section, Step, Target, Upgrade, partition, plan_steps
from paimon_table.metadata.data_file import DataFileMeta, SimpleStats


def _file(text: str) -> DataFileMeta:
    """``name:first-last@level*size`` with ``!`` for a file with deletes and ``?`` for an unknown number of them."""
    name, _, rest = text.partition(":")
    keys, _, rest = rest.partition("@")
    deletes = 1 if rest.endswith("!") else None if rest.endswith("?") else 0
    level, _, size = rest.rstrip("!?").partition("*")
    first, _, last = keys.partition("-")
    return DataFileMeta(
        file_name=name,
        file_size_bytes=int(size or 10),
        row_count=1,
        min_key=first.encode(),
        max_key=(last or first).encode(),
        key_stats=SimpleStats(),
        value_stats=SimpleStats(),
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
        level=int(level or 0),
        delete_row_count=deletes,
    )


def _key(serialized: bytes) -> int:
    return int(serialized)


def _text(sections: tuple[Section, ...]) -> str:
    return " | ".join(" / ".join(",".join(f.file_name for f in run) for run in section) for section in sections)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ("", ""),
        ("a:1-3", "a"),
        ("a:1-3 b:4-5", "a | b"),
        ("a:1-3 b:3-5", "a / b"),
        ("a:10-90 b:20-30 c:40-50 d:95-99", "a / b,c | d"),
        ("a:1-9 b:2-3 c:3-4 d:4-5 e:10-11 f:12-13 g:11-12", "a / b,d / c | e,f / g"),
        ("a:1-4 b:1-2 c:3-3 d:3-6 e:5-7", "b,c,e / a / d"),
    ],
)
def test_files_are_split_into_sections_of_few_runs(files: str, expected: str) -> None:
    assert _text(partition([_file(text) for text in files.split()], _key)) == expected


def _plan(files: str, output_level: int) -> str:
    sections = partition([_file(text) for text in files.split()], _key)
    return "; ".join(
        _step(step) for step in plan_steps(sections, Target(output_level, max_level=5, small_file_bytes=100))
    )


def _step(step: Step) -> str:
    match step:
        case Upgrade(file):
            return f"upgrade {file.file_name}"
        case Rewrite(sections):
            return f"rewrite {_text(sections)}"


@pytest.mark.parametrize(
    ("files", "output_level", "expected"),
    [
        ("a:1-3@0*10", 4, "upgrade a"),
        ("a:1-3@4*10", 4, ""),
        ("a:1-3@0*10!", 4, "upgrade a"),
        ("a:1-3@0*10!", 5, "rewrite a"),
        ("a:1-3@0*10?", 5, "rewrite a"),
        ("a:1-3@5*10 b:4-5@0*10", 5, "rewrite a | b"),
        ("a:1-3@0*10 b:2-5@5*10", 5, "rewrite a / b"),
        ("a:1-3@0*100 b:4-5@5*100", 5, "upgrade a"),
        ("a:1-3@0*100 b:4-5@0*99 c:6-7@0*100", 5, "upgrade a; upgrade b; upgrade c"),
        ("a:1-3@0*99 b:4-5@0*99 c:6-7@0*100", 5, "rewrite a | b; upgrade c"),
        ("a:1-3@5*99 b:2-5@0*99 c:6-7@5*99 d:8-9@5*500", 5, "rewrite a / b | c"),
        ("a:1-3@5*500 b:2-5@0*99 c:6-7@5*500!", 5, "rewrite a / b; rewrite c"),
    ],
)
def test_overlapping_and_small_files_are_rewritten_others_upgraded(
    files: str, output_level: int, expected: str
) -> None:
    assert _plan(files, output_level) == expected
