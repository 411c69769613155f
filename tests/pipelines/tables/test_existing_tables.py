"""Pipelines into tables that exist already: what Tidemark cannot write is refused by name, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from paimon_table.metadata.paths import TablePaths
from paimon_table.schema.table_schema import create_schema, to_json
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from sources.changes import RECORD_SCHEMA
from tests.support.local_batches import pipeline_tables, run_batches

COLUMNS = (("id", "BIGINT"), ("dt", "STRING"), ("n", "BIGINT"))


def make(directory: Path, primary_key: Sequence[str], partition_by: Sequence[str] = (), **options: str) -> None:
    """The schema file of lake.t as another engine writes it, unchecked."""
    columns = [(name, parse_type(text)) for name, text in COLUMNS]
    schema = create_schema(columns, primary_key, partition_by, {k.replace("_", "-"): v for k, v in options.items()})
    paths = TablePaths(str(directory / "warehouse" / "lake.db" / "t"))
    LocalFileIO().publish(paths.schema_file(0), to_json(schema).encode())


def event(offset: int, key: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    source = {"db": "shop", "schema": "public", "table": "t"}
    value = json.dumps({"before": None, "after": after, "source": source, "op": "c"}).encode()
    place = {"topic": "shop.public.t", "partition": 0, "offset": offset, "timestamp": 0, "headers": None}
    return {**place, "key": json.dumps(key).encode(), "value": value}


def run(directory: Path, key: Sequence[str] = ("id",), **rule: object) -> None:
    """One record with this message key, as a pipeline whose rule says nothing of buckets brings it in."""
    row = {"id": 1, "dt": "a", "n": 1}
    batch = pa.RecordBatch.from_pylist([event(0, {name: row[name] for name in key}, row)], schema=RECORD_SCHEMA)
    rules: list[dict[str, object]] = [{"match": {"table": "t"}, "into": "lake.t", "options": {"bucket": None}, **rule}]
    run_batches(pipeline_tables(directory, rules), [batch], directory)


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket_key": "id"}])
def test_a_table_without_key_is_refused_where_the_rule_does_not_append(tmp_path: Path, options: dict[str, str]) -> None:
    make(tmp_path, [], **options)

    with pytest.raises(ConfigError, match=r"table lake\.t exists .*no primary key.*another `into`"):
        run(tmp_path)

    assert Table.open_for_reading(str(tmp_path / "warehouse" / "lake.db" / "t")).snapshots.latest_id() is None


def test_a_new_table_is_not_partitioned_outside_of_the_message_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lake\.t.*partition column 'dt' is not part of the primary key \(id\)"):
        run(tmp_path, partition_by=["dt"])

    assert not (tmp_path / "warehouse").exists()


@pytest.mark.parametrize("rule", [{}, {"partition_by": ["dt"]}])
def test_an_existing_table_partitioned_outside_of_its_key_is_refused(tmp_path: Path, rule: dict[str, Any]) -> None:
    make(tmp_path, ["id"], ["dt"], bucket="2")

    with pytest.raises(ConfigError, match=r"table lake\.t exists .*'dt' is not part of the primary key \(id\)"):
        run(tmp_path, **rule)


def test_a_table_partitioned_outside_of_its_key_can_still_be_read(tmp_path: Path) -> None:
    make(tmp_path, ["id"], ["dt"], bucket="2")

    assert Table.open_for_reading(str(tmp_path / "warehouse" / "lake.db" / "t")).to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (4, r"set -1, or .*: tidemark table rescale .*/lake\.db/t --buckets 4. Nothing was written"),
        (-2, r"set -1. Nothing was written.*another `into`"),
    ],
)
def test_rows_in_dynamic_buckets_keep_them_and_nobody_is_sent_to_a_command_that_refuses(
    tmp_path: Path, wanted: int, text: str
) -> None:
    make(tmp_path, ["id"])
    run(tmp_path)

    with pytest.raises(ConfigError, match=f"'bucket' cannot change .* {text}"):
        run(tmp_path, options={"bucket": wanted})


def test_an_empty_table_with_dynamic_buckets_becomes_what_the_rule_says(tmp_path: Path) -> None:
    make(tmp_path, ["id"])

    run(tmp_path, options={"bucket": 2})

    assert Table.open(str(tmp_path / "warehouse" / "lake.db" / "t")).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("rule", "partition_by", "told"),
    [
        (
            {"partition_by": ["dt"]},
            [],
            r"partition_by \[\], the rule wants \[dt\].*Remove `partition_by` from the rule",
        ),
        ({"partition_by": ["n"]}, ["dt"], r"wants \[n\].*Set `partition_by: \[dt\]` in the rule.*`backfill: true`"),
        ({"primary_key": ["n"]}, [], r"the rule wants \[n\].*Set `primary_key: \[id\]` in the rule"),
    ],
)
def test_other_keys_than_those_of_the_table_are_refused_with_what_to_write(
    tmp_path: Path, rule: dict[str, object], partition_by: Sequence[str], told: str
) -> None:
    make(tmp_path, ["id", *partition_by], partition_by)
    with pytest.raises(ConfigError, match=told):
        run(tmp_path, ["id", *partition_by], **rule)
