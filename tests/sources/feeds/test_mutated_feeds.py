"""Every mutated record ends in a table, in quarantine or in a counted skip; good records beside it stay exact."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sources.change_columns import OFFSET_COLUMN
from sources.changes import RECORD_SCHEMA, ChangeBatch, Decoded, SourceTable
from sources.decode_target import Goal
from sources.formats import FORMATS
from sources.wording import BadReason, bad_reason
from tests.support.feed_mutants import feed_mutant
from tests.support.feed_records import Run, dump
from tests.support.mutants import Record, mutant_count

COUNTS = {"canal": 3000, "ticdc": 1500, "maxwell": 2000, "ogg": 2000, "dms": 1500}
FORMS = {"canal": "canal-json", "ticdc": "canal-json", "maxwell": "maxwell-json", "ogg": "ogg-json", "dms": "dms-json"}
_PER_BATCH = 250


def goals_of(run: Run, decoded: Decoded) -> dict[SourceTable, Goal]:
    """What the pipeline decodes the source tables of some records for."""
    return {o.source: goal for o in decoded.observations if (goal := run.pipeline.decode_targets().get(o.source))}


def rows_by_offset(changes: tuple[ChangeBatch, ...]) -> dict[int, list[tuple[SourceTable, Any]]]:
    found: dict[int, list[tuple[SourceTable, Any]]] = {}
    for change in changes:
        for row in change.rows.drop_columns([c for c in change.rows.column_names if c == "_OTHER_KEY"]).to_pylist():
            row["_UNAVAILABLE"] = row.get("_UNAVAILABLE") or []
            found.setdefault(row.pop(OFFSET_COLUMN), []).append((change.source, str(row)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_no_mutated_record_is_lost(tmp_path: Path, name: str) -> None:
    r = random.Random(COUNTS[name])
    good: list[Record] = dump(name).to_pylist()
    models = [record for record in good if record["value"]]
    decoder = FORMATS[FORMS[name]].decoder({})
    rules = [{"match": {"table": "orders"}, "into": "lake.orders", "primary_key": ["id"]}] if name == "dms" else []
    run = Run(tmp_path, FORMS[name], [dump(name)], *rules)
    goals = goals_of(run, decoder.decode(dump(name), {}))
    expected = rows_by_offset(decoder.decode(dump(name), goals).changes)
    assert goals and expected

    quarantined, reasons, count = 0, set(), mutant_count(COUNTS[name])
    for _ in range(count // _PER_BATCH):
        records = [(False, feed_mutant(r.choice(models), r)) for _ in range(_PER_BATCH)]
        for record in reversed(good):
            records.insert(r.randrange(len(records) + 1), (True, record))
        originals = [record["offset"] for _, record in records]
        numbered = [{**record, "offset": offset} for offset, (_, record) in enumerate(records)]
        decoded = decoder.decode(pa.RecordBatch.from_pylist(numbered, schema=RECORD_SCHEMA), goals)

        assert decoded.refusals == ()
        assert decoded.counts.accounted + decoded.counts.unknown_tables == len(records)
        actual = rows_by_offset(decoded.changes)
        for offset, (is_good, _) in enumerate(records):
            if is_good:
                assert actual.get(offset) == expected.get(originals[offset])
        quarantined += len(decoded.quarantine)
        reasons |= {row.reason for row in decoded.quarantine}

    assert quarantined > count / 10
    assert {reason for reason in reasons if bad_reason(reason) is BadReason.OTHER} == set()
    assert not [reason for reason in reasons if "please report" in reason]
