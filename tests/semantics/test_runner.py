"""The runner notices wrong outcomes and never takes a refusal of something supported for a pass."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.types import parse_type
from tests.semantics.case import Case, ExpectedError, Mode, Overwrite, TableSpec, Write
from tests.semantics.runner import claims_support, run_case

INT = parse_type("INT")
TABLE = TableSpec((("k", INT), ("v", INT)), ("k",), (), {"changelog-producer": "lookup"})
CASE = Case(
    id="two updates",
    table=TABLE,
    commits=(Write((("+I", 1, 1),)), Write((("+U", 1, 2),))),
    expect_table=((1, 2),),
    expect_table_after={1: ((1, 1),)},
    expect_changelog=((("+I", 1, 1),), (("-U", 1, 1), ("+U", 1, 2))),
    expect_error=None,
    expect_buckets={2: (0,)},
    unordered=frozenset(),
    bulk_load=False,
    run_modes=(),
)


def test_right_outcome_passes(tmp_path: Path) -> None:
    assert CASE.modes == (Mode.SESSION, Mode.FRESH)
    run_case(CASE, Mode.SESSION, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        {"expect_table": ((1, 1),)},
        {"expect_table_after": {1: ((1, 2),)}},
        {"expect_changelog": ((("+I", 1, 1),), (("+I", 1, 2),))},
        {"expect_buckets": {1: (0, 1)}},
        {"expect_error": ExpectedError("write", ("late",))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_outcome_fails(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run_case(replace(CASE, **wrong), Mode.FRESH, tmp_path)


def test_error_must_have_the_words_and_come_in_time(tmp_path: Path) -> None:
    table = replace(TABLE, options={"sequence.field": "zzz"})
    case = replace(CASE, table=table, commits=(), expect_error=ExpectedError("create", ("zzz", "can not be found")))
    run_case(case, Mode.FRESH, tmp_path / "right")
    with pytest.raises(AssertionError, match="lacks the words"):
        run_case(replace(case, expect_error=ExpectedError("create", ("other",))), Mode.FRESH, tmp_path / "wrong")


def test_only_unsupported_features_may_be_skipped() -> None:
    assert claims_support(CASE)
    for options in ({"merge-engine": "aggregation"}, {"bucket": "3"}, {"deletion-vectors.enabled": "true"}):
        assert claims_support(replace(CASE, table=replace(TABLE, options=options)))
    assert claims_support(replace(CASE, table=replace(TABLE, options={"sequence.snapshot-ordering": "true"})))
    for number in ("-1", "-2"):
        assert claims_support(replace(CASE, table=replace(TABLE, options={"bucket": number})))
    assert not claims_support(replace(CASE, table=replace(TABLE, options={"row-tracking.enabled": "true"})))
    assert claims_support(replace(CASE, table=replace(TABLE, primary_key=(), options={"bucket": "-1"})))
    assert claims_support(replace(CASE, commits=(Overwrite({}, ()),)))
