"""Whether two readers of a pipeline file have the same rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.config.config import PipelineConfig
from pipelines.control.requests import digest_of_rules
from pipelines.replay.rebuild_rules import rules_digest
from tests.support.local_batches import shop_config


def test_another_key_of_a_mask_is_another_rule_of_its_table(tmp_path: Path) -> None:
    def config(key: str) -> PipelineConfig:
        masked: dict[str, Any] = {"columns": {"mask": {"email": {"hash": "sha256", "key": key}}}}
        rules: list[dict[str, Any]] = [
            {"match": {"table": name}, "into": f"lake.{name}"} for name in ("customers", "orders")
        ]
        return shop_config(tmp_path, [{**rules[0], **masked}, rules[1]], {})

    def digests(key: str) -> tuple[str, ...]:
        of_tables = (rules_digest(config(key), name, ["t"]) for name in ("lake.customers", "lake.orders"))
        return (digest_of_rules(config(key)), *of_tables)

    first, same, other = digests("one"), digests("one"), digests("two")

    assert first == same
    assert [a == b for a, b in zip(first, other, strict=True)] == [False, False, True]
