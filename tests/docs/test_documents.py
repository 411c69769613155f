"""What the documentation shows works: pipeline files are valid, snippets and commands run, links lead somewhere."""

from __future__ import annotations

import io
import json
import logging
import re
import shlex
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ruamel.yaml import YAML

import tidemark
from pipelines.config.config_file import load_pipeline
from sources.changes import RECORD_SCHEMA
from tests.docs.documents import PAGES, ROOT, TEXTS, Block, anchors, blocks, page
from tests.interop.environment import pypaimon_python
from tests.support.command import tidemark as command
from tests.support.local_batches import pipeline_tables, run_batches
from tests.support.waiting import seconds

DOCUMENTED_WAREHOUSE = "/data/warehouse"
NAMES = (
    "S3_ACCESS_KEY",
    "S3_SECRET_KEY",
    "MASK_KEY",
    "REGISTRY_PASSWORD",
    "KAFKA_USER",
    "KAFKA_PASSWORD",
    "CATALOG_PASSWORD",
    "CATALOG_TOKEN",
)
ENVIRONMENT = dict.fromkeys(NAMES, "secret") | {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092", "TIDEMARK_WAREHOUSE": "lake"}
PIPELINES = [block for path in PAGES for block in blocks(path, "yaml") if block.text.startswith("version:")]


@pytest.mark.parametrize("block", PIPELINES, ids=str)
def test_a_documented_pipeline_is_valid_without_warnings(
    block: Block, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / f"{abs(hash(block))}.yaml"
    file.write_text(block.text)
    with caplog.at_level(logging.WARNING, "pipelines"):
        load_pipeline(file, ENVIRONMENT)
    here = ("no file matches", "the file or directory does not exist")  # the files of the page are not
    assert [m for m in caplog.messages if not any(words in m for words in here)] == []


def leads_somewhere(path: Path, target: str, anchor: str) -> bool:
    place = path.parent / target if target else path
    return place.exists() and (not anchor or anchor in anchors(place))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_other_pages_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", path.read_text(encoding="utf-8"))
    of_the_forge = "../../security/"
    assert [link for link in links if not link[0].startswith(of_the_forge) and not leads_somewhere(path, *link)] == []


def event(topic: str, offset: int, after: dict[str, Any]) -> dict[str, Any]:
    database, schema, table = topic.split(".")
    source = {"db": database, "schema": schema, "table": table}
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": 0,
        "key": json.dumps({"id": after["id"]}).encode(),
        "value": json.dumps({"before": None, "after": after, "source": source, "op": "c"}).encode(),
        "headers": None,
    }


def records(*events: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(events), schema=RECORD_SCHEMA)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A warehouse with the table of docs/READING.md."""
    types = {"id": "BIGINT", "status": "STRING", "total": "DECIMAL(10, 2)"}
    rule: dict[str, object] = {"match": {"table": "orders"}, "into": "lake.orders", "columns": {"types": types}}
    rows = [{"id": n, "status": "new" if n % 2 else "paid", "total": f"{n}.50"} for n in range(1, 5)]
    tables = pipeline_tables(tmp_path, [rule], **{"changelog-producer": "lookup"})
    run_batches(tables, [records(*(event("shop.public.orders", n, row) for n, row in enumerate(rows)))], tmp_path)
    return tmp_path / "warehouse"


def snippet(heading: str, warehouse: Path) -> str:
    (block,) = (block for block in blocks(page("READING.md"), "python") if block.heading.startswith(heading))
    return block.text.replace(DOCUMENTED_WAREHOUSE, str(warehouse))


def test_tables_are_read_into_pandas(orders: Path) -> None:
    names: dict[str, Any] = {}
    exec(snippet("pandas", orders), names)
    frame = names["frame"]
    assert sorted(frame["id"]) == [1, 2, 3, 4]
    assert list(frame.columns) == ["id", "total"]


def test_the_readme_reads_a_table(orders: Path) -> None:
    (block,) = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {}
    exec(block.text.replace("demo-output/warehouse/shop.db", f"{orders}/lake.db"), names)
    assert sorted(names["orders"]["id"]) == [1, 2, 3, 4]


def test_the_engine_reads_a_snapshot_matching_rows_and_changes(orders: Path) -> None:
    names: dict[str, Any] = {}
    exec(snippet("Earlier snapshots", orders), names)
    assert (names["first"].column_names, names["first"].num_rows) == (["id", "total"], 4)
    assert (names["paid"], names["changed"]) == (2, {2: 4})


def test_tables_are_queried_by_duckdb(orders: Path) -> None:
    names: dict[str, Any] = {}
    exec(snippet("DuckDB", orders), names)
    assert sorted((status, number, str(total)) for status, number, total in names["per_status"]) == [
        ("new", 2, "5.00"),
        ("paid", 2, "7.00"),
    ]


@pytest.mark.interop
def test_tables_are_read_by_pypaimon(orders: Path) -> None:
    code = snippet("pypaimon", orders) + "print(sorted(frame['id']))\n"
    done = subprocess.run(
        [str(pypaimon_python()), "-c", code], capture_output=True, text=True, timeout=seconds(120), check=False
    )
    assert done.stdout.splitlines()[-1:] == ["[1, 2, 3, 4]"], done.stderr


@pytest.mark.slow
def test_the_commands_that_read_a_table_run(orders: Path) -> None:
    (block,) = blocks(page("READING.md"), "sh")
    for line in block.text.splitlines():
        words = shlex.split(line.replace(DOCUMENTED_WAREHOUSE, str(orders)))
        done = command(*words[1:])
        assert (words[0], done.returncode, done.stderr) == ("tidemark", 0, ""), line
        assert done.stdout.count("\n") >= 4, line


def test_the_api_as_documented_runs(orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = blocks(page("INSTALL.md"), "python")
    (tmp_path / "shop.yaml").write_text("version: 2\n")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with redirect_stdout(io.StringIO()) as out:
        exec(block.text, names)
    assert out.getvalue().startswith(f"{tidemark.__version__}\n[") and "shop.yaml:1:10: version" in out.getvalue()
    assert len(names["orders"]) == 4


def test_two_topics_make_one_wide_table(tmp_path: Path) -> None:
    (block,) = (block for block in PIPELINES if block.heading == "Join two topics into one wide table")
    document = YAML(typ="safe").load(block.text)
    tables = pipeline_tables(tmp_path, document["tables"])
    account = event("crm.public.account", 0, {"id": 7, "balance": "1.50", "account_at": 2})
    late = event("crm.public.account", 1, {"id": 7, "balance": "9.99", "account_at": 1})
    profile = event("crm.public.profile", 0, {"id": 7, "name": "Ada", "profile_at": 1})
    run_batches(tables, [records(account), records(profile), records(late)], tmp_path)
    (row,) = tidemark.read_table(tmp_path / "warehouse/lake.db/customer").to_pylist()
    assert (row["name"], str(row["balance"]), row["account_at"]) == ("Ada", "1.50", 2)


MERGED: dict[str, tuple[list[tuple[str, dict[str, object]]], list[dict[str, object]]]] = {
    "Merge shards into one table": (
        [(f"shop_{n}.public.items", {"shard": n, "id": 1, "qty": n}) for n in (1, 2)],
        [{"shard": n, "id": 1, "qty": n} for n in (1, 2)],
    ),
    "Partition a table": (
        [("shop.public.customers", {"country": c, "id": n}) for n, c in ((1, "NL"), (2, "DE"))],
        [{"country": "DE", "id": 2}, {"country": "NL", "id": 1}],
    ),
    "Aggregate rows": (
        [("shop.public.sales", {"id": a, "product": "pen", "amount": a, "price": p}) for a, p in ((2, 9), (3, 7))],
        [{"product": "pen", "amount": 5, "price": 9}],
    ),
    "Keep only the first row of a key": (
        [("web.public.visits", {"id": n, "visitor": "v", "page": page}) for n, page in ((1, "first"), (2, "second"))],
        [{"id": 1, "visitor": "v", "page": "first"}],
    ),
}


@pytest.mark.parametrize("heading", MERGED)
def test_a_documented_rule_merges_rows_as_the_page_says(
    heading: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events, expected = MERGED[heading]
    (block,) = (block for block in PIPELINES if block.heading == heading)
    document = YAML(typ="safe").load(block.text)
    sent = [records(event(topic, offset, row)) for offset, (topic, row) in enumerate(events)]
    tables = pipeline_tables(tmp_path, document["tables"])
    run_batches(tables, sent, tmp_path, decoder=tables.config.decoder)
    name = document["tables"][0]["into"].removeprefix("lake.")
    rows = tidemark.read_table(tmp_path / "warehouse/lake.db" / name).to_pylist()
    assert sorted(rows, key=lambda row: list(row.values())) == expected
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert [text for text in warnings if "rows that differ only in it become one row" not in text] == []


def test_the_makefile_targets_of_the_readme_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert named <= targets
