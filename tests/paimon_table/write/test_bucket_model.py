"""Random histories of one bucket against a plain Python dict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.bucket_harness import BucketHarness, Row, context

_KEYS: dict[str, tuple[list[tuple[str, str]], Callable[[int], Row]]] = {
    "int": ([("k", "INT")], lambda n: (n,)),
    "text": ([("k", "STRING")], lambda n: (f"customer-number-{n * 7919:05d}",)),
    "pair": ([("k", "STRING"), ("j", "BIGINT")], lambda n: ("ab"[n % 2], n // 2)),
    "double": ([("k", "DOUBLE")], lambda n: (float("nan") if n == 3 else n / 4 - 1,)),
}


@dataclass(frozen=True)
class Case:
    key: str
    producer: str
    sequence: str
    row_deduplicate: bool
    trigger: int
    chunk_bytes: int
    vectors: str
    """Deletion vectors: none at all, or the version in which they are written."""
    small_file_ratio: float
    commits: list[tuple[list[tuple[str, int, int | None, int]], bool, bool]]


def _commits() -> st.SearchStrategy[Any]:
    row = st.tuples(
        st.sampled_from(["+I", "+I", "+U", "-U", "-D"]),
        st.integers(0, 7),
        st.none() | st.integers(0, 4),
        st.integers(0, 2),
    )
    return st.lists(
        st.tuples(st.lists(row, max_size=8), st.booleans(), st.integers(0, 5).map(lambda n: n == 0)), max_size=8
    )


_CASES = st.builds(
    Case,
    key=st.sampled_from(sorted(_KEYS)),
    producer=st.sampled_from(["none", "input", "lookup", "lookup", "full-compaction", "full-compaction"]),
    sequence=st.sampled_from(["", "ascending", "descending"]),
    row_deduplicate=st.booleans(),
    trigger=st.integers(2, 4),
    chunk_bytes=st.sampled_from([1, 200, 1 << 20]),
    vectors=st.sampled_from(["", "v1", "v2"]),
    small_file_ratio=st.sampled_from([0.0, 0.7]),
    commits=_commits(),
)


@dataclass
class Model:
    """Newest version of each key: (order, kind, values)."""

    sequence: str
    arrivals: int = 0
    versions: dict[Row, tuple[Any, str, Row]] = field(default_factory=dict)

    def write(self, kind: str, key: Row, sequence: int | None, values: Row) -> None:
        rank = (sequence is not None, (-1 if self.sequence == "descending" else 1) * (sequence or 0))
        order = (rank if self.sequence else (), self.arrivals)
        self.arrivals += 1
        present = self.versions.get(key)
        if present is None or order > present[0]:
            self.versions[key] = (order, kind, values)

    def content(self) -> list[str]:
        return sorted(repr(values) for _, kind, values in self.versions.values() if kind[0] == "+")


def _history(case: Case, root: Path) -> None:
    key_columns, key_of = _KEYS[case.key]
    options = {"changelog-producer": case.producer, "num-sorted-run.compaction-trigger": str(case.trigger)}
    if case.sequence:
        options |= {"sequence.field": "s", "sequence.field.sort-order": case.sequence}
    assume(not (case.vectors and case.producer == "full-compaction"))  # refused together
    if case.row_deduplicate:
        options["changelog-producer.row-deduplicate"] = "true"
    if case.vectors:
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = str(case.vectors == "v2").lower()
    # With 0 every file that overlaps nothing is moved as it is.
    options["compaction.small-file-ratio"] = str(case.small_file_ratio)
    columns = [*key_columns, ("s", "INT"), ("v", "INT")]
    ctx = context(columns, [name for name, _ in key_columns], options)
    bucket = BucketHarness(ctx, root / "lookup", environment={"chunk_bytes": case.chunk_bytes})
    model = Model(case.sequence)
    replayed: dict[str, Row] = {}
    for rows, fresh, full in case.commits:
        written = [(kind, *key_of(number), sequence, value) for kind, number, sequence, value in rows]
        for row in written:
            model.write(row[0], key_of_row(row, len(key_columns)), row[-2], row[1:])
        message = bucket.commit(written, full, fresh)
        _forget_dropped_tombstones(model, bucket, len(key_columns))
        assert sorted(map(repr, bucket.content())) == model.content()
        if case.vectors:
            # Each key once and no delete, without a merge.
            assert sorted(map(repr, bucket.unmerged_content())) == model.content()
            assert bucket.vectors().keys() <= {f.file_name for f in bucket.files}
        if case.producer == "lookup":
            assert all(f.level > 0 for f in bucket.files)
            _replay(bucket.changes(message.compact_changelog), replayed, len(key_columns), case.row_deduplicate)
            assert sorted(map(repr, replayed.values())) == model.content()
        if case.producer == "full-compaction":
            _replay(bucket.changes(message.compact_changelog), replayed, len(key_columns), case.row_deduplicate)
            on_top = [bucket.read(f) for f in bucket.files if f.level == ctx.options.max_level]
            stored = [tuple(row.values())[2:] for rows in on_top for row in rows.to_pylist()]
            assert sorted(map(repr, replayed.values())) == sorted(map(repr, stored))
        if case.producer == "input":
            assert sorted(map(repr, bucket.changes(message.changelog_files))) == sorted(map(repr, written))
        _check_point_reads(bucket, [key_of(number) for number in range(9)])


def key_of_row(row: Row, width: int) -> Row:
    return tuple(map(repr, row[1 : 1 + width]))


def _forget_dropped_tombstones(model: Model, bucket: BucketHarness, width: int) -> None:
    """A delete that was compacted into the highest level is gone; what comes later meets an empty table."""
    stored = {tuple(map(repr, row)) for row in _keys(bucket, width)}
    for key in [key for key, (_, kind, _) in model.versions.items() if kind[0] == "-" and key not in stored]:
        del model.versions[key]


def _keys(bucket: BucketHarness, width: int) -> list[Row]:
    rows = bucket.all_rows()
    return list(zip(*[rows.column(name).to_pylist() for name in bucket.ctx.schema.trimmed_primary_keys], strict=True))


def _replay(changes: list[Row], state: dict[str, Row], width: int, row_deduplicate: bool) -> None:
    """Apply a changelog; every -U and -D must show the row that is there, +I must meet none."""
    previous: Row = ()
    for kind, *rest in changes:
        values = tuple(rest)
        key = repr(values[:width])
        if kind in {"-U", "-D"}:
            assert repr(state.pop(key)) == repr(values)
        else:
            assert key not in state
            state[key] = values
        if kind == "+U":
            assert previous[0] == "-U"
            assert repr(previous[1 : 1 + width]) == repr(values[:width])
            assert not (row_deduplicate and repr(previous[1:]) == repr(values))
        previous = (kind, *values)


def _check_point_reads(bucket: BucketHarness, keys: list[Row]) -> None:
    names = bucket.ctx.schema.trimmed_primary_keys
    keys = [*reversed(keys), keys[0]]
    table = pa.table(
        {
            name: pa.array([key[i] for key in keys], bucket.ctx.schema.arrow_schema.field(name).type)
            for i, name in enumerate(names)
        }
    )
    assert bucket.writer is not None
    hits = bucket.writer.find_rows(table)
    found = [tuple(row.values())[2:] for row in hits.rows.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, bucket.content()))
    for position, row in zip(hits.positions, found, strict=True):
        assert repr(keys[position]) == repr(row[: len(names)])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(_CASES)
def test_any_history_gives_the_content_and_the_changelog_of_the_model(case: Case) -> None:
    with tempfile.TemporaryDirectory() as root:
        _history(case, Path(root))
