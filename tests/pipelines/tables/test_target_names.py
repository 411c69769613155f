"""The table that a bad record is for, told by what its topic has fed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.tables.target_names import TargetNames
from sinks.commit.positions import Position
from tests.support.local_batches import shop_config

POSITIONS = [
    (f"lake.{name}", Position("tidemark-shop", {(f"shop.public.{name}", 0): 5}))
    for name in ("first", "second", "third")
]


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_the_first_topic_asked_for_has_the_table_that_it_fed(tmp_path: Path, name: str) -> None:
    config = shop_config(tmp_path, [], {}, otherwise={"create": {"into": "elsewhere.{table}"}})
    names = TargetNames(config, lambda: POSITIONS)
    assert names.table(f"shop.public.{name}", None) == f"lake.{name}"


def test_a_topic_that_has_fed_no_table_goes_by_its_name(tmp_path: Path) -> None:
    config = shop_config(tmp_path, [], {}, otherwise={"create": {"into": "elsewhere.{table}"}})
    assert TargetNames(config, lambda: POSITIONS).table("shop.public.other", None) == "elsewhere.other"
