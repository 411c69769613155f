"""Rules and patterns that match nothing of what the source has: each is told once, with a remedy."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pipelines.config.config_file import load_pipeline
from pipelines.tables.unmatched_rules import unmatched
from sources.changes import SourceTable

ORDERS = SourceTable("shop.orders", "crm", "public", "orders")
CUSTOMERS = SourceTable("shop.customers", "crm", "public", "customers")
COLUMNS = {"id", "email", "total"}


def told(
    root: Path,
    *rules: Mapping[str, Any],
    sources: Mapping[SourceTable, Collection[str] | None] | None = None,
    topics: Collection[str] = (),
    **selected: list[str],
) -> list[str]:
    source = {"files": {"path": "dumps", "topics": selected or {"include": [".*"]}}, "format": "debezium-json"}
    text = {"version": 1, "name": "p", "source": source, "checkpoint": "c", "catalog": {"warehouse": "w"}}
    (root / "p.yaml").write_text(json.dumps({**text, "tables": [*rules]}))
    known = {ORDERS: COLUMNS, CUSTOMERS: COLUMNS} if sources is None else sources
    return list(unmatched(load_pipeline(root / "p.yaml"), known, topics))


def rule(match: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    return {"match": match, "into": "lake.{table}", **more}


def test_a_rule_without_a_source_table_is_told(tmp_path: Path) -> None:
    found = told(tmp_path, rule({"table": "customer"}), rule({"topic": "erp"}), rule({"table": ".*"}))
    assert found == [
        "rule into lake.{table} (table customer): no source table matches it (table customer): correct or remove it;"
        " did you mean 'customers'?",
        "rule into lake.{table} (topic erp): no source table matches it (topic erp): correct or remove it;"
        " there are shop.customers, shop.orders",
    ]


def test_the_name_that_matches_nothing_is_corrected(tmp_path: Path) -> None:
    (found,) = told(tmp_path, rule({"schema": "publik", "table": "orders"}))
    assert found.endswith("(schema publik, table orders): correct or remove it; did you mean 'public'?")


def test_a_rule_behind_those_that_take_its_tables_is_told(tmp_path: Path) -> None:
    found = told(
        tmp_path, {"match": {"table": "[a-z]+"}, "into": "lake.a"}, {"match": {"table": "ord.*"}, "into": "lake.b"}
    )
    assert found == ["rule into lake.b: earlier rules match all its source tables: move it up, or remove it"]


def test_each_name_of_a_list_is_told_if_it_matches_nothing(tmp_path: Path) -> None:
    match = {"table": ["orders", "custmers"], "schema": "public", "exclude": ["x", "customers"]}
    assert told(tmp_path, rule(match), include=["shop.*", "crm"], topics=["shop.empty"]) == [
        "source.files.topics.include: 'crm' matches no topic with records: correct or remove it; there are"
        " shop.customers, shop.empty, shop.orders",
        "rule into lake.{table}: match.table: 'custmers' matches no source table: correct or remove it;"
        " did you mean 'customers'?",
        "rule into lake.{table}: match.exclude: 'x' matches no source table: correct or remove it;"
        " there are customers, empty, orders",
    ]


def test_each_listed_topic_without_records_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, rule({"table": ".*"}), names=["shop.orders", "shop.item"], topics=["shop.items"]) == [
        "source.files.topics: 'shop.item' is no topic with records: correct or remove it; did you mean 'shop.items'?"
    ]


def test_each_key_of_columns_is_told_if_it_matches_nothing(tmp_path: Path) -> None:
    columns = {
        "rename": {"total": "amount", "mail": "address"},
        "types": {"/amou.*/": "DECIMAL(10, 2)", "/.*_at/": "TIMESTAMP(3)", "later": "INT"},
        "drop": ["/e.*/", "/sec/"],
        "decimal_formats": {"amount": "text", "ttal": "text"},
    }
    assert told(tmp_path, rule({"table": "orders"}, columns=columns)) == [
        f"rule into lake.{{table}}: columns.{key} matches no column of shop.orders: correct or remove it; {hint}"
        for key, hint in [
            ("rename: 'mail'", "did you mean 'email'?"),
            ("drop: '/sec/'", "there are email, id, total"),
            ("types: '/.*_at/'", "there are email, id, total"),
            ("decimal_formats: 'ttal'", "did you mean 'total'?"),
        ]
    ]


def test_a_mask_and_a_replacement_without_their_column_are_told(tmp_path: Path) -> None:
    columns = {"mask": {"email": "redact", "iban": "redact"}, "replace": {"total": "0", "tota": "0"}}
    assert told(tmp_path, rule({"table": "orders"}, columns=columns)) == [
        f"rule into lake.{{table}}: columns.{key} matches no column of shop.orders: correct or remove it; {hint}"
        for key, hint in [("replace: 'tota'", "did you mean 'total'?"), ("mask: 'iban'", "there are email, id, total")]
    ]


def test_what_is_not_known_is_not_judged(tmp_path: Path) -> None:
    rules = rule({"table": "orders"}, columns={"drop": ["secret"]}), rule({"table": "customers"})
    assert told(tmp_path, *rules, sources={}) == []
    assert told(tmp_path, *rules, sources={ORDERS: None}, topics=["shop.orders", "shop.customers"]) == []
