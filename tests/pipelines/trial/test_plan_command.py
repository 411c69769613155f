"""`tidemark plan` over dump files: what it shows, what it exits with, and that it changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipelines.config.config_file import load_pipeline
from pipelines.trial.preview import preview
from pipelines.trial.trial_pipeline import TrialPipeline
from sources.dumps.dump_records import record_batches_from_dump
from sources.samples import Sample
from tests.stack.paths import PROJECT_DIR
from tests.support.command import Done, tidemark
from tests.support.imports import imported_by

TOPIC = "shop.public.orders"
CAPTURES = PROJECT_DIR / "tests" / "captures"

PIPELINE = """\
version: 1
name: shop
source: { files: { path: dumps }, format: debezium-json }
checkpoint: checkpoint
catalog: { warehouse: warehouse }
tables:
  - match: { table: orders }
    into: lake.orders
    columns: { types: { n: INT } }
"""


def line(offset: int, after: Mapping[str, Any], topic: str = TOPIC, **envelope: Any) -> str:
    """A line of a dump with the insert of a row."""
    value = json.dumps({"op": "c", "before": None, "after": after, **envelope})
    key = json.dumps({"id": after["id"]})
    return json.dumps({"topic": topic, "partition": 0, "offset": offset, "ts": 1000, "key": key, "payload": value})


def write(root: Path, lines: Iterable[str], pipeline: str = PIPELINE) -> Path:
    """The pipeline file, and a dump that it reads."""
    (root / "dumps").mkdir(exist_ok=True)
    (root / "dumps" / "orders.jsonl").write_text("".join(f"{text}\n" for text in lines))
    file = root / "shop.yaml"
    file.write_text(pipeline)
    return file


def ran(root: Path, file: Path) -> None:
    """Bring the dump into the warehouse of the pipeline itself, as a run does, and leave its checkpoint."""
    (batch,) = record_batches_from_dump(str(root / "dumps" / "orders.jsonl"))
    TrialPipeline(load_pipeline(file), root).run(batch)


def planned(file: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of a plan."""
    done = tidemark("plan", file, "--format", "json", *words)
    assert done.stderr == "", done.stderr
    return done.returncode, json.loads(done.stdout)


def everything(root: Path) -> dict[str, tuple[int, str]]:
    """Every file and directory below a directory with its time and content."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(root.rglob("*"))
    }


def test_a_table_that_would_be_made_is_shown_with_its_rows(tmp_path: Path) -> None:
    rows = [{"id": 1, "n": 1, "name": "a", "gone": None}, {"id": 2, "n": "x", "name": "b", "gone": None}]
    file = write(tmp_path, [line(n, row) for n, row in enumerate(rows)])
    done: Done = tidemark("plan", file)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == [
        "Pipeline shop begins with a new checkpoint;"
        " on_bad_record quarantine, on_lost_checkpoint resume, otherwise skip",
        f"Sample: 2 records from {TOPIC}; nothing is written",
        "",
        f"Create table lake.orders from {TOPIC}",
        "  CREATE TABLE `lake`.`orders` (",
        "    `id` BIGINT NOT NULL,  -- guessed from values",
        "    `n` INT,  -- declared",
        "    `name` STRING,  -- guessed from values",
        "    PRIMARY KEY (`id`) NOT ENFORCED",
        "  ) WITH (",
        "    'bucket' = '1'",
        "  );",
        "  buckets: a fixed number of buckets ('bucket' = 1, no option of the file says otherwise)",
        "  policies: on_table_failure pause, max_bad_records nearly all, new_columns 100 a day, then quarantine",
        "  rows as they would be stored, 1 of 1:",
        '    {"id":1,"n":1,"name":"a"}',
        f"  note: column gone of {TOPIC} has only NULLs in the sample: the first value adds it",
        "",
        "To quarantine: 1 record of the sample",
        f'  1 of {TOPIC}: column n INT: string "x" does not fit INT (first: {TOPIC} partition 0 offset 1)',
        "",
        "1 table to create, 0 to change, 0 unchanged",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dumps", "shop.yaml"]


def test_the_document_has_the_same_for_programs(tmp_path: Path) -> None:
    code, document = planned(write(tmp_path, [line(0, {"id": 1, "n": 1})]))
    (table,) = document["tables"]
    assert (code, document["has_changes"], document["sample"]["records"]) == (3, True, 1)
    assert (table["identifier"], table["action"], table["rows"]) == ("lake.orders", "create", [{"id": 1, "n": 1}])
    assert table["columns"] == [
        {"name": "id", "type": "BIGINT NOT NULL", "origin": "guessed from values", "looks_like": None},
        {"name": "n", "type": "INT", "origin": "declared", "looks_like": None},
    ]
    assert document["prerequisites"] == []


@pytest.mark.slow
def test_what_no_rule_takes_and_rules_that_take_nothing_are_named(tmp_path: Path) -> None:
    rules = (
        PIPELINE.replace("types: { n: INT } }", "drop: [secret] }") + "  - match: { table: ordrs }\n    into: lake.x\n"
    )
    lines = [
        line(n, {"id": n}, topic) for n, topic in enumerate([TOPIC, "shop.public.b", "shop.public.a", "shop.public.b"])
    ]
    file = write(tmp_path, lines, rules)
    assert tidemark("plan", file).stdout.splitlines()[-11:-1] == [
        "Skipped of the sample: 3 of skipped tables",
        "",
        "Source tables that no rule matches:",
        "  public.b (topic shop.public.b): 2 records",
        "  public.a (topic shop.public.a): 1 record",
        "",
        "Warnings of a run:",
        f"  rule into lake.orders: columns.drop: 'secret' matches no column of {TOPIC}: correct or remove it;"
        " there are id",
        "  rule into lake.x: no source table matches it (table ordrs): correct or remove it; did you mean 'orders'?",
        "",
    ]
    ran(tmp_path, file)
    lines = [line(n + 4, {"id": n}, "shop.public.b") for n in range(2)]
    file = write(tmp_path, lines, rules)
    assert planned(file)[1]["notes"] == [
        "rule into lake.x: no source table matches it (table ordrs): correct or remove it; did you mean 'orders'?"
    ]


@pytest.mark.parametrize(
    ("topics", "lines", "told"),
    [("", 0, "no record is in "), (", topics: [shop.public.ordres]", 1, "no record of the topics under source.files")],
)
def test_files_without_a_record_to_read_are_told(tmp_path: Path, topics: str, lines: int, told: str) -> None:
    pipeline = PIPELINE.replace("path: dumps", f"path: dumps{topics}")
    assert pipeline.count("path: dumps") == 1
    done = planned(write(tmp_path, [line(0, {"id": 1})] * lines, pipeline))
    (finding,) = done[1]["prerequisites"]
    assert (done[0], finding["level"]) == (0, "warning")
    assert finding["text"].startswith(f"source.files.path: {told}")


def test_a_table_without_a_key_does_not_take_the_buckets_of_the_file(tmp_path: Path) -> None:
    dump = json.dumps({"topic": TOPIC, "partition": 0, "offset": 0, "key": None, "payload": '{"id": 1}'})
    file = write(tmp_path, [dump])
    text = file.read_text().replace("debezium-json", "json").replace("table: orders", f"topic: '{TOPIC}'")
    file.write_text(f"{text}defaults: {{ options: {{ bucket: 3 }} }}\n")

    done: Done = tidemark("plan", file)

    told = "('bucket' = -1, the table has no primary key; 'bucket' of the file is for tables with one)"
    assert f"buckets: no buckets {told}" in done.stdout


@pytest.mark.slow
def test_nothing_is_changed_where_the_tables_are_there(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1}), line(1, {"id": 2, "n": "x"})])
    ran(tmp_path, file)
    before = everything(tmp_path)
    assert len(before) > 20
    code, document = planned(file)
    assert (code, [table["action"] for table in document["tables"]]) == (0, ["keep"])
    assert everything(tmp_path) == before
    write(tmp_path, [line(2, {"id": 3, "n": 1, "more": 1.5})])
    before = everything(tmp_path)
    assert planned(file)[0] == 3
    assert everything(tmp_path) == before


@pytest.mark.parametrize(("finished", "backfill"), [(True, False), (False, False), (True, True)])
def test_a_new_table_lacks_records_that_were_read_before(tmp_path: Path, finished: bool, backfill: bool) -> None:
    """A rule with a misspelt name was corrected after a run."""
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})], PIPELINE.replace("table: orders", "table: ordes"))
    ran(tmp_path, file)
    file.write_text(PIPELINE + ("    backfill: true\n" if backfill else ""))
    topics = frozenset([TOPIC])
    read = tuple(record_batches_from_dump(str(tmp_path / "dumps" / "orders.jsonl")))
    sample = Sample(read, {TOPIC: 1}, passed=topics, finished=topics if finished else frozenset())

    found = preview(load_pipeline(file), sample)

    assert [table.identifier for table in found.tables] == (["lake.orders"] if backfill or not finished else [])
    told = (
        "lake.orders: the pipeline has read topics, but this table has no rows yet. If records before batch 1 belong"
        " in it, set `backfill: true` in the rule to read them too"
    )
    assert found.notes == (() if backfill else (told,))


def test_a_change_of_a_table_is_shown_as_its_statements(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})])
    ran(tmp_path, file)
    text = PIPELINE.replace("n: INT", "n: BIGINT").replace(
        "columns:", "options: { num-sorted-run.compaction-trigger: 3 }\n    columns:"
    )
    write(tmp_path, [line(1, {"id": 2, "n": 1, "price": 1.5})], text)
    code, document = planned(file)
    assert (code, document["tables"][0]["action"]) == (3, "change")
    assert document["tables"][0]["ddl"] == [
        "ALTER TABLE `lake`.`orders` MODIFY (`n` BIGINT);  -- declared",
        "ALTER TABLE `lake`.`orders` ADD (`price` DOUBLE);  -- guessed from values",
        "ALTER TABLE `lake`.`orders` SET ('num-sorted-run.compaction-trigger' = '3');",
    ]
    assert [column["name"] for column in document["tables"][0]["columns"]] == ["n", "price"]


def test_a_rule_that_changes_a_table_is_seen_without_its_records(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})])
    ran(tmp_path, file)
    write(tmp_path, [line(0, {"id": 1}, topic="shop.public.other")], PIPELINE.replace("n: INT", "n: BIGINT"))
    code, document = planned(file)
    assert (code, document["skipped"]) == (3, {"of skipped tables": 1})
    assert document["tables"][0]["ddl"] == ["ALTER TABLE `lake`.`orders` MODIFY (`n` BIGINT);  -- declared"]


def test_a_mask_that_leaves_older_rows_open_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "name": "ann"})])
    ran(tmp_path, file)
    other = line(0, {"id": 1}, topic="shop.public.other")
    write(tmp_path, [other], PIPELINE.replace("columns: {", "columns: { mask: { name: redact },"))
    (note,) = planned(file)[1]["notes"]
    assert note.startswith("table lake.orders: columns.mask hides column name from now on. Existing rows keep")


@pytest.mark.slow
def test_each_type_says_where_it_comes_from(tmp_path: Path) -> None:
    rules = "otherwise: { create: { into: 'lake.{table}' } }\n"
    guessed = line(0, {"id": 1, "at": 1_767_592_800_000_000, "text": "x"}, topic="shop.public.plain")
    file = write(tmp_path, [guessed], PIPELINE.split("tables:")[0] + rules)
    (tmp_path / "dumps" / "schema.jsonl.gz").write_bytes((CAPTURES / "shop_schema.jsonl.gz").read_bytes())
    _, document = planned(file)
    origins = {t["identifier"]: {c["name"]: (c["type"], c["origin"]) for c in t["columns"]} for t in document["tables"]}
    assert origins["lake.orders"]["total"] == ("DECIMAL(10, 2)", "schema of the records")
    assert origins["lake.orders"]["id"] == ("BIGINT NOT NULL", "schema of the records")
    assert origins["lake.plain"]["id"] == ("BIGINT NOT NULL", "guessed from values")
    looks = "guessed from values, which look like epoch microseconds: TIMESTAMP(6)"
    assert origins["lake.plain"]["at"] == ("BIGINT", looks)


@pytest.mark.slow
def test_what_would_stop_the_pipeline_is_an_error(tmp_path: Path) -> None:
    bad = [line(0, {"id": 1, "n": 1}), line(1, {"id": 2, "n": "x"})]
    code, document = planned(write(tmp_path, bad, PIPELINE.replace("json }", "json, on_bad_record: fail }")))
    assert code == 1
    assert document["prerequisites"] == [
        {
            "level": "error",
            "text": f"on_bad_record: fail: the pipeline would stop at the bad record {TOPIC} partition 0 offset 1;"
            " fix the record, or the pipeline file, before a run",
        }
    ]
    lines = [line(n, {"id": n, "n": "x"}) for n in range(4)]
    code, document = planned(write(tmp_path, lines))
    assert (code, list(document["paused"])) == (1, ["lake.orders"])


def test_a_table_that_does_not_fit_its_rule_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})])
    ran(tmp_path, file)
    file.write_text(PIPELINE.replace("columns:", "primary_key: [id, n]\n    columns:"))
    done = tidemark("plan", file)
    assert done.returncode == 1
    told = "\nPrerequisites:\n  error: table lake.orders exists with primary_key [id], the rule wants [id, n]"
    assert told in done.stdout
    assert done.stdout.endswith("; 1 prerequisite not met\n")


def test_an_option_that_misspells_a_column_of_the_records_says_what_may_be_meant(tmp_path: Path) -> None:
    options = "options: { sequence.field: updatd }\n    columns:"
    file = write(tmp_path, [line(0, {"id": 1, "n": 1, "updated": 5})], PIPELINE.replace("columns:", options))
    done = tidemark("plan", file)
    assert "'updatd', which the first events of shop.public.orders do not have (did you mean 'updated'?)" in done.stdout


def test_a_checkpoint_of_another_pipeline_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})])
    ran(tmp_path, file)
    file.write_text(PIPELINE.replace("name: shop", "name: other"))
    code, document = planned(file)
    assert code == 1
    assert "belongs to pipeline shop" in document["prerequisites"][0]["text"]


def test_a_place_that_takes_no_files_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, [line(0, {"id": 1, "n": 1})])
    (tmp_path / "warehouse").mkdir()
    monkeypatch.setattr("os.access", lambda path, _mode: not str(path).endswith("warehouse"))
    code, document = planned(file)
    assert code == 1
    (finding,) = document["prerequisites"]
    assert finding["text"].startswith(f"catalog.warehouse ({tmp_path}/warehouse) cannot be written")


def test_a_source_without_files_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, [], PIPELINE.replace("path: dumps", "path: 'none/*.jsonl'"))
    done = tidemark("plan", file)
    assert done.returncode == 1
    assert f"error: source.files.path: no file matches {tmp_path}/none/*.jsonl" in done.stdout


def test_a_reason_stands_once_and_with_its_remedy(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("debezium-json", "canal-json").replace("    columns: { types: { n: INT } }\n", "")
    lines = [line(n, {"id": n}, source={"table": "orders"}) for n in range(4)]
    reason = "value is not a record of Canal but an envelope of Debezium: set source.format to debezium-json"
    paused = tidemark("plan", write(tmp_path, lines, pipeline)).stdout
    quarantined = tidemark("plan", write(tmp_path, lines[:2], pipeline)).stdout
    stopped = tidemark(
        "plan", write(tmp_path, lines, pipeline.replace("-json }", "-json, on_bad_record: fail }"))
    ).stdout
    assert [text.count(reason) for text in (paused, quarantined, stopped)] == [1, 1, 1]
    assert "error: table lake.orders would be paused: nearly all records are bad" in paused


@pytest.mark.parametrize("key", ["", "    primary_key: [id]\n"])
def test_envelopes_that_are_read_as_rows_are_told_with_their_format(tmp_path: Path, key: str) -> None:
    pipeline = PIPELINE.replace("debezium-json", "json").replace("    columns: { types: { n: INT } }\n", key)
    file = write(tmp_path, [line(n, {"id": n}, source={"table": "orders"}) for n in range(2)], pipeline)
    code, document = planned(file)
    assert code == 1
    assert [found["text"] for found in document["prerequisites"]] == [
        f"the pipeline would stop: {TOPIC}: its records are envelopes of Debezium (op, before, after, source), not"
        " rows; set source.format to debezium-json, or to debezium-avro if they are in Avro. To store them as "
        "they are, set `mode: append`"
    ]
    file.write_text(pipeline.replace(key, "    mode: append\n") if key else pipeline + "    mode: append\n")
    assert planned(file)[0] == 3


def flat(root: Path, rule: str) -> tuple[int, list[str]]:
    """The exit code, and what a plan says of a rule for flattened rows of MySQL without `__db`."""
    record = {"topic": "crm.eu.staff", "partition": 0, "ts": 0, "key": '{"id": 1}', "payload": '{"id": 1, "__op": "c"}'}
    rules = f"  - match: {{ table: staff }}\n    into: lake.staff\n{rule}"
    pipeline = PIPELINE.replace("debezium-json", "upsert-json").partition("  - match")[0]
    code, found = planned(write(root, [json.dumps({**record, "offset": n}) for n in range(3)], pipeline + rules))
    return code, [*found["notes"], *(one["text"] for one in found["prerequisites"])]


LACK = (
    "neither the records of topic crm.eu.staff nor its name show the database; let the connector write it"
    " (`add.fields=db` of ExtractNewRecordState, format upsert-json or -avro), or take "
)


@pytest.mark.slow
def test_a_database_that_flattened_rows_do_not_name_is_told_with_its_remedy(tmp_path: Path) -> None:
    code, told = flat(tmp_path, "    columns: { add: { shard: $database } }\n")
    assert (code, told) == (
        3,
        [f"crm.eu.staff: rule into lake.staff: column shard: $database is NULL: {LACK}$schema, which is eu"],
    )
    code, told = flat(tmp_path, "    primary_key: [shard, id]\n    columns: { add: { shard: $database } }\n")
    assert code == 1
    key = "column shard of the primary key would be NULL"
    assert [f"{key}: {LACK}$schema, which is eu" in text for text in told] == [True]
    both = "    columns: { add: { shard: 'coalesce($database, $schema)' } }\n"
    assert flat(tmp_path, both) == (3, [])
    assert flat(tmp_path, "    columns: { add: { shard: $schema } }\n") == (3, [])


def test_a_match_of_a_database_that_rows_do_not_name_is_told_with_its_remedy(tmp_path: Path) -> None:
    more = "  - match: { database: eu, table: staff|x }\n    into: lake.eu\n"
    assert flat(tmp_path, more)[1] == [
        f"rule into lake.eu: no source table matches it (database eu, table staff|x): {LACK}`match.schema`, which is eu"
    ]


def test_a_line_that_is_no_record_goes_to_quarantine(tmp_path: Path) -> None:
    code, document = planned(write(tmp_path, [line(0, {"id": 1, "n": 1}), "{"]))
    assert code == 3
    assert "the line is not JSON" in document["quarantine"][0]["reason"]


def test_a_sample_of_bad_records_alone_is_an_error(tmp_path: Path) -> None:
    """Also where the file lets any number of them into the quarantine."""
    pipeline = PIPELINE.replace("n: INT", "n: 'DATE'") + "    max_bad_records: null\n"
    bad = [line(n, {"id": n, "n": "x"}) for n in range(3)]
    tombstone = json.dumps({"topic": TOPIC, "partition": 0, "offset": 9, "ts": 1, "key": '{"id": 1}', "payload": None})
    code, document = planned(write(tmp_path, [*bad, tombstone], pipeline))
    (finding,) = document["prerequisites"]
    assert (code, finding["level"]) == (1, "error")
    assert finding["text"].startswith("no record of the sample gives a row, and 3 records would go to quarantine; ")

    others = [line(n, {"id": n, "n": 1}, topic="shop.public.other") for n in range(2)]
    pipeline = pipeline + "  - match: { table: other }\n    into: lake.other\n"
    code, document = planned(write(tmp_path, [*bad, *others], pipeline))
    (finding,) = document["prerequisites"]
    assert (code, finding["level"]) == (3, "warning")
    assert finding["text"] == f"all sampled records of topic {TOPIC} (3) would go to quarantine"


def test_a_sample_has_the_first_and_the_newest_records(tmp_path: Path) -> None:
    lines = [line(n, {"id": n, "n": n}) for n in range(20)] + [line(20, {"id": 20, "n": 1, "late": True})]
    code, document = planned(write(tmp_path, lines), "--records", "4")
    assert (code, document["sample"]) == (3, {"records": 4, "topics": {TOPIC: 21}})
    assert [row["id"] for row in document["tables"][0]["rows"]] == [0, 1, 19]
    assert "late" in [column["name"] for column in document["tables"][0]["columns"]]


@pytest.mark.slow
def test_a_plan_needs_no_spark(tmp_path: Path) -> None:
    code, modules = imported_by("plan", str(write(tmp_path, [line(0, {"id": 1, "n": 1})])))
    assert code == 3
    assert not modules & {"pyspark", "py4j"}


SHARDS = """\
version: 1
name: items
source: { files: { path: dumps }, format: debezium-json }
checkpoint: checkpoint
catalog: { warehouse: warehouse }
tables:
  - match: { table: items }
    into: lake.items
    primary_key: [shard, id]
    merge_sources: disjoint_keys
    columns: { add: { shard: $topic }, rename: { x: amount }, types: {} }
"""
SCHEMA_OF_X = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}


def of_shard(number: int, x: object, of_x: str | None) -> str:
    """A row of a shard; with the type of its column x where the records tell it."""
    topic, after = f"shop_{number}.public.items", {"id": 1, "x": x}
    text = line(0, after, topic)
    if of_x is None:
        return text
    row = {**SCHEMA_OF_X, "fields": [*SCHEMA_OF_X["fields"], {"field": "x", "type": of_x}]}
    fields = [{**row, "field": "after"}, {"field": "op", "type": "string"}]
    record = json.loads(text)
    value = {"schema": {"type": "struct", "fields": fields}, "payload": json.loads(record["payload"])}
    return json.dumps({**record, "payload": json.dumps(value)})


WHERE = [f"public.items (topic shop_{number}.public.items)" for number in (1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "types", "told"),
    [
        ((5, None), ("a", None), "", ("BIGINT", "STRING", "BIGINT: values of STRING that do not fit go to quarantine")),
        ((5, "int32"), ("a", "string"), "", ("INT", "STRING", "INT: values of STRING that do not fit")),
        ((5, "int32"), (6, "int64"), "", ("INT", "BIGINT", "BIGINT, which holds all of them")),
        ((5, "int32"), ("a", "string"), "amount: STRING", ("INT", "STRING", "STRING, which holds all of them")),
        ((5, None), ("a", None), "amount: STRING", None),
        ((5, "int32"), (6, "int32"), "", None),
    ],
)
def test_columns_whose_types_differ_among_shards_are_named(
    tmp_path: Path,
    first: tuple[object, str | None],
    second: tuple[object, str | None],
    types: str,
    told: tuple[str, str, str] | None,
) -> None:
    rows = [of_shard(1, *first), of_shard(2, *second)]
    file = write(tmp_path, rows, SHARDS.replace("types: {}", f"types: {{ {types} }}"))
    _, document = planned(file)
    (table,) = document["tables"]
    if told is None:
        assert table["notes"] == []
        return
    (note,) = table["notes"]
    start = f"column amount is {told[0]} in {WHERE[0]}; {told[1]} in {WHERE[1]}. The table has {told[2]}"
    assert note.startswith(start)
    stored = next(column["type"] for column in table["columns"] if column["name"] == "amount")
    assert f"The table has {stored}" in note
    assert bool(document["quarantine"]) == ("quarantine" in note)


def test_topics_are_read_in_the_formats_that_the_checkpoint_keeps(tmp_path: Path) -> None:
    """The newer records look like another format: a run sends them to quarantine, and so does the plan."""
    auto = PIPELINE.replace("debezium-json", "auto").replace("columns: { types: { n: INT } }", "")
    file = write(tmp_path, [line(n, {"id": n, "n": n}) for n in range(2)], auto)
    ran(tmp_path, file)
    rows = [{"topic": TOPIC, "partition": 0, "offset": n, "key": '{"id": 7}', "payload": '{"id": 7}'} for n in (2, 3)]
    write(tmp_path, map(json.dumps, rows), auto)

    _, plan = planned(file)

    assert [(kind["topic"], kind["count"]) for kind in plan["quarantine"]] == [(TOPIC, 2)]
    assert "is not a Debezium envelope" in plan["quarantine"][0]["reason"]
