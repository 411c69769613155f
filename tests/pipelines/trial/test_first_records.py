"""The first records of a source decide its table, in whichever partitions and batches they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.changes import RECORD_SCHEMA

pytestmark = pytest.mark.slow

Change = tuple[int, str, dict[str, Any], dict[str, Any] | None, str]
"""Partition, operation, message key, row, and table of the source."""

NEW_TABLE = {"schema_changes": {"primary_key": "new_table"}}


class Trial:
    """A pipeline with a rule for the table ``t``, and an ordinary table beside it."""

    def __init__(self, root: Path, rule: dict[str, Any], form: str = "debezium-json") -> None:
        source = {"kafka": {"bootstrap_servers": "localhost:9", "topics": ["shop.public.t"]}, "format": form}
        rules = [{"match": {"table": "t"}, "into": "lake.t", **rule}, {"match": {"table": "other"}, "into": "lake.o"}]
        places = {"checkpoint": str(root / "state"), "catalog": {"warehouse": str(root / "lake")}}
        config = {"version": 1, "name": "shop", "source": source, **places, "tables": rules}
        self.pipeline = TrialPipeline(PipelineConfig.model_validate(config), root / "trial")
        self.is_upsert = form == "upsert-json"
        self.count = 0

    def take(self, *changes: Change) -> None:
        """One batch."""
        rows = []
        for partition, op, key, row, table in changes:
            place = {"topic": "shop.public.t", "partition": partition, "offset": self.count, "headers": None}
            names = {"db": "shop", "schema": "public", "table": table}
            before, after = (row, None) if op == "d" else (None, row)
            event = {"op": op, "before": before, "after": after, "source": names}
            value = (after if self.is_upsert else event) if after or not self.is_upsert else None
            texts = {"key": json.dumps(key).encode(), "value": None if value is None else json.dumps(value).encode()}
            rows.append({**place, "timestamp": self.count * 1000, **texts})
            self.count += 1
        rows.sort(key=lambda row: (row["partition"], row["offset"]))
        self.pipeline.run(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))

    def rows(self, table: str) -> list[dict[str, Any]]:
        assert self.pipeline.quarantined == []
        return self.pipeline.tables[table].to_arrow().to_pylist() if table in self.pipeline.tables else []


def change(op: str, key: dict[str, Any], row: dict[str, Any] | None = None, partition: int = 0) -> Change:
    return partition, op, key, row, "t"


OTHER: Change = (0, "c", {"id": 1}, {"id": 1}, "other")
DELETES = [change("d", {"id": 0}, {"id": 0}), change("d", {"id": 0}, {"id": 0, "note": None})]
OF_NOTE: list[dict[str, Any]] = [{"where": "note <> 'zz'"}, {"columns": {"add": {"m": "upper(note)"}}}]


@pytest.mark.parametrize("rule", OF_NOTE, ids=["where", "add"])
@pytest.mark.parametrize("before", DELETES, ids=["key", "nulls"])
@pytest.mark.parametrize("arrangement", ["one partition", "two partitions", "two batches"])
def test_a_column_with_only_null_pauses_its_table_alone(
    tmp_path: Path, rule: dict[str, Any], before: Change, arrangement: str
) -> None:
    trial, null = Trial(tmp_path, rule), {"id": 7, "note": None}
    row = change("c", {"id": 7}, null, partition=0 if arrangement == "one partition" else 1)

    for batch in ((before, OTHER), (row,)) if arrangement == "two batches" else ((before, OTHER, row),):
        trial.take(*batch)

    assert "column 'note' has only NULL so far" in trial.pipeline.paused["lake.t"]
    assert (trial.rows("lake.o"), len(trial.pipeline.paused)) == ([{"id": 1}], 1)


ACROSS_PARTITIONS = {"partition_by": ["note"], "primary_key": ["id"], "options": {"bucket": "-1"}}


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ({"options": {"sequence.field": "note"}}, "note: BIGINT"),
        (ACROSS_PARTITIONS, "note: STRING"),
        ({"columns": {"rename": {"note": "memo"}}, "where": "note <> 'zz'"}, "memo: STRING"),
    ],
    ids=["order", "partition", "renamed"],
)
def test_a_rule_that_needs_the_column_works_once_its_type_is_declared(
    tmp_path: Path, rule: dict[str, Any], remedy: str
) -> None:
    nulls = (change("c", {"id": 7}, {"id": 7, "note": None}), OTHER)
    trial = Trial(tmp_path, rule)
    trial.take(*nulls)
    assert "column 'note' has only NULL so far, so its type is unknown: declare it under columns.types, such as" in (
        told := trial.pipeline.paused["lake.t"]
    )
    assert told.endswith(f"`{remedy}`")
    assert (trial.rows("lake.o"), [*trial.pipeline.paused]) == ([{"id": 1}], ["lake.t"])

    name, t = remedy.split(": ")
    typed = Trial(tmp_path / "typed", {**rule, "columns": {**rule.get("columns", {}), "types": {name: t}}})
    typed.take(*nulls, change("c", {"id": 8}, {"id": 8, "note": 5}))
    assert (typed.pipeline.paused, 8 in [row["id"] for row in typed.rows("lake.t")]) == ({}, True)


@pytest.mark.parametrize("rule", [{"where": "note IS NOT NULL OR id < 9"}, {"columns": {"add": {"m": "note IS NULL"}}}])
@pytest.mark.parametrize("mask", ["redact", {"show_last": 1}])
def test_a_declared_type_of_a_masked_column_counts_for_expressions(
    tmp_path: Path, rule: dict[str, Any], mask: Any
) -> None:
    columns = {**rule.get("columns", {}), "types": {"note": "STRING"}, "mask": {"note": mask}}
    trial = Trial(tmp_path, {**rule, "columns": columns})

    for row_id, value in ((7, None), (8, 15)):
        trial.take(change("c", {"id": row_id}, {"id": row_id, "note": value}))

    hidden = "***" if mask == "redact" else "*5"
    assert [(row["id"], row["note"], row.get("m")) for row in trial.rows("lake.t")] == (
        [(7, None, True), (8, hidden, False)] if "add" in columns else [(7, None, None), (8, hidden, None)]
    )
    assert trial.pipeline.paused == {}


@pytest.mark.parametrize("rule", [{"where": "id + note > 1"}, {"columns": {"add": {"m": "id + note"}}}])
def test_an_expression_that_does_not_fit_the_types_is_named_with_its_rule(tmp_path: Path, rule: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^rule into lake.t: (where|columns: m): id \+ note"):
        Trial(tmp_path, rule).take(change("c", {"id": 7}, {"id": 7, "note": "a"}))


@pytest.mark.parametrize("rule", [{}, {"where": "note <> 'zz'"}], ids=["plain", "where"])
@pytest.mark.parametrize("partition", [0, 1])
def test_the_oldest_key_of_a_row_is_the_primary_key(tmp_path: Path, rule: dict[str, Any], partition: int) -> None:
    """Deletes with another key before it show no table."""
    trial = Trial(tmp_path, {**NEW_TABLE, **rule})

    row = {"id": 7, "code": 7, "note": "a"}
    trial.take(change("d", {"id": 0}, {"id": 0}), change("c", {"code": 7}, row, partition))

    assert (trial.rows("lake.t"), [*trial.pipeline.tables]) == ([row], ["lake.t"])
    assert trial.pipeline.paused == {}


def test_the_oldest_row_of_a_key_counts_in_whichever_partition(tmp_path: Path) -> None:
    trial = Trial(tmp_path, NEW_TABLE)
    by_id = {"id": 1, "code": 1}

    trial.take(
        change("c", {"id": 1}, by_id, partition=1),
        change("c", {"code": 2}, {"id": 2, "code": 2}, partition=1),
        change("c", {"id": 3}, {"id": 3, "code": 3}, partition=0),
    )

    assert trial.pipeline.tables["lake.t"].schema.primary_keys == ("id",)


@pytest.mark.parametrize("form", ["upsert-json", "debezium-json"])
@pytest.mark.parametrize("rule", [{}, {"where": "n > 0"}, {"columns": {"add": {"m": "n + 1"}}}])
def test_a_new_table_waits_for_the_first_row_with_its_key(tmp_path: Path, form: str, rule: dict[str, Any]) -> None:
    """Tidemark counts deletes with the new key before it: the new table has nothing that they could delete."""
    trial = Trial(tmp_path, {**NEW_TABLE, **rule}, form)
    trial.take(*(change("c", {"id": n}, {"id": n, "code": f"c{n}", "n": n}) for n in (1, 2)))

    trial.take(change("d", {"code": "c1"}, {"code": "c1"}))
    assert (trial.pipeline.paused, len(trial.rows("lake.t"))) == ({}, 2)
    assert trial.pipeline.skipped["deletes without a table"] == 1

    row = {"id": 2, "code": "c2", "n": 5}
    trial.take(change("d", {"code": "c2"}, {"code": "c2"}), change("c", {"code": "c2"}, row))
    assert [one["n"] for one in trial.rows("lake.t_v2")] == [5]
    trial.take(change("d", {"code": "c2"}, {"code": "c2"}))
    assert (trial.rows("lake.t_v2"), len(trial.rows("lake.t")), trial.pipeline.paused) == ([], 2, {})
