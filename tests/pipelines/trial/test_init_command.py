"""`tidemark init`: the file that it writes is valid whatever the topics are called, and says what was seen."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config.config_file import load_pipeline
from pipelines.trial.starter_file import Start, starter_file
from sources.topic_formats import TopicFormat
from tests.support import feed_records as feeds
from tests.support.command import tidemark
from tests.support.imports import imported_by

JKS = ("--property", "security.protocol=SSL", "--property", "ssl.truststore.location=x.jks")
NAMES = st.text("abcXY019._-", min_size=1, max_size=12).filter(lambda name: name not in (".", ".."))
KEYS = st.none() | st.lists(st.text(min_size=1, max_size=8), max_size=2).map(tuple)
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
        "    # The message key has no names: state the columns of the key, such as primary_key: [id]",
        r"  - match: { topic: 'shop\.public\.clicks' }",
        "    into: lake.clicks",
        "    # Its records have no key, so the table is a log of events. For the newest row of each key state",
        "    # the columns of the key: primary_key: [id]",
        r"  - match: { topic: 'shop\.public\.orders' }",
        "    into: lake.shop_public_orders",
        "    # JSON does not say what these columns are. Declare those that are what they look like:",
        "    # columns:",
        "    #   types:",
        "    #     at: 'TIMESTAMP(6)'  # epoch microseconds: TIMESTAMP(6)",
        "    #     total: 'DECIMAL(10, 2)'  # base64: DECIMAL(p, s) or BYTES",
        "otherwise: skip",
        "# 2 topics left out:",
        "#   __debezium-heartbeat.shop: control records (heartbeat)",
        "#   shop.canal: Canal JSON; a file of its own reads canal-json",
    ]
    assert tidemark("validate", file).returncode == 0
    assert tidemark("plan", file).returncode == 3
    uncommented = file.read_text().replace("    # columns:", "    columns:").replace("    #   ", "      ")
    file.write_text(uncommented)
    assert "`at` TIMESTAMP(6)" in tidemark("plan", file).stdout


def test_a_file_that_is_there_is_replaced_on_demand_alone(tmp_path: Path) -> None:
    dumps = dump(tmp_path, ("orders", {"id": 1}, envelope(id=1)))
    file = tmp_path / "shop.yaml"
    file.write_text("mine")
    done = tidemark("init", "--files", dumps, "-o", file)
    assert (done.returncode, done.stderr) == (2, f"{file} is there already; --force replaces it\n")
    assert file.read_text() == "mine"
    assert tidemark("init", "--files", dumps, "-o", file, "--force").returncode == 0
    assert load_pipeline(file).name == "shop"


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
        ([], "say where the records are: either --bootstrap-servers HOST:PORT or --files PATH"),
        (["--files", "a", "--bootstrap-servers", "b:1"], "say where the records are"),
        (["--files", "none"], "--files none: no file with records is there"),
        (["--files", "dumps", "--property", "a=b"], "--property: files have no properties of Kafka's client"),
        (["--files", "dumps", "--topics", "("], "--topics: not a regular expression"),
        (["--files", "dumps", "--topics", "x"], "--files dumps: no file with records is there"),
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
    assert "(t: no JSON objects and no Avro with a schema registry)" in done.stderr


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            TopicFormat,
            NAMES,
            st.sampled_from(["debezium-json", "debezium-avro", "upsert-json", "canal-json", None]),
            st.sampled_from(["some words", "control records (heartbeat)"]),
            KEYS,
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
        unique_by=lambda topic: topic.topic,
    ),
    st.sampled_from([{}, {"security.protocol": "SSL", "ssl.key.password": "hidden", "client.id": "yes"}]),
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
    read = [topic.topic for topic in topics if topic.format == start.format]
    assert config.source.kafka is not None
    assert list(config.source.kafka.topics.names) == read
    rules = [config.rule_for(None, None, None, topic) for topic in read]
    assert len({rule.into.lower() for rule in rules if rule is not None}) == len(read)
