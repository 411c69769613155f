"""``sequence.auto-padding``: what comes first of rows with the same user sequence."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.schema.table_schema import create_schema
from paimon_table.types import parse_type
from paimon_table.validation.table_validation import validate_table
from tests.support.bucket_harness import BucketHarness, Row, context

_COLUMNS = [("k", "INT"), ("s", "INT"), ("v", "STRING")]
_FLAG = {"sequence.field": "s", "sequence.auto-padding": "row-kind-flag"}


def content(rows: list[Row], options: dict[str, str], directory: Path, commits: int = 1) -> list[Row]:
    bucket = BucketHarness(context(_COLUMNS, ["k"], options), directory)
    for i in range(commits):
        bucket.commit(rows[i * len(rows) // commits : (i + 1) * len(rows) // commits])
    return bucket.content()


@pytest.mark.parametrize("commits", [1, 2])
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_update_before_comes_before_update_after_of_the_same_sequence(tmp_path: Path, commits: int, order: str) -> None:
    options = {**_FLAG, "sequence.field.sort-order": order}
    rows = [("+U", 1, 5, "new"), ("-U", 1, 5, "old")]
    assert content(rows, options, tmp_path / "flag", commits) == [(1, 5, "new")]
    assert content(rows, {"sequence.field": "s"}, tmp_path / "arrival", commits) == []


def test_a_delete_of_the_same_sequence_removes_the_row_that_came_before_it(tmp_path: Path) -> None:
    rows = [("+I", 1, 5, "x"), ("-D", 2, 5, "y"), ("-D", 1, 5, "x"), ("+I", 2, 5, "y")]
    assert content(rows, _FLAG, tmp_path) == [(2, 5, "y")]


def test_arrival_decides_between_adds_of_the_same_sequence(tmp_path: Path) -> None:
    rows = [("+I", 1, 5, "first"), ("+I", 1, 5, "second"), ("+I", 1, 4, "late")]
    assert content(rows, _FLAG, tmp_path) == [(1, 5, "second")]


@pytest.mark.parametrize("padding", ["second-to-micro", "millis-to-micro"])
def test_padding_with_micros_leaves_the_decision_to_arrival(tmp_path: Path, padding: str) -> None:
    options = {"sequence.field": "s", "sequence.auto-padding": padding}
    assert content([("+U", 1, 5, "new"), ("-U", 1, 5, "old")], options, tmp_path) == []


def _validate(options: dict[str, str]) -> None:
    columns = [(name, parse_type(text)) for name, text in _COLUMNS]
    validate_table(create_schema(columns, ["k"], options={"bucket": "1", **options}))


def test_paddings_that_are_unknown_or_pad_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"sequence\.auto-padding.*row-kind-flag"):
        _validate({"sequence.field": "s", "sequence.auto-padding": "row-kind"})
    with pytest.raises(ConfigError, match=r"sequence\.auto-padding.*sequence\.field"):
        _validate({"sequence.auto-padding": "row-kind-flag"})


def test_a_flag_after_micros_is_not_supported() -> None:
    with pytest.raises(UnsupportedFeature, match=r"sequence\.auto-padding"):
        _validate({"sequence.field": "s", "sequence.auto-padding": "second-to-micro,row-kind-flag"})
