"""How long deletes stay where nothing is left below them (`tidemark.keep-deletes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from paimon_table.compaction.due import due_compactions
from paimon_table.compaction.row_ages import row_ages
from paimon_table.errors import ConfigError
from paimon_table.metadata.bucket_id import BucketId
from paimon_table.metadata.commit_message import CommitMessage
from paimon_table.metadata.table_state import TableState
from paimon_table.options.table_options import DELETE_TIME
from tests.support.bucket_harness import BucketHarness, context

START_S, KEPT_S = 1_700_000_000, 100


@dataclass
class Ordered:
    """A bucket with rows (k, v, DELETE_TIME), ordered by v, and the clock of its writers."""

    bucket: BucketHarness
    seconds: int = 0

    def commit(self, rows: Sequence[tuple[str, int, int]], full: bool = True, at: int = 0) -> CommitMessage:
        self.seconds = at
        return self.bucket.commit([(*row, None) for row in rows], full=full)

    def seen(self) -> dict[int, int]:
        return {row[0]: row[1] for row in self.bucket.content()}

    def stored_deletes(self) -> int:
        return sum(file.delete_row_count or 0 for file in self.bucket.files)

    def is_due(self, at: int) -> bool:
        ctx = self.bucket.ctx
        ages = row_ages(ctx, (START_S + at) * 1000)
        state = TableState(None, {BucketId(b"", 0): tuple(self.bucket.files)})
        return bool(due_compactions(state, ctx.options, fully=True, is_appended=False, ages=ages))


def ordered(tmp_path: Path, **options: str) -> Ordered:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    named = {"sequence.field": "v", "tidemark.keep-deletes": f"{KEPT_S} s", **named}
    columns = [("k", "INT"), ("v", "INT"), (DELETE_TIME, "TIMESTAMP_LTZ(3)")]
    made = Ordered(BucketHarness(context(columns, ["k"], named), tmp_path / "lookup"))
    made.bucket.environment["clock_ms"] = lambda: (START_S + made.seconds) * 1000 + 999
    return made


PRODUCERS = ("none", "lookup", "full-compaction")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_delete_stays_for_its_time_and_hides_older_rows(tmp_path: Path, producer: str) -> None:
    table = ordered(tmp_path, changelog_producer=producer)
    table.commit([("+I", 1, 5), ("+I", 2, 5)])
    told = table.commit([("-D", 1, 6)])
    assert (table.seen(), table.stored_deletes()) == ({2: 5}, 1)
    assert [f.row_count for f in told.compact_changelog] == ([] if producer == "none" else [1])

    late = table.commit([("+I", 1, 4)], at=KEPT_S)
    assert (table.seen(), table.stored_deletes()) == ({2: 5}, 1)
    assert sum(f.row_count for f in late.compact_changelog) == 0

    table.commit([("+I", 1, 7)], at=KEPT_S)
    assert (table.seen(), table.stored_deletes()) == ({1: 7, 2: 5}, 0)


def test_a_delete_whose_time_is_over_leaves_with_the_next_full_compaction(tmp_path: Path) -> None:
    table = ordered(tmp_path)
    table.commit([("+I", 1, 5), ("+I", 2, 5)])
    table.commit([("-D", 1, 6)], at=1)
    assert not table.is_due(1 + KEPT_S)
    before = list(table.bucket.files)
    table.commit([], at=1 + KEPT_S)
    assert table.bucket.files == before, "it lives for all of its last second, and its file is not rewritten"

    assert table.is_due(2 + KEPT_S)
    table.commit([], at=2 + KEPT_S)

    assert (table.seen(), table.stored_deletes()) == ({2: 5}, 0)
    assert not table.is_due(10_000)


def test_a_late_delete_is_none_of_a_newer_row(tmp_path: Path) -> None:
    table = ordered(tmp_path)
    table.commit([("+I", 1, 5)])
    table.commit([("-D", 1, 4)])
    assert (table.seen(), table.stored_deletes()) == ({1: 5}, 0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"merge_engine": "partial-update"}, "needs 'merge-engine' = deduplicate"),
        ({"deletion_vectors__enabled": "true"}, "'deletion-vectors.enabled' exclude each other"),
        ({"bucket": "-2"}, "needs another 'bucket' than -2"),
    ],
)
def test_tables_whose_readers_would_be_hurt_are_refused(tmp_path: Path, options: dict[str, str], told: str) -> None:
    from paimon_table.validation.table_validation import validate_table

    with pytest.raises(ConfigError, match=told):
        validate_table(ordered(tmp_path, **options).bucket.ctx.schema)
