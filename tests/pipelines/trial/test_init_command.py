"""`tidemark init`: the file that it writes is valid whatever the topics are called, and says what was seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.table import Table
from pipelines.config.config_file import load_pipeline
from pipelines.tables.tables import PipelineTables
from pipelines.trial.starter_file import Start, starter_file
from sources.dumps.dump_records import record_batches_from_dump
from sources.topic_formats import REGISTRY, TopicFormat
from tests.support import feed_records as feeds
from tests.support.command import tidemark
from tests.support.imports import imported_by
from tests.support.local_batches import reported_batches

JKS = ("--property", "security.protocol=SSL", "--property", "ssl.truststore.location=x.jks")
NAMES = st.text("abcXY019._-", min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
KEYS = st.none() | st.lists(st.text(min_size=1, max_size=8), max_size=2).map(tuple)
FORMS: list[tuple[str | None, dict[str, Any]]] = [
    ("debezium-json", {}), ("upsert-json", {}), ("canal-json", {}), ("json", {}), (None, {}), ("auto", {**REGISTRY}),
    ("csv", {"columns": ["a", "it's"]}), ("csv", {"columns": ["a", "b"], "delimiter": "\t"}),
]  # fmt: skip
LOOKS = st.sampled_from(["epoch days: DATE", "epoch microseconds: TIMESTAMP(6)", "base64: DECIMAL(p, s) or BYTES"])


def dump(root: Path, *records: tuple[str, Any, Any], name: str = "all.jsonl") -> Path:
    """A dump of records of (topic, key, value)."""
    lines = [
        {"topic": topic, "partition": 0, "offset": offset, "ts": 0, "key": _text(key), "payload": _text(value)}
        for offset, (topic, key, value) in enumerate(records)
    ]
    (root / "dumps").mkdir(exist_ok=True)
    (root / "dumps" / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return root / "dumps"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def envelope(**row: Any) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": row}


@pytest.mark.slow
def test_the_file_says_what_was_seen_and_is_valid(tmp_path: Path) -> None:
    dumps = dump(
        tmp_path,
        ("shop.public.orders", {"id": 1}, envelope(id=1, at=1_767_592_800_000_000, total="MTI=")),
        ("shop.public.clicks", None, envelope(id=1)),
        ("shop.audit.orders", 7, envelope(id=1)),
        ("shop.canal", None, feeds.canal("INSERT", {"id": 1})),
        ("__debezium-heartbeat.shop", None, {"ts_ms": 1}),
    )
    file = tmp_path / "shop.yaml"
    done = tidemark("init", "--files", dumps, "-o", file)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{file}: pipeline shop reads 3 topics as debezium-json; 2 left out\n"
    assert file.read_text().splitlines()[2:] == [
        "version: 1",
        "name: shop",
        "source:",
        "  files:",
        "    path: dumps",
        "    topics:",
        "      - shop.audit.orders  # Debezium envelopes without embedded schemas; a message key without names",
        "      - shop.public.clicks  # Debezium envelopes without embedded schemas; no message key",
        "      - shop.public.orders  # Debezium envelopes without embedded schemas; message key id",
        "  format: debezium-json",
        "  # Records that cannot be decoded go to quarantine; `fail` stops the pipeline instead.",
        "  on_bad_record: quarantine",
        "checkpoint: state/shop",
        "catalog:",
        "  warehouse: warehouse  # a directory, or s3://BUCKET/PATH",
        "defaults:",
        "  options:",
        "    bucket: 1  # about one for each GB of a table; -1 lets buckets grow",
        "    # changelog-producer: lookup  # a complete changelog for streaming readers",
        "tables:",
        r"  - match: { topic: 'shop\.audit\.orders' }",
        "    into: lake.shop_audit_orders",
        "    # The message key has no names: set the columns of the key, such as primary_key: [id]",
        r"  - match: { topic: 'shop\.public\.clicks' }",
        "    into: lake.clicks",
        "    # Every record is a row of a log of events. For the newest row of each key state the columns of",
        "    # the key in place of these three lines: primary_key: [id]",
        "    mode: append",
        "    on_change: log",
        "    options: { bucket: -1 }",
        r"  - match: { topic: 'shop\.public\.orders' }",
        "    into: lake.shop_public_orders",
        "    # JSON does not show the types of these columns. Declare each type that is right:",
        "    # columns:",
        "    #   decimal_format: base64  # texts such as 1234 are numbers in base64, not decimals",
        "    #   types:",
        "    #     at: 'TIMESTAMP(6)'  # epoch microseconds: TIMESTAMP(6)",
        "    #     total: 'DECIMAL(10, 2)'  # base64: DECIMAL(p, s) or BYTES",
        "otherwise: skip",
        "# 2 topics left out:",
        "#   __debezium-heartbeat.shop: control records (heartbeat)",
        "#   shop.canal: Canal JSON; a separate file reads canal-json",
    ]
    assert tidemark("validate", file).returncode == 0
    assert tidemark("plan", file).returncode == 3
    uncommented = file.read_text().replace("    # columns:", "    columns:").replace("    #   ", "      ")
    uncommented = uncommented.replace("# changelog-producer: lookup", "changelog-producer: lookup")
    file.write_text(uncommented)
    assert "`at` TIMESTAMP(6)" in tidemark("plan", file).stdout
    assert load_pipeline(file).tables[-1].columns.decimal_format == "base64"


@pytest.mark.slow
def test_files_named_after_topics_have_names_and_checkpoints_of_their_own(tmp_path: Path) -> None:
    dumps = dump(tmp_path, ("crm.staff", {"id": 1}, envelope(id=1)), ("crm.flat", {"id": 1}, envelope(id=1)))
    lines = []
    for name in ("crm.staff.yaml", "crm.flat.yml", ".hidden"):
        assert tidemark("init", "--files", dumps, "-o", tmp_path / name).returncode == 0
        lines.append(
            [line for line in (tmp_path / name).read_text().splitlines() if "state/" in line or "name" in line]
        )
    names = ("crm.staff", "crm.flat", "p.hidden")
    assert lines == [[f"name: {name}", f"checkpoint: state/{name}"] for name in names]


def test_a_file_that_is_there_is_replaced_on_demand_alone(tmp_path: Path) -> None:
    dumps = dump(tmp_path, ("orders", {"id": 1}, envelope(id=1)))
    file = tmp_path / "shop.yaml"
    file.write_text("mine")
    done = tidemark("init", "--files", dumps, "-o", file)
    assert (done.returncode, done.stderr) == (2, f"{file} exists already; --force replaces it\n")
    assert file.read_text() == "mine"
    assert tidemark("init", "--files", dumps, "-o", file, "--force").returncode == 0
    assert load_pipeline(file).name == "shop"


@pytest.mark.slow
def test_without_a_file_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dump(tmp_path, ("orders", {"id": 1}, envelope(id=1)), ("items", {"id": 1}, envelope(id=1)))
    done = tidemark("init", "--files", "dumps", "--topics", "ord.*")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "x.yaml").write_text(done.stdout)
    assert load_pipeline(tmp_path / "x.yaml").source.reader.topics.names == ("orders",)
    assert imported_by("init", "--files", str(tmp_path / "dumps"))[1].isdisjoint({"pyspark", "py4j"})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "the source is missing: give either --bootstrap-servers HOST:PORT or --files PATH"),
        (["--files", "a", "--bootstrap-servers", "b:1"], "the source is missing"),
        (["--files", "none"], "--files none: found no file with records"),
        (["--files", "dumps", "--property", "a=b"], "--property: files have no properties of Kafka's client"),
        (["--files", "dumps", "--topics", "("], "--topics: not a regular expression"),
        (["--files", "dumps", "--topics", "x"], "--files dumps: found no record of a topic that --topics matches"),
        (["--files", "dumps", "--force"], "--force: nothing is replaced without --output FILE"),
        (["--bootstrap-servers", "b:1", "--property", "a"], "--property: expected NAME=VALUE"),
        (["--bootstrap-servers", "b:1", "--property", "a=${env:NOT_SET}"], "environment variable NOT_SET is not set"),
        (["--bootstrap-servers", "b:1", "--property", "ssl.key.password=x"], "--property ssl.key.password: 'ssl.key"),
        (
            [
                "--bootstrap-servers",
                "b:1",
                "--property",
                "security.protocol=SSL",
                "--property",
                "ssl.truststore.location=x.jks",
            ],
            "`plan` and `init` do not",
        ),
        (["--files", "dumps", "--topics", "order"], "--files dumps: found no record of a topic that --topics matches"),
        (["--files", "dumps", "-o", "none/x.yaml"], "none/x.yaml cannot be written: No such file or directory"),
    ],
)
def test_requests_that_cannot_be_met_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    dump(tmp_path, ("orders", {"id": 1}, envelope(id=1)))
    done = tidemark("init", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_topics_that_nothing_reads_are_told(tmp_path: Path) -> None:
    done = tidemark("init", "--files", dump(tmp_path, ("t", None, "<xml/>")))
    assert done.returncode == 2
    assert "(t: texts that are neither JSON objects nor lines of CSV); write the file by hand" in done.stderr


PLAIN_TOPICS: dict[str, tuple[list[tuple[str, Any, Any]], list[str], list[dict[str, Any]]]] = {
    "json": (
        [("s.clicks", None, {"page": "/", "n": 1}), ("s.clicks", None, {"page": "/b", "n": 2})],
        ["  format: json"],
        [{"page": "/", "n": 1}, {"page": "/b", "n": 2}],
    ),
    "json under other keys": (
        [("s.clicks", "eu", {"page": "/"}), ("s.clicks", "us", {"page": "/b"})],
        ["  format: json"],
        [{"page": "/"}, {"page": "/b"}],
    ),
    "csv with names": (
        [("s.clicks", None, "id;page"), ("s.clicks", None, "1;/"), ("s.clicks", None, '2;"a;b"')],
        ["  format:", "    csv:", "      columns: ['id', 'page']", "      delimiter: ';'"],
        [{"id": "1", "page": "/"}, {"id": "2", "page": "a;b"}],
    ),
    "csv without names": (
        [("s.clicks", None, "1,/,x"), ("s.clicks", None, "2,/b,")],
        ["  format:", "    csv:", "      columns: ['column_1', 'column_2', 'column_3']"],
        [{"column_1": "1", "column_2": "/", "column_3": "x"}, {"column_1": "2", "column_2": "/b", "column_3": None}],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN_TOPICS)
def test_plain_records_get_a_file_that_reads_them(tmp_path: Path, name: str) -> None:
    records, lines, rows = PLAIN_TOPICS[name]
    file = tmp_path / "shop.yaml"

    done = tidemark("init", "--files", dump(tmp_path, *records), "-o", file)

    assert (done.returncode, done.stdout) == (0, "")
    text = file.read_text().splitlines()
    assert text[text.index(lines[0]) :][: len(lines)] == lines
    assert tidemark("validate", file).returncode == 0
    config = load_pipeline(file)
    tables = PipelineTables(config, "tidemark-shop-test")
    batches = record_batches_from_dump(str(tmp_path / "dumps" / "all.jsonl"))
    reported_batches(tables, batches, tmp_path, decoder=config.decoder)
    stored = Table.open(tables.sinks["lake.clicks"].table.paths.root).to_arrow().to_pylist()
    stored.sort(key=lambda row: int(row["event_offset"]))
    assert [{name: row[name] for name in rows[0]} for row in stored] == rows
    assert not (tmp_path / "quarantine").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "format_"),
    [(feeds.canal, "canal-json"), (feeds.maxwell, "maxwell-json"), (feeds.golden_gate, "ogg-json")],
)
def test_records_that_name_their_tables_and_keys_get_a_table_with_a_key_for_each(
    tmp_path: Path, record: Callable[..., dict[str, Any]], format_: str
) -> None:
    of_maxwell = {"primary_key_columns": ["id"]}
    values = [
        record("INSERT", {"id": 1}, table=table)
        if record is feeds.canal
        else record("insert", {"id": 1}, table=table, **of_maxwell)
        if record is feeds.maxwell
        else record("I", None, {"ID": 1}) | {"table": f"SHOP.{table}"}
        for table in ("orders", "items")
    ]
    file = tmp_path / "shop.yaml"

    assert tidemark("init", "--files", dump(tmp_path, *(("cdc", None, v) for v in values)), "-o", file).returncode == 0

    assert f"  format: {format_}\n" in file.read_text()
    plan = tidemark("plan", file)
    assert plan.returncode == 3
    made = [line for line in plan.stdout.splitlines() if line.startswith("Create table")]
    assert made == ["Create table lake.items from cdc", "Create table lake.orders from cdc"]
    assert plan.stdout.lower().count("primary key (`id`)") == 2


@pytest.mark.parametrize("value", ["\0\0\0\0\1\2\2"])
def test_binary_values_get_a_file_that_asks_their_registry(tmp_path: Path, value: str) -> None:
    file = tmp_path / "shop.yaml"
    done = tidemark("init", "--files", dump(tmp_path, ("s.clicks", None, value)), "-o", file)
    assert done.returncode == 0
    text = file.read_text()
    assert "  format:\n    auto:\n      registry:\n        url: '${env:SCHEMA_REGISTRY_URL" in text
    assert tidemark("validate", file).returncode == 0


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda topic, form, words, key: TopicFormat(topic, form[0], words, key, settings=form[1]),
            NAMES,
            st.sampled_from(FORMS),
            st.sampled_from(["some words", "control records (heartbeat)"]),
            KEYS,
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda topic: topic.topic,
    ),
    st.sampled_from(
        [
            {},
            {
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "me.pem",
                "ssl.key.password": "hidden",
                "client.id": "yes",
            },
        ]
    ),
    st.dictionaries(st.text(min_size=1, max_size=6), LOOKS, max_size=2),
)
def test_every_file_is_valid_and_reads_its_topics_into_tables_of_their_own(
    topics: list[TopicFormat], properties: dict[str, str], looks: dict[str, str]
) -> None:
    start = Start("p", {"bootstrap_servers": "h:1"}, topics, properties, {topics[0].topic: looks})
    if start.format is None:
        return
    with TemporaryDirectory() as directory:
        file = Path(directory) / "p.yaml"
        file.write_text(starter_file(start), encoding="utf-8")
        config = load_pipeline(file, {"KAFKA_SSL_KEY_PASSWORD": "secret"})
    assert "hidden" not in starter_file(start)
    read = [topic.topic for topic in topics if (topic.format, topic.settings) == (start.format, start.settings)]
    assert config.source.kafka is not None
    assert list(config.source.kafka.topics.names) == read
    rules = [config.rule_for(None, None, None, topic) for topic in read]
    assert len({rule.into.lower() for rule in rules if rule is not None}) == len(read)
