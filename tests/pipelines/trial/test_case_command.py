"""`tidemark test` as its users call it: cases that hold, cases that do not, and files that are wrong."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.command import tidemark, tidemark_process
from tests.support.imports import ROOT, imported_by

PIPELINE = """\
version: 1
name: shop
source: { kafka: { bootstrap_servers: '${env:BROKER}', topics: [shop.public.orders] }, format: debezium-json }
checkpoint: state
catalog: { warehouse: lake }
tables:
  - match: { table: orders }
    into: lake.orders
    options: { changelog-producer: lookup }
    columns: { types: { n: INT } }
"""

HEAD = """\
environment: { BROKER: 'localhost:9' }
cases:
"""


def insert(key: int, **values: object) -> str:
    """A record of a case, on one line."""
    return json.dumps({"key": {"id": key}, "value": {"op": "c", "after": {"id": key, **values}}})


def write(root: Path, cases: str, pipeline: str = PIPELINE) -> Path:
    file = root / "shop.yaml"
    file.write_text(pipeline)
    (root / "shop.test.yaml").write_text(HEAD + cases)
    return file


def case(records: str, expect: str, name: str = "one") -> str:
    """A case with records of orders, each on a line of its own."""
    lines = "".join(f"      - {record}\n" for record in records.splitlines())
    expected = "".join(f"      {line}\n" for line in expect.splitlines())
    return f"  - name: {name}\n    topic: shop.public.orders\n    records:\n{lines}    expect:\n{expected}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quickstart", "shop"])
def test_the_cases_of_our_own_pipelines_hold_without_spark(name: str) -> None:
    code, modules = imported_by("test", f"configs/{name}.yaml")
    assert code == 0
    assert not modules & {"pyspark", "py4j"}


def test_the_pipelines_own_places_are_not_touched(tmp_path: Path) -> None:
    file = write(tmp_path, case(insert(1, n=1), "tables: { lake.orders: [{ id: 1, n: 1 }] }"))
    before = sorted(tmp_path.iterdir())
    assert tidemark("test", file).returncode == 0
    assert sorted(tmp_path.iterdir()) == before


def failure(root: Path, cases: str) -> list[str]:
    """What `tidemark test` says of a single case that does not hold, without the time that it took."""
    done = tidemark("test", write(root, cases))
    assert (done.returncode, done.stderr) == (1, "")
    first, *lines, last = done.stdout.splitlines()
    assert first.startswith("FAIL  one (")
    assert last.startswith("1 case, 1 failed (")
    return [line.removeprefix("      ").replace(f"{root}/", "") for line in lines]


def test_rows_that_are_not_as_expected_are_shown_with_their_lines(tmp_path: Path) -> None:
    records = "\n".join([insert(1, n=1, name="a"), insert(2, n=2, name="b"), insert(3, n="x", name="c")])
    rows = "tables:\n  lake.orders:\n    - { id: 1, name: A }\n    - { id: 4, name: d }\n"
    assert failure(tmp_path, case(records, rows)) == [
        "shop.test.yaml:12: table lake.orders: 2 of 2 expected rows missing, 2 unexpected",
        '  - {"id":1,"name":"A"}',
        '  + {"id":1,"name":"a"}',
        "  ? name STRING",
        '  - {"id":4,"name":"d"}',
        '  + {"id":2,"name":"b"}',
        "shop.test.yaml:10: 1 unexpected record in the quarantine",
        '  + shop.public.orders partition 0 offset 2: column n INT: string "x" does not fit INT',
    ]


def test_a_column_that_another_row_names_is_expected_to_be_null(tmp_path: Path) -> None:
    records = "\n".join([insert(1, n=1), insert(2, n=2)])
    rows = "tables: { lake.orders: [{ id: 1, n: 1 }, { id: 2 }] }"
    assert failure(tmp_path, case(records, rows))[1:] == [
        '  - {"id":2,"n":null}',
        '  + {"id":2,"n":2}',
        "  ? n INT (not named in this row, so NULL is expected)",
    ]


def test_a_changelog_is_shown_as_a_diff_in_the_order_of_its_keys(tmp_path: Path) -> None:
    update = json.dumps({"key": {"id": 1}, "value": {"op": "u", "after": {"id": 1, "n": 5}}})
    changes = "+I: { id: 2, n: 2 }", "+I: { id: 1, n: 1 }", "+U: { id: 1, n: 5 }"
    expect = "changelog:\n  lake.orders:\n" + "".join(f"    - {change}\n" for change in changes)
    text = case(insert(1, n=1), expect).replace("    records:\n      - ", "    batches:\n      - - ")
    text = text.replace("    expect", f"        - {insert(2, n=2)}\n      - - {update}\n    expect")
    assert failure(tmp_path, text) == [
        "shop.test.yaml:11: the changelog of table lake.orders differs",
        '    +I {"id":2,"n":2}',
        '    +I {"id":1,"n":1}',
        '  + -U {"id":1,"n":1}',
        '    +U {"id":1,"n":5}',
    ]


@pytest.mark.parametrize(
    ("expect", "told"),
    [
        ("tables: { lake.ordrs: [{ id: 1 }] }", ["there is no table lake.ordrs; did you mean 'lake.orders'?"]),
        ("tables: { lake.orders: [{ idd: 1 }] }", ["table lake.orders has no column 'idd'; did you mean 'id'?"]),
        ("tables: {}", ["table lake.orders has 1 row, and `expect.tables` does not name it", '  + {"id":1,"n":1}']),
        ("skipped: { tombstones: 1 }", ["skipped records, tombstones: expected 1, found 0"]),
        ("quarantine: [{ offset: 3, reason: bad }]", ["no record in the quarantine of offset 3 with: bad"]),
        ("error: no rule", ["the pipeline did not stop, expected an error with: no rule"]),
        ("paused: { lake.orders: bad }", ["table lake.orders is not paused"]),
        (
            "schema: { lake.orders: { id: INT, n: INT } }",
            ["table lake.orders has other columns", "  - id: INT", "  + id: BIGINT", "    n: INT"],
        ),
    ],
)
def test_each_kind_of_difference_is_told(tmp_path: Path, expect: str, told: list[str]) -> None:
    lines = failure(tmp_path, case(insert(1, n=1), expect))
    extra = [line for line in lines if "expect.tables" in line or line.startswith("  + {")]
    text = [line.partition(": ")[2] if line.startswith("shop.test.yaml:") else line for line in lines]
    assert [line for line in text if not line.startswith("log: ")][: len(told)] == told, extra


ONE_TOPIC = "topics: [shop.public.orders]"


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        (ONE_TOPIC, "shop.public.orders"),
        (
            "topics: { include: ['shop.*'], exclude: [shop.public.ordrs, b] }",
            "topics that match 'shop.*' and not 'shop.public.ordrs' or 'b'",
        ),
    ],
)
def test_a_case_of_a_topic_that_the_pipeline_does_not_read_fails(tmp_path: Path, source: str, reads: str) -> None:
    other = insert(2, n=2).replace("{", '{"topic": "shop.public.orders", ', 1)
    (tmp_path / "dump.jsonl").write_text('{"topic": "other", "partition": 0, "offset": 0, "payload": null}\n')
    text = case("\n".join([other, insert(1, n=1), "{ file: dump.jsonl }"]), "{}").replace(
        "topic: shop.public.orders", "topic: shop.public.ordrs", 1
    )
    done = tidemark("test", write(tmp_path, text, PIPELINE.replace(ONE_TOPIC, source)))
    assert done.returncode == 1
    told = "the pipeline does not read topic {}, but {}; correct the topic, or add it to the `topics` of `source`"
    assert [line.strip().replace(f"{tmp_path}/", "") for line in done.stdout.splitlines()[1:-1]] == [
        f"shop.test.yaml:{line}: {told.format(topic, reads)}"
        for line, topic in [(4, "shop.public.ordrs"), (8, "other")]
    ]


@pytest.mark.slow
def test_what_stops_or_pauses_a_pipeline_can_be_expected(tmp_path: Path) -> None:
    bad = "\n".join(insert(key, n="x") for key in range(4))
    file = write(tmp_path, case(bad, "paused: { lake.orders: records are bad }"))
    assert tidemark("test", file).returncode == 0
    file.write_text(PIPELINE.replace("debezium-json }", "debezium-json, on_bad_record: fail }"))
    (tmp_path / "shop.test.yaml").write_text(HEAD + case(bad, "error: does not fit INT"))
    assert tidemark("test", file).stdout.startswith("pass  one (")
    (tmp_path / "shop.test.yaml").write_text(HEAD + case(bad, "tables: {}"))
    assert "the pipeline stopped: shop.public.orders partition 0 offset 0: " in tidemark("test", file).stdout


def test_records_come_as_objects_texts_bytes_and_dump_files(tmp_path: Path) -> None:
    envelope = {"op": "c", "after": {"id": 2, "n": 2}}
    text, encoded = json.dumps(envelope), base64.b64encode(json.dumps(envelope).replace("2", "3").encode()).decode()
    key = {"key": json.dumps({"id": 2})}
    records = [
        insert(1, n=1),
        json.dumps({**key, "value": text}),
        json.dumps({"key_b64": base64.b64encode(b'{"id":3}').decode(), "value_b64": encoded}),
        json.dumps({"file": "four.jsonl"}),
    ]
    line = {"topic": "shop.public.orders", "partition": 1, "offset": 70, "key": '{"id":4}'}
    (tmp_path / "four.jsonl").write_text(json.dumps({**line, "payload": text.replace("2", "4")}) + "\n")
    rows = ", ".join(f"{{ id: {n}, n: {n} }}" for n in (4, 3, 2, 1))
    done = tidemark("test", write(tmp_path, case("\n".join(records), f"tables: {{ lake.orders: [{rows}] }}")))
    assert (done.returncode, done.stdout.splitlines()[-1][:14]) == (0, "1 case passed ")


AVRO = """\
version: 1
name: shop
source:
  kafka: { bootstrap_servers: 'localhost:9', topics: { include: ['.*'] } }
  format: { debezium-avro: { registry: { file: '${env:SCHEMAS}' } } }
checkpoint: state
catalog: { warehouse: lake }
tables: [{ match: { table: order_items }, into: lake.order_items }]
"""


@pytest.mark.slow
def test_avro_is_read_with_a_file_of_writer_schemas(tmp_path: Path) -> None:
    captures = ROOT / "tests" / "captures"
    columns = (
        "{ order_id: BIGINT NOT NULL, line_no: SMALLINT NOT NULL, sku: STRING, qty: INT, unit_price: 'DECIMAL(10, 2)' }"
    )
    file = write(
        tmp_path,
        f"  - name: one\n    records: [{{ file: {captures}/shop_avro.raw.jsonl.gz }}]\n"
        f"    expect: {{ schema: {{ lake.order_items: {columns} }} }}\n",
        AVRO,
    )
    cases = tmp_path / "shop.test.yaml"
    cases.write_text(
        cases.read_text().replace("BROKER: 'localhost:9'", f"SCHEMAS: '{captures}/shop_avro.schemas.json'")
    )
    done = tidemark("test", file)
    assert done.returncode == 0, done.stdout


def test_numbers_reach_the_decoder_as_they_are_written(tmp_path: Path) -> None:
    record = "{ key: { id: 1 }, value: { op: c, after: { id: 1, big: 12345678901234567890.10 } } }"
    file = write(tmp_path, case(record, "tables: { lake.orders: [{ id: 1, big: 12345678901234567890.10 }] }"))
    file.write_text(PIPELINE.replace("n: INT", "n: INT, big: 'DECIMAL(38, 2)'"))
    assert tidemark("test", file).returncode == 0


def test_places_reach_an_event_log(tmp_path: Path) -> None:
    record = "{ value: { op: c, after: { id: 1 } }, partition: 3, offset: 40 }"
    rows = "{ id: 1, event_op: c, event_partition: 3, event_offset: 40 }"
    file = write(tmp_path, case(record, f"tables: {{ lake.orders: [{rows}] }}"))
    file.write_text(PIPELINE.replace("options: { changelog-producer: lookup }", "mode: append\n    on_change: log"))
    done = tidemark("test", file)
    assert done.returncode == 0, done.stdout


def test_only_cases_with_a_name_are_played(tmp_path: Path) -> None:
    cases = case(insert(1), "tables: {}", "fails") + case(insert(1, n=1), "skipped: {}", "Works well")
    file = write(tmp_path, cases)
    done = tidemark("test", file, "-k", "works")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    done = tidemark("test", file, "-k", "nothing")
    assert done.returncode == 2
    told = f"-k nothing: no case of {tmp_path}/shop.test.yaml has this in its name; there are: fails, Works well\n"
    assert done.stderr == told


@pytest.mark.slow
def test_results_are_written_for_ci(tmp_path: Path) -> None:
    cases = case(insert(1, n=1), "tables: {}", "fails") + case(insert(1, n=1), "skipped: {}", "works")
    junit = tmp_path / "build" / "junit.xml"
    assert tidemark("test", write(tmp_path, cases), "--junit", junit).returncode == 1
    suite = ET.parse(junit).getroot()[0]
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors")} == {
        "name": "shop", "tests": "2", "failures": "1", "errors": "0",
    }  # fmt: skip
    fails, works = suite
    assert (fails.get("name"), fails.get("line"), works.get("name"), len(works)) == ("fails", "3", "works", 0)
    assert fails[0].get("message") == "table lake.orders has 1 row, and `expect.tables` does not name it"
    assert str(fails[0].text).splitlines()[1] == '  + {"id":1,"n":1}'


MISTAKES = {
    "record: []": "4:5: cases[0]: unknown key 'record'; did you mean 'records'?",
    "records: [{ value: 1 }]": "4:15: name the `topic` of the record, or that of the case",
    "records: [{ key: 1 }]": "4:15: cases[0].records[0]: a record needs a `value`; write `value: null` for",
    "records: [{ topic: t, value: .nan }]": "4: JSON cannot express the number nan; write the text",
    "records: [{ topic: t, value_b64: '!' }]": "4: `key_b64` or `value_b64` is not base64",
    "records: [{ file: none.jsonl }]": "4: {root}/none.jsonl cannot be read",
    "batches: [kill]": "4:5: cases[0]: `kill` ends the process of the batch before it",
    "batches: [stop]": "4:15: cases[0].batches[0]: expected a list of records, or the word kill",
    "records: []\n    batches: []": "3:5: cases[0]: give exactly one of `records` and `batches`",
    "records: []\n    expect: { changelog: { lake.t: [{ id: 1 }] } }": "expected one of +I, -U, +U, -D with a row",
    "records: []\n    expect: { skipped: { tombstone: 1 } }": "unknown reason 'tombstone'; did you mean 'tombstones'?",
    "records: []\n    expect: { schema: { lake.t: { id: INTT } } }": "5:39: cases[0].expect.schema.lake.t.id: 'INTT' ",
    "records: []\n    expect: {}\n  - { name: one, records: [], expect: {} }": "two cases have the name 'one'",
}
"""What is wrong with a case, and what is said of it."""


@pytest.mark.parametrize(("wrong", "told"), MISTAKES.items())
def test_mistakes_in_the_cases_are_told_with_their_place(tmp_path: Path, wrong: str, told: str) -> None:
    expect = "" if "expect" in wrong else "    expect: {}\n"
    done = tidemark("test", write(tmp_path, f"  - name: one\n    {wrong}\n{expect}"))
    assert (done.returncode, done.stdout) == (2, "")
    assert told.replace("{root}", str(tmp_path)) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_pipeline_without_cases_is_told_where_to_write_them(tmp_path: Path) -> None:
    file = write(tmp_path, case(insert(1), "{}"))
    (tmp_path / "shop.test.yaml").rename(tmp_path / "other.yaml")
    done = tidemark("test", file)
    assert (done.returncode, done.stderr) == (
        2,
        f"{file} has no test cases: write them to {tmp_path}/shop.test.yaml, or name their file with --cases\n",
    )
    assert tidemark("test", file, "--cases", tmp_path / "other.yaml").returncode == 0


def test_a_missing_pipeline_file_is_told_before_its_cases(tmp_path: Path) -> None:
    done = tidemark("test", tmp_path / "nofile.yaml")
    assert (done.returncode, done.stderr) == (
        2,
        f"{tmp_path}/nofile.yaml: cannot be read: No such file or directory\n",
    )


@pytest.mark.slow
def test_as_a_process_of_its_own_it_prints_nothing_else(tmp_path: Path) -> None:
    done = tidemark_process("test", write(tmp_path, case(insert(1, n=1), "tables: { lake.orders: [{ n: 1 }] }")))
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 2)


def test_a_case_plays_another_primary_key_in_a_new_table(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("    options: {", "    schema_changes: { primary_key: new_table }\n    options: {")
    rows_of = ({"id": n, "r": "a"} for n in (1, 2))
    keyed = [json.dumps({"key": row, "value": {"op": "c", "after": row}}) for row in rows_of]
    records = "\n".join([insert(1, r="a"), keyed[0], insert(3, r="b"), keyed[1]])
    rows = "tables:\n  lake.orders: [{ id: 1, r: a }]\n  lake.orders_v2: [{ id: 1, r: a }, { id: 2, r: a }]\n"
    late = 'quarantine:\n  - { offset: 2, reason: "the record is late" }\n'
    done = tidemark("test", write(tmp_path, case(records, rows + late), pipeline))
    assert done.returncode == 0, done.stdout
