"""Every mutated record ends in a table, in quarantine or in a counted skip; good records beside it stay exact."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.table import Table
from pipelines.tables.tables import PipelineTables
from sources.changes import RECORD_SCHEMA
from sources.debezium_json.decoder import DebeziumJsonDecoder
from sources.decode_target import Decoder
from sources.dumps.dump_records import record_batches_from_dump
from sources.upsert_json.decoder import UpsertJsonDecoder
from sources.wording import BadReason, bad_reason
from tests.support.flattened import Unwrap, flattened
from tests.support.local_batches import pipeline_tables, reported_batches
from tests.support.mutants import Record, mutated
from tests.support.mutants import mutant_count as number_of_mutants
from tests.support.replay import CAPTURES, plain_rows

SKIPPING = DebeziumJsonDecoder()
UPSERTS = UpsertJsonDecoder()
REWRITTEN = ("op", "table", "lsn", "source.ts_ms")
KNOWN = "customers|orders|order_items|varied|varied_full|edge|defaults|acct|acct_full|late|wiped"
RULES: list[dict[str, object]] = [
    {
        "match": {"schema": "public", "table": f"{KNOWN}|x(?s:.)*"},
        "into": "lake.{table}",
        "schema_changes": {"truncate": "skip"},
    }
]
_IDS = re.compile(rb'("(?:id|order_id)":\s*"?)(\d{1,18})')


def captured(name: str) -> list[Record]:
    return [row for batch in record_batches_from_dump(str(CAPTURES / f"{name}.jsonl.gz")) for row in batch.to_pylist()]


def good_records(name: str) -> list[Record]:
    return [row for row in captured(name) if re.search(rf"\.({KNOWN})$", row["topic"])]


def batches_of(*parts: list[Record]) -> list[pa.RecordBatch]:
    """One batch for each list of records; offsets are given anew."""
    ends: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in itertools.chain(*parts):
        place = (row["topic"], row["partition"])
        row["offset"] = ends[place]
        ends[place] += 1
    return [pa.RecordBatch.from_pylist(part, schema=RECORD_SCHEMA) for part in parts]


def under_another_key(row: Record) -> Record:
    """The record as one of a row that no good record is of."""
    return row | {part: _IDS.sub(lambda m: m[1] + b"77" + m[2], row[part] or b"") for part in ("key", "value")}


def mixed(good: list[Record], mutants: list[Record], r: random.Random) -> list[Record]:
    """Good records in their order, with mutants anywhere among them."""
    waiting = sorted(((r.randint(0, len(good)), i) for i in range(len(mutants))), reverse=True)
    both: list[Record] = []
    for position in range(len(good) + 1):
        while waiting and waiting[-1][0] == position:
            both.append(mutants[waiting.pop()[1]])
        both += good[position : position + 1]
    return both


def content(tables: PipelineTables) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for identifier, sink in tables.sinks.items():
        found[identifier] = list(plain_rows(Table.open(sink.table.paths.root).to_arrow()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "mutant_count"),
    [
        ("shop_schema", 2500),
        ("shop_plain", 3000),
        ("types_schema", 800),
        ("types_plain", 1200),
        ("evolve_schema", 1200),
        ("evolve_plain", 1500),
    ],
)
def test_no_mutated_record_is_lost_or_stops_a_batch(tmp_path: Path, capture: str, mutant_count: int) -> None:
    """A capture alone makes the tables; then it comes once more, among mutants of its records."""
    r = random.Random(mutant_count)
    good, again = good_records(capture), good_records(capture)
    models = [under_another_key(row) for row in good if row["value"]]
    mutants = [mutated(r.choice(models), r) for _ in range(number_of_mutants(mutant_count))]
    assert_all_accounted_for(tmp_path, SKIPPING, good, again, mutants)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capture", "unwrap", "mutant_count"),
    [
        ("shop_unwrap", None, 4000),
        ("shop_schema", Unwrap("rewrite-with-tombstone", REWRITTEN, schemas=True), 2500),
        ("types_schema", Unwrap("tombstone", ("op",), schemas=True), 1000),
        ("types_plain", Unwrap("rewrite", REWRITTEN), 1200),
        ("evolve_plain", Unwrap("none"), 1500),
    ],
)
def test_no_mutated_row_without_envelope_is_lost_or_stops_a_batch(
    tmp_path: Path, capture: str, unwrap: Unwrap | None, mutant_count: int
) -> None:
    """As with envelopes."""
    r = random.Random(mutant_count)
    good, again = (
        rows if unwrap is None else list(flattened(rows, unwrap))
        for rows in (good_records(capture), good_records(capture))
    )
    models = [under_another_key(row) for row in good if _is_row(row)]
    mutants = [mutated(r.choice(models), r) for _ in range(number_of_mutants(mutant_count))]
    assert_all_accounted_for(tmp_path, UPSERTS, good, again, mutants)


def _is_row(record: Record) -> bool:
    value = json.loads(record["value"] or b"null")
    return isinstance(value, dict) and isinstance(value.get("payload", value), dict)


def assert_all_accounted_for(
    tmp_path: Path, decoder: Decoder, good: list[Record], again: list[Record], mutants: list[Record]
) -> None:
    """Bring the good records in, then the same ones with mutants among them."""
    r = random.Random(len(mutants))
    tables = pipeline_tables(tmp_path, [{**rule, "max_bad_records": None} for rule in RULES])
    alone, beside = batches_of(good, mixed(again, mutants, r))
    reported_batches(tables, [alone], tmp_path, decoder=decoder)
    expected = content(tables)

    quarantine, (report,) = reported_batches(tables, [beside], tmp_path, 1, decoder)

    assert report.record_count == len(good) + len(mutants)
    assert report.counts.accounted == report.record_count
    first, second = (quarantined(quarantine.directory(batch_id)) for batch_id in (0, 1))
    assert len(second) == report.counts.quarantined
    assert {line["reason"] for line in (*first, *second) if bad_reason(line["reason"]) is BadReason.OTHER} == set()
    by_place = {(row["topic"], row["partition"], row["offset"]): row for row in (*again, *mutants)}
    bad = {id(by_place.pop((line["topic"], line["partition"], line["offset"]))): line["reason"] for line in second}
    harmed = [(row, bad[id(row)]) for row in again if id(row) in bad]
    # A null value names no table: where mutants name others in its topic, it may be of these.
    harmed = [(row, why) for row, why in harmed if row["value"] is not None or "which of the tables of" not in why]
    assert {why for _, why in harmed} <= {line["reason"] for line in first}
    assert len(mutants) / 10 < sum(id(mutant) in bad for mutant in mutants)
    assert_good_rows_exact(expected, content(tables), mutants)


def quarantined(directory: str) -> list[dict[str, Any]]:
    return [json.loads(line) for file in Path(directory).glob("*.jsonl") for line in file.read_text().splitlines()]


def assert_good_rows_exact(expected: Any, actual: Any, mutants: list[Record]) -> None:
    """All rows but those whose key some mutant names."""
    touched = {
        int(found[1]) for row in mutants for part in ("key", "value") for found in _IDS.findall(row[part] or b"")
    }
    compared = 0
    for identifier, rows in expected.items():
        keys = [name for name in ("id", "order_id", "line_no") if rows and name in rows[0]]
        by_key = {tuple(row[k] for k in keys): row for row in actual[identifier]}
        for row in rows:
            if not touched & {row.get("id"), row.get("order_id")}:
                found = by_key[tuple(row[k] for k in keys)]
                assert _plain(_in_fields_of(row, found)) == _plain(row)
                compared += 1
    assert compared


def _in_fields_of(expected: Any, actual: Any) -> Any:
    """``actual`` without the fields that mutants have added to its rows, which are NULL in good ones."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        assert all(actual[name] is None for name in actual.keys() - expected.keys())
        return {name: _in_fields_of(value, actual[name]) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return list(map(_in_fields_of, expected, actual))
    return actual


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with a NaN that equals itself."""
    return {name: "NaN" if value != value else value for name, value in row.items()}
