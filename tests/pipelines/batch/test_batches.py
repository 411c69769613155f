"""What the tables of a pipeline contain after batches: captures, bad records, replays, lost checkpoints."""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import ConfigError, SchemaChangeRefused
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import newest_position
from sources.changes import RECORD_SCHEMA
from tests.support.changelog import replay_strictly
from tests.support.events import History, records_of
from tests.support.local_batches import (
    ALL_TABLES,
    dump_batches,
    pipeline_tables,
    processed,
    run_batches,
    shop_rules,
    task_settings,
)
from tests.support.replay import CAPTURES, final_rows
from tests.support.source_content import assert_equals_source, open_table


@pytest.mark.slow
@pytest.mark.parametrize("records", [10_000, 150])
@pytest.mark.parametrize(("capture", "rules"), [("shop_schema", ALL_TABLES), ("shop_plain", shop_rules())])
def test_captured_shop_equals_its_source(
    tmp_path: Path, capture: str, rules: list[dict[str, object]], records: int
) -> None:
    tables = pipeline_tables(tmp_path, rules, **{"changelog-producer": "lookup"})

    quarantine = run_batches(tables, dump_batches(CAPTURES / f"{capture}.jsonl.gz", records), tmp_path)

    for name, key in (("customers", ["id"]), ("orders", ["id"]), ("order_items", ["order_id", "line_no"])):
        table = open_table(tables, name)
        assert_equals_source(table, "shop", name, key, set())
        changes = replay_strictly((rows for _, rows in table.changes()), key)
        assert len(changes) == len(table.to_arrow())
    assert not Path(quarantine.path).exists()


@pytest.mark.slow
def test_schema_evolution_of_a_capture_is_followed_without_a_restart(tmp_path: Path) -> None:
    exact: list[dict[str, object]] = [
        {"match": {"schema": "public", "table": "acct|acct_full|late"}, "into": "lake.{table}"}
    ]
    tables = pipeline_tables(tmp_path, exact)

    run_batches(tables, dump_batches(CAPTURES / "evolve_schema.jsonl.gz", 7), tmp_path)

    acct = open_table(tables, "acct")
    assert str(acct.schema.field("balance").type) == "DECIMAL(21, 2)"
    assert_equals_source(acct, "evolve", "acct", ["id"], {"title"})
    assert_equals_source(open_table(tables, "acct_full"), "evolve", "acct_full", ["id"], {"title"})
    assert_equals_source(open_table(tables, "late"), "evolve", "late", ["id"], set())


def test_truncate_stops_the_pipeline_with_its_place(tmp_path: Path) -> None:
    tables = pipeline_tables(tmp_path, [{"match": {"table": "wiped"}, "into": "lake.wiped"}])

    with pytest.raises(
        SchemaChangeRefused, match=r"evolve_plain\.public\.wiped.* partition 0 offset \d+: .*truncate: apply"
    ):
        processed(tables, dump_batches(CAPTURES / "evolve_plain.jsonl.gz", 10_000), task_settings(tmp_path))

    assert tables.sinks["lake.wiped"].table.snapshots.latest_id() is None


@pytest.mark.slow
def test_unchanged_toast_values_are_filled_from_the_table(tmp_path: Path) -> None:
    rule: list[dict[str, object]] = [{"match": {"table": "varied"}, "into": "lake.varied"}]
    tables = pipeline_tables(tmp_path, rule, **{"changelog-producer": "lookup"})

    run_batches(tables, dump_batches(CAPTURES / "types_schema.jsonl.gz", 3), tmp_path)

    table = open_table(tables, "varied")
    types = {"id": table.schema.field("id").type, "ltoast": table.schema.field("ltoast").type}
    expected = {row["id"]: row["ltoast"] for row in final_rows("types", "varied", types)}
    assert {row["id"]: row["ltoast"] for row in table.to_arrow().to_pylist()} == expected
    assert any(len(text or "") > 1000 for text in expected.values())


def test_bad_records_go_to_quarantine_whole_and_once(tmp_path: Path) -> None:
    good = History("orders", seed=3).extend(20)
    source = b'"source":{"db":"shop","schema":"public","table":"orders"}'
    bad_values = [b"{broken", b'{"op":"x"}', b'{"after":{"id":"text"},"op":"c",' + source + b"}"]
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    batches = [records_of(good), raw_records(good.topic, 1, 1000, bad_values)]

    for _ in range(2):
        quarantine = run_batches(tables, batches, tmp_path)

    assert {row["id"]: row for row in open_table(tables, "orders").to_arrow().to_pylist()} == good.rows
    files = list(Path(quarantine.directory(1)).iterdir())
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted((line["partition"], line["offset"]) for line in lines) == [(1, 1000), (1, 1001), (1, 1002)]
    assert all(line["reason"] and line["payload"] for line in lines)


def test_a_quarantined_record_is_mended_and_read_as_a_dump(tmp_path: Path) -> None:
    good = History("orders", seed=3).extend(20)
    source = '"source":{"db":"shop","schema":"public","table":"orders"}'
    value = '{"op":"c","before":null,"after":{"id":904,"name":"mended","amount":"zwei","step":1},' + source + "}"
    key = pa.array([b'{"id":904}'], pa.binary())
    broken = raw_records(good.topic, 0, 1000, [value.encode()]).set_column(4, "key", key)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    quarantine = run_batches(tables, [records_of(good), broken], tmp_path)
    (file,) = Path(quarantine.directory(1)).iterdir()

    mended = tmp_path / "mended.jsonl"
    mended.write_text(file.read_text().replace(r"\"zwei\"", "2"))
    redrive = PipelineTables(tables.config.model_copy(update={"name": "redrive"}), "tidemark-redrive-test")
    run_batches(redrive, dump_batches(mended, 10), tmp_path / "redrive")

    rows = {row["id"]: row for row in open_table(tables, "orders").to_arrow().to_pylist()}
    assert rows.pop(904) == {"id": 904, "name": "mended", "amount": 2, "step": 1}
    assert rows == good.rows
    assert not list((tmp_path / "redrive" / "quarantine").glob("*/*"))


def test_a_line_that_is_no_record_goes_to_quarantine_and_is_counted(tmp_path: Path) -> None:
    (tmp_path / "dump.jsonl").write_text('{"topic":"t","partition":0,"offset":0,"valeu":"{}"}\n')
    tables = pipeline_tables(tmp_path, ALL_TABLES)

    quarantine = run_batches(tables, dump_batches(tmp_path / "dump.jsonl", 10), tmp_path)

    (file,) = Path(quarantine.directory(0)).iterdir()
    line = json.loads(file.read_text())
    assert line["reason"].startswith(f"byte 0 of {tmp_path}/dump.jsonl: unknown field 'valeu'")


def test_a_batch_that_runs_again_changes_nothing(tmp_path: Path) -> None:
    history = History("orders", seed=4).extend(200)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})
    run_batches(tables, [records_of(history)], tmp_path)
    before = open_table(tables, "orders").snapshots.latest_id()

    again = PipelineTables(tables.config, tables.commit_user)
    run_batches(again, [records_of(history)], tmp_path)

    assert open_table(tables, "orders").snapshots.latest_id() == before


@pytest.mark.slow
def test_a_lost_checkpoint_resumes_from_the_offsets_in_the_table(tmp_path: Path) -> None:
    history = History("orders", seed=5, partitions=1).extend(300)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})
    run_batches(tables, [records_of(history)], tmp_path)
    history.extend(300)

    fresh = PipelineTables(tables.config, "tidemark-shop-another-checkpoint")
    run_batches(fresh, [records_of(history)], tmp_path)

    table = open_table(tables, "orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    replay_strictly((rows for _, rows in table.changes()), ["id"])
    sequence = [f.max_sequence_number for files in fresh.sinks["lake.orders"].state.files.values() for f in files]
    assert sum(number + 1 for number in sequence) <= sum(1 for _, _, envelope in history.events if envelope)


@pytest.mark.slow
def test_what_a_new_checkpoint_took_over_stays_dropped_after_a_restart(tmp_path: Path) -> None:
    history = History("orders", seed=12, partitions=1).extend(200)
    rules = [{**rule, "merge_sources": "same_rows"} for rule in ALL_TABLES]
    tables = pipeline_tables(tmp_path, rules, **{"changelog-producer": "lookup"})
    run_batches(tables, [records_of(history)], tmp_path)
    other = History("orders", seed=13, partitions=1, keys=7).extend(30)
    second_topic = raw_copy(records_of(other), "shop2.public.orders")

    run_batches(PipelineTables(tables.config, "new"), [second_topic], tmp_path)
    run_batches(PipelineTables(tables.config, "new"), [records_of(history)], tmp_path, first_batch_id=1)

    table = open_table(tables, "orders")
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    untouched = {key: row for key, row in history.rows.items() if key >= 14}
    assert {key: row for key, row in rows.items() if key >= 14} == untouched
    snapshots = [table.snapshots.read(i) for i in range(1, (table.snapshots.latest_id() or 0) + 1)]
    assert [s.commit_identifier for s in snapshots if s.commit_user == "new"] == [0, 0]


def test_rows_of_a_topic_that_was_made_anew_are_not_taken_for_those_of_the_old_one(tmp_path: Path) -> None:
    history = History("orders", seed=12, partitions=1).extend(200)
    read = {history.topic: "id-1"}
    config = pipeline_tables(tmp_path, ALL_TABLES).config
    tables = PipelineTables(config, "first", topic_ids=lambda: read)
    run_batches(tables, [records_of(history)], tmp_path)

    read = {history.topic: "id-2"}
    anew = History("orders", seed=13, partitions=1, keys=50).extend(20)
    taken_over = PipelineTables(config, "second", topic_ids=lambda: read)
    run_batches(taken_over, [records_of(anew)], tmp_path)

    table = open_table(tables, "orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()}.items() >= anew.rows.items()
    position = newest_position(table.snapshots, "shop")
    assert position is not None and position.topics == read
    assert position.offsets == {(anew.topic, 0): len(anew.events)} and not position.floors


def test_dump_files_with_older_offsets_are_applied_after_a_restart(tmp_path: Path) -> None:
    """Files appear in any order; offsets of an earlier batch of the same checkpoint drop nothing."""
    newer, older = History("orders", seed=14, partitions=1), History("orders", seed=15, partitions=1, keys=50)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    run_batches(tables, [records_of(newer.extend(300))], tmp_path)

    again = PipelineTables(tables.config, tables.commit_user)
    run_batches(again, [records_of(older.extend(40))], tmp_path, first_batch_id=1)

    rows = {row["id"]: row for row in open_table(tables, "orders").to_arrow().to_pylist()}
    assert {key: rows[key] for key in older.rows} == older.rows


def test_a_lost_checkpoint_can_stop_the_pipeline(tmp_path: Path) -> None:
    history = History("orders", seed=6).extend(10)
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    run_batches(tables, [records_of(history)], tmp_path)
    config = tables.config.model_copy(update={"on_lost_checkpoint": "fail"})

    with pytest.raises(ConfigError, match="written under another checkpoint of pipeline shop"):
        run_batches(PipelineTables(config, "tidemark-shop-other"), [records_of(history)], tmp_path)


@pytest.mark.slow
def test_a_restart_says_for_every_table_that_its_old_rows_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    histories = [History("orders", seed=6).extend(10), History("items", seed=6).extend(10)]
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    run_batches(tables, map(records_of, histories), tmp_path)
    config = tables.config.model_copy(update={"on_lost_checkpoint": "restart"})

    PipelineTables(config, "tidemark-shop-other")

    told = [message for message in caplog.messages if "reads its topics again from `start`" in message]
    assert sorted(message.split(":")[0] for message in told) == ["lake.items", "lake.orders"]
    caplog.clear()
    run_batches(PipelineTables(config, "tidemark-shop-other"), [records_of(histories[0])], tmp_path)
    caplog.clear()
    PipelineTables(config, "tidemark-shop-other")
    assert [m.split(":")[0] for m in caplog.messages if "reads its topics again from `start`" in m] == ["lake.items"]


def test_a_table_that_no_rule_matches_follows_otherwise(tmp_path: Path) -> None:
    history = History("orders", seed=7).extend(10)
    rules: list[dict[str, object]] = [{"match": {"table": "customers"}, "into": "lake.customers"}]
    skipping = pipeline_tables(tmp_path / "skip", rules)
    run_batches(skipping, [records_of(history)], tmp_path / "skip")
    assert not (tmp_path / "skip" / "warehouse").exists()

    config = skipping.config.model_copy(update={"otherwise": type(skipping.config.otherwise).model_validate("fail")})
    with pytest.raises(ConfigError, match=r"shop\.public\.orders: no rule of pipeline shop matches table orders"):
        run_batches(PipelineTables(config, "user"), [records_of(history)], tmp_path / "fail")


def test_a_topic_without_keys_needs_a_primary_key(tmp_path: Path) -> None:
    value = b'{"before":null,"after":{"a":1},"source":{"db":"shop","schema":"public","table":"plain"},"op":"c"}'
    tables = pipeline_tables(tmp_path, [{**rule, "mode": "upsert"} for rule in ALL_TABLES])

    with pytest.raises(ConfigError, match="its messages have no key"):
        run_batches(tables, [raw_records("shop.public.plain", 0, 0, [value])], tmp_path)


def raw_copy(batch: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """The same records under another topic."""
    rows = [{**row, "topic": topic} for row in batch.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def raw_records(topic: str, partition: int, first_offset: int, values: list[bytes]) -> pa.RecordBatch:
    """Records without keys in one partition."""
    rows: list[dict[str, Any]] = [
        {"topic": topic, "partition": partition, "offset": offset, "timestamp": 0, "key": None, "value": value}
        for offset, value in enumerate(values, first_offset)
    ]
    return pa.RecordBatch.from_pylist([{**row, "headers": None} for row in rows], schema=RECORD_SCHEMA)


@pytest.mark.parametrize("cuts", [[10], [4, 10], [2, 10], [4, 5, 7, 9, 10]])
def test_a_moved_row_keeps_the_values_that_its_key_change_did_not_send(tmp_path: Path, cuts: list[int]) -> None:
    """Row 2 is replaced; then row 1 (body A) moves to 5, row 2 (body C) to 1, row 5 to 2 without a body."""
    hidden = "__debezium_unavailable_value"
    steps: list[tuple[int, int | None, str | None]] = [
        (1, None, "A"),
        (2, None, "B"),
        *((2, None, None), (2, None, "C")),
        *((1, 5, None), (5, 1, hidden)),
        *((2, 1, None), (1, 2, hidden)),
        *((5, 2, None), (2, 5, hidden)),
    ]
    records = pa.concat_tables(
        [pa.Table.from_batches([body_record(offset, *step)]) for offset, step in enumerate(steps)]
    ).combine_chunks()
    slices = [records.slice(start, end - start) for start, end in pairwise([0, *cuts])]
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})

    run_batches(tables, [part.to_batches()[0] for part in slices], tmp_path)

    rows = {row["id"]: row["body"] for row in open_table(tables, "documents").to_arrow().to_pylist()}
    assert rows == {1: "C", 2: "A"}


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [cuts for count in range(6) for cuts in combinations(range(1, 6), count)], ids=str)
def test_a_row_that_goes_on_as_its_batch_ends_takes_its_values_along(tmp_path: Path, cuts: tuple[int, ...]) -> None:
    hidden = "__debezium_unavailable_value"
    steps = [(1, None, "old"), (1, None, "new"), (1, 2, None), (2, 1, hidden), (2, 3, None), (3, 2, hidden)]
    records = [body_record(offset, *step) for offset, step in enumerate(steps)]
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})
    joined = [
        pa.Table.from_batches(records[start:end]).combine_chunks().to_batches()[0]
        for start, end in pairwise([0, *cuts, len(steps)])
    ]

    for batch_id, batch in enumerate(joined):
        run_batches(tables, [batch], tmp_path, batch_id)
        tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})

    assert open_table(tables, "documents").to_arrow().to_pylist() == [{"id": 3, "body": "new"}]


@pytest.mark.parametrize(
    ("cut", "between"),
    [(1, 0), (2, 0), (3, 0), *(pytest.param(cut, 25, marks=pytest.mark.slow) for cut in (1, 4))],
)
def test_a_key_change_that_comes_again_leaves_the_moved_row_its_values(tmp_path: Path, cut: int, between: int) -> None:
    """A connector that was killed sends its last records again: row 1 went to 2 meanwhile, and another row 1 came."""
    hidden = "__debezium_unavailable_value"
    steps = [(1, None, "old"), (1, 2, None), (2, 1, hidden), (1, None, "young")]
    again = [*steps[1:], (9, None, "end")]
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup"})
    others: list[list[tuple[int, int | None, str | None]]] = [[(5, None, f"{n}")] for n in range(between)]
    offset = 0

    for batch_id, batch in enumerate([steps, *others, again[:cut], again[cut:]]):
        records = [body_record(offset + n, *step) for n, step in enumerate(batch)]
        offset += len(batch)
        joined = pa.Table.from_batches(records, schema=RECORD_SCHEMA).combine_chunks().to_batches()
        run_batches(tables, joined, tmp_path, batch_id)

    rows = {row["id"]: row["body"] for row in open_table(tables, "documents").to_arrow().to_pylist() if row["id"] < 5}
    assert rows == {1: "young", 2: "old"}


@pytest.mark.parametrize("options", [{"ignore-delete": "true"}, {"merge-engine": "first-row", "ignore-delete": "true"}])
def test_a_moved_row_takes_no_values_of_a_row_that_its_table_kept(tmp_path: Path, options: dict[str, str]) -> None:
    steps = [(1, None, "one"), (2, None, "two"), (2, None, None), (1, 2, None), (2, 1, "__debezium_unavailable_value")]
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"changelog-producer": "lookup", **options})

    for batch_id, step in enumerate(steps):
        run_batches(tables, [body_record(batch_id, *step)], tmp_path, batch_id)

    rows = {row["id"]: row["body"] for row in open_table(tables, "documents").to_arrow().to_pylist()}
    assert rows == {1: "one", 2: "two" if "merge-engine" in options else "one"}


@pytest.mark.parametrize(
    ("stored", "body", "told"),
    [
        (["old"], "old", "what may be an older value was written for 1 value"),
        ([], None, "NULL was written for 1 value"),
    ],
)
def test_a_moved_row_that_overtakes_its_old_key_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stored: list[str], body: str | None, told: str
) -> None:
    """The old key's last change and its deletion lie in a partition of the topic that is read later."""
    hidden = "__debezium_unavailable_value"
    tables = pipeline_tables(tmp_path, ALL_TABLES)
    first = [body_record(0, 9, None, "other"), *(body_record(offset, 1, None, b) for offset, b in enumerate(stored, 1))]
    overtaking = body_record(0, 2, 1, hidden, partition=1)
    late = [body_record(offset, 1, *change) for offset, change in enumerate([(None, "new"), (2, None)], 2)]

    for batch_id, batch in enumerate([first, [overtaking], late]):
        joined = pa.Table.from_batches(batch).combine_chunks().to_batches()
        run_batches(tables, joined, tmp_path, batch_id)

    rows = {row["id"]: row["body"] for row in open_table(tables, "documents").to_arrow().to_pylist()}
    assert rows == {9: "other", 2: body}
    (text,) = [record.getMessage() for record in caplog.records if "did not send" in record.getMessage()]
    assert told in text and "documents" in text and "'body': 1" in text and "one partition" in text


def body_record(offset: int, key: int, other_key: int | None, body: str | None, partition: int = 0) -> pa.RecordBatch:
    """A create (a body) or a delete (none) of a row of `documents`, maybe a move from or to another key."""
    after = None if body is None else {"id": key, "body": body}
    before = {"id": key, "body": None} if body is None else None
    source = {"db": "shop", "schema": "public", "table": "documents"}
    envelope = {"before": before, "after": after, "source": source, "op": "d" if body is None else "c"}
    header = "__debezium.newkey" if body is None else "__debezium.oldkey"
    headers = [] if other_key is None else [{"key": header, "value": json.dumps({"id": other_key}).encode()}]
    row = {
        "topic": "shop.public.documents",
        "partition": partition,
        "offset": offset,
        "timestamp": 0,
        "headers": headers,
    }
    row |= {"key": json.dumps({"id": key}).encode(), "value": json.dumps(envelope).encode()}
    return pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA)


@pytest.mark.parametrize("size", [3, 1])
def test_a_delete_with_a_made_up_before_deletes_under_a_sequence_field(tmp_path: Path, size: int) -> None:
    """PostgreSQL's default replica identity sends only the key of a deleted row; Debezium makes up the rest."""
    source = {"db": "shop", "schema": "public", "table": "items"}
    images: list[tuple[str, object, object]] = [
        ("c", None, {"id": 1, "version": 7}),
        ("c", None, {"id": 2, "version": 8}),
        ("d", {"id": 1, "version": 0}, None),
    ]
    values = [
        json.dumps({"before": before, "after": after, "source": source, "op": op}).encode()
        for op, before, after in images
    ]
    keys = [b'{"id":1}', b'{"id":2}', b'{"id":1}']
    records = raw_records("shop.public.items", 0, 0, values).to_pylist()
    batch = pa.RecordBatch.from_pylist([{**r, "key": k} for r, k in zip(records, keys, strict=True)], RECORD_SCHEMA)
    tables = pipeline_tables(tmp_path, ALL_TABLES, **{"sequence.field": "version", "changelog-producer": "lookup"})

    run_batches(tables, [batch.slice(at, size) for at in range(0, 3, size)], tmp_path)

    assert open_table(tables, "items").to_arrow().to_pylist() == [{"id": 2, "version": 8}]


@pytest.mark.parametrize("size", [3, 1])
def test_an_unsent_value_is_not_aggregated_again(tmp_path: Path, size: int) -> None:
    """Of an unchanged TOAST column nothing new arrived: the text is not appended once more, the flag stays."""
    source = {"db": "shop", "schema": "public", "table": "notes"}
    hidden = "__debezium_unavailable_value"
    afters = [
        {"id": 1, "body": "A", "last": "x"},
        {"id": 1, "body": hidden, "last": hidden},
        {"id": 1, "body": "B", "last": hidden},
    ]
    values = [
        json.dumps({"before": None, "after": after, "source": source, "op": op}).encode()
        for op, after in zip("cuu", afters, strict=True)
    ]
    records = raw_records("shop.public.notes", 0, 0, values).to_pylist()
    batch = pa.RecordBatch.from_pylist([{**r, "key": b'{"id":1}'} for r in records], RECORD_SCHEMA)
    types = {"body": "STRING", "last": "STRING"}
    rules: list[dict[str, object]] = [{"match": {"table": "notes"}, "into": "lake.notes", "columns": {"types": types}}]
    functions = {"fields.body.aggregate-function": "listagg", "fields.last.aggregate-function": "last_value"}
    tables = pipeline_tables(tmp_path, rules, **{"merge-engine": "aggregation", **functions})

    run_batches(tables, [batch.slice(at, size) for at in range(0, 3, size)], tmp_path)

    assert open_table(tables, "notes").to_arrow().to_pylist() == [{"id": 1, "body": "A,B", "last": "x"}]
