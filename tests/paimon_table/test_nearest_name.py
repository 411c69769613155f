"""Which names count as slips of others."""

from __future__ import annotations

import pytest

from paimon_table.nearest_name import misspelt_column


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("custmer", "customer"),
        ("amonut", "amount"),  # two letters swapped in a short name
        ("Amount", "amount"),
        ("total", None),
        ("line_2", None),  # another number is another thing
        ("mount", "amount"),
        ("count", None),
    ],
)
def test_slips_of_columns(written: str, meant: str | None) -> None:
    assert misspelt_column(written, ("customer", "amount", "line_1")) == meant
