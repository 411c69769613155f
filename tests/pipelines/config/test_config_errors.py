"""Everything that is wrong with a file is said in one run, each at its line and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from paimon_table.errors import ConfigError
from paimon_table.types import parse_type
from pipelines.config.column_rules import ColumnRules
from pipelines.config.config_file import load_pipeline, load_pipelines

BROKEN = Path(__file__).parent / "broken"
ENVIRONMENT = {"NAME_OF_IT": "shop", "SECRET_NUMBER": "hunter2", "SECRET_WORD": "hunter3", "EMPTY": ""}

GOOD = """\
version: 1
name: {name}
source: {{ files: {{ path: dumps }}, format: debezium-json }}
checkpoint: {checkpoint}
catalog: {{ warehouse: lake }}
otherwise: create
"""


@pytest.mark.parametrize(
    "columns",
    [
        {"rename": {"a": "b", "b": "a"}},
        {"rename": {"a": "b"}, "drop": ["b"]},
        {"rename": {"a": "b"}, "keep": ["id", "a"], "replace": {"a": "lower(a)"}, "types": {"b": "STRING"}},
        {"rename": {"a": "b"}, "add": {"a": "id + 1"}},
        {"rename": {"a": "b"}, "keep": ["/a|id/"]},
        {"add": {"a": "lower(a)"}, "drop": ["a"]},
        {"keep": ["/.*/"], "drop": ["a"]},
        {"keep": ["id"], "replace": {"a": "lower(a)"}},
        {"rename": {"a": "C", "b": "c"}, "types": {"C": "INT", "c": "INT"}},
    ],
)
def test_rules_about_one_column_with_one_meaning_are_accepted(columns: dict[str, object]) -> None:
    ColumnRules.model_validate(columns)


@pytest.mark.parametrize("name", sorted(path.stem for path in BROKEN.glob("*.yaml")))
def test_all_problems_are_listed_with_their_places(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(ConfigError) as refusal:
        load_pipeline(f"{name}.yaml", ENVIRONMENT)
    assert str(refusal.value) == (BROKEN / f"{name}.errors").read_text().rstrip("\n")


def test_every_golden_file_belongs_to_a_broken_file() -> None:
    assert {p.stem for p in BROKEN.glob("*.errors")} == {p.stem for p in BROKEN.glob("*.yaml")}


def test_contents_of_variables_are_in_no_message() -> None:
    for golden in BROKEN.glob("environment*.errors"):
        assert "hunter" not in golden.read_text().lower()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: cannot be read: No such file"):
        load_pipeline(tmp_path / "missing.yaml")


def test_problems_of_several_files_come_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("version: 3\n")
    with pytest.raises(ConfigError) as refusal:
        load_pipelines([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    text = str(refusal.value)
    assert f"{tmp_path}/a.yaml:1:10: version" in text
    assert f"{tmp_path}/b.yaml:1:10: version" in text


@pytest.mark.parametrize(
    ("second", "told"),
    [(("shop", "other"), "name 'shop' is also the name in"), (("other", "state"), "has the same checkpoint")],
)
def test_pipelines_that_would_disturb_each_other_are_refused(
    tmp_path: Path, second: tuple[str, str], told: str
) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.format(name="shop", checkpoint="state"))
    (tmp_path / "b.yaml").write_text(GOOD.format(name=second[0], checkpoint=second[1]))
    with pytest.raises(ConfigError, match=told):
        load_pipelines([tmp_path / "a.yaml", tmp_path / "b.yaml"])


def test_pipelines_do_not_share_a_quarantine(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = GOOD.format(name=name, checkpoint=name).replace("debezium-json }", "debezium-json, quarantine: bad }")
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"b\.yaml: .*a\.yaml has the same quarantine, and a retry applies"):
        load_pipelines([tmp_path / "a.yaml", tmp_path / "b.yaml"])


def test_pipelines_of_different_masters_do_not_run_together(tmp_path: Path) -> None:
    for name, master in (("a", "local[1]"), ("b", "local[2]"), ("c", None)):
        spark = "" if master is None else f"spark: {{ master: '{master}' }}\n"
        (tmp_path / f"{name}.yaml").write_text(GOOD.format(name=name, checkpoint=name) + spark)
    with pytest.raises(ConfigError, match=r"b\.yaml: spark\.master local\[2\] is local\[1\] in .*a\.yaml; a process"):
        load_pipelines([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    load_pipelines([tmp_path / "a.yaml", tmp_path / "c.yaml"])


def test_a_consumer_group_of_two_pipelines_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def written(name: str, servers: str) -> Path:
        kafka = f"kafka: {{ bootstrap_servers: '{servers}', topics: [{name}], group_id: {tmp_path.name} }}"
        text = GOOD.format(name=name, checkpoint=name)
        file = tmp_path / f"{name}.yaml"
        file.write_text(re.sub(r"files: \{[^}]*\}", kafka, text))
        return file

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipelines([written("a", "127.0.0.1:1"), written("b", "127.0.0.1:2")])
        assert not [r for r in caplog.records if "group_id" in r.getMessage()]
        load_pipelines([written("a", "127.0.0.1:1"), written("c", "127.0.0.1:1")])
    (told,) = [r.getMessage() for r in caplog.records if "group_id" in r.getMessage()]
    assert f"c.yaml: group_id {tmp_path.name} is also in" in told


@pytest.mark.parametrize(
    "option",
    [
        "changelog-producer: lookup",
        "merge-engine: First-Row",
        "deletion-vectors.enabled: true",
        "full-compaction.delta-commits: 3",
    ],
)
def test_a_table_that_nobody_else_may_compact_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    file = tmp_path / "shop.yaml"
    text = GOOD.format(name=tmp_path.name, checkpoint="state")
    defaults = f"  options: {{ {option}, write-only: true }}"
    file.write_text(f"{text}defaults:\n{defaults}\n")
    (tmp_path / "dumps").mkdir()

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)
        load_pipeline(file)

    told = option.replace(":", " =")
    place = f"{file}:8:{defaults.index('write-only') + 1}"
    assert [r.getMessage() for r in caplog.records] == [
        f"{place}: warning: defaults.options: option 'write-only' = true keeps Tidemark from compacting, which "
        f"{told} waits for: run a dedicated compaction job, or remove one of them"
    ]


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (
            "defaults: { options: { snapshot.watermark-idle-timeout: 10 s } }",
            "7:24: warning: defaults.options: option 'snapshot.watermark-idle-timeout' has no effect on what Tidemark "
            "writes (`watermark.idle` of the rule decides when a partition is idle); Tidemark stores it for other "
            "writers",
        ),
        (
            "defaults: { options: { write-buffer-size: 64 mb } }",
            "7:24: warning: defaults.options: option 'write-buffer-size' has no effect on what Tidemark writes; "
            "Tidemark stores it for other writers",
        ),
        (
            "defaults: { options: { orc.whatever: 1 } }",
            "7:24: warning: defaults.options: option 'orc.whatever' is not known here; Tidemark stores it "
            "in the table for other programs",
        ),
        (
            "spark: { spark.plugin.of.somebody: 1 }",
            "7:10: warning: spark: 'spark.plugin.of.somebody' is not a property of Spark; it is passed on as it is",
        ),
        (
            "tables:\n  - { match: { table: a }, into: a.b, columns: { types: { created_at: BIGINT, line1: INT } },\n"
            "      options: { record-level.expire-time: 7 d, record-level.time-field: craeted_at } }",
            "9:49: warning: tables[0].options: option 'record-level.time-field' names column 'craeted_at'; did you "
            "mean 'created_at'? Declare 'craeted_at' under columns.types if there are both",
        ),
        (
            "tables:\n  - { match: { table: a }, into: a.b, columns: { types: { created_at: BIGINT, line1: INT } },\n"
            "      options: { record-level.expire-time: 7 d, record-level.time-field: updated_at,\n"
            "        sequence.field: line2 } }",
            None,
        ),
        (
            "tables:\n  - { match: { table: a }, into: a.b, columns: { types: { customer: INT } },\n"
            "      partition_by: [day], primary_key: [custmer, day] }",
            "9:28: warning: tables[0].primary_key: 'custmer' is not declared under columns.types; did you mean "
            "'customer'? Declare it there if there are both",
        ),
        (
            "tables:\n  - { match: { table: a }, into: a.b, columns: { types: { line1: INT } },\n"
            "      primary_key: [line2] }",
            None,
        ),
        ("defaults: { options: { scan.mode: latest, read.batch-size: 10 } }", None),
    ],
)
def test_what_has_no_effect_is_a_warning_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, block: str, told: str | None
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{GOOD.format(name='shop', checkpoint='state')}{block}\n")
    (tmp_path / "dumps").mkdir()

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    assert [r.getMessage() for r in caplog.records] == ([] if told is None else [f"{file}:{told}"])


def test_a_path_of_dumps_that_matches_nothing_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.format(name="shop", checkpoint="state").replace("path: dumps", "path: dumps/*.jsonl"))

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    assert [r.getMessage() for r in caplog.records] == [
        f"{file}:3:20: warning: source.files.path: no file matches; a run with a new checkpoint would refuse this"
    ]


def test_properties_and_masters_that_spark_knows_are_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "dumps").mkdir()
    for i, master in enumerate(
        ("local", "local[2]", "local[*,3]", "local-cluster[1,1,1024]", "yarn", "k8s://https://a")
    ):
        file = tmp_path / f"{i}.yaml"
        spark = f"spark: {{ master: '{master}', spark.driver.memory: 2g, spark.hadoop.fs.any: x, spark.ui.port: 4050 }}"
        file.write_text(f"{GOOD.format(name='shop', checkpoint='state')}{spark}\n")
        assert load_pipeline(file).spark.master == master
    assert caplog.records == []


MINIMAL = """\
version: 1
name: shop
source: {source}
checkpoint: state
catalog: {{ warehouse: lake }}
{rest}
"""
FILES = "{ files: { path: dumps }, format: debezium-json }"


@pytest.mark.parametrize(
    ("source", "rest", "told"),
    [
        ("{ format: debezium-json }", "otherwise: create", "3:9: source: set exactly one of `kafka` and `files`"),
        (
            "{ files: { path: d }, format: debezium-json, on_bad_record: fail, quarantine: q }",
            "otherwise: create",
            "3:75: source: `quarantine` has no effect with `on_bad_record: fail`; remove one of them",
        ),
        (
            "{ kafka: { bootstrap_servers: 'a:1', topics: {} }, format: debezium-json }",
            "otherwise: create",
            "3:54: source.kafka.topics: name at least one topic or pattern",
        ),
        (
            "{ kafka: { bootstrap_servers: 'a:1', topics: [a], options: { kafka.acks: 1 } }, format: debezium-json }",
            "otherwise: create",
            "3:70: source.kafka.options: kafka.acks: write the client property without the prefix `kafka.`",
        ),
        (FILES, "", "1:1: nothing would be written: add rules under `tables`, or `otherwise: create`"),
        (
            FILES,
            "otherwise: create\nspark: { spark.master: local }",
            "7:10: spark: write it as `master`, without `spark.`: `spark: {master: ...}`",
        ),
        (
            FILES,
            "otherwise: create\nspark: { driver_memory: 2g }",
            "7:10: spark: unknown key 'driver_memory'; did you mean 'spark.driver.memory'?",
        ),
    ],
    ids=["no source", "quarantine", "no topics", "prefixed option", "no tables", "spark.master", "spark key"],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path: Path, source: str, rest: str, told: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(MINIMAL.format(source=source, rest=rest))
    with pytest.raises(ConfigError) as refusal:
        load_pipeline(file)
    assert str(refusal.value) == f"{file}:{told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("varchar", r"VARCHAR without a length is VARCHAR\(1\); write STRING, or VARCHAR\(n\)"),
        ("CHAR NOT NULL", r"CHAR\(1\); write STRING, or CHAR\(n\)"),
        ("BINARY", r"BINARY\(1\); write BYTES, or BINARY\(n\)"),
        ("ARRAY<VARBINARY>", r"VARBINARY\(1\); write BYTES, or VARBINARY\(n\)"),
        ("MAP<VARCHAR, INT>", r"VARCHAR\(1\)"),
        ("string(10)", r"STRING has no length; write STRING, or VARCHAR\(10\)"),
        ("ROW<a BYTES(3)>", r"BYTES has no length; write BYTES, or VARBINARY\(3\)"),
    ],
)
def test_lengths_that_nobody_means_are_refused_in_the_file(text: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ColumnRules.model_validate({"types": {"c": text}})
    parse_type(text)  # as tables say it that others made


@pytest.mark.parametrize("text", ["VARCHAR(1)", "ROW<char INT, `varchar` INT, binary: BINARY(2)>", "STRING NOT NULL"])
def test_types_with_their_lengths_are_taken(text: str) -> None:
    assert ColumnRules.model_validate({"types": {"c": text}}).types == {"c": parse_type(text)}


@pytest.mark.parametrize(
    ("checkpoint", "told"),
    [
        ("./lake/", "directory of the warehouse"),
        (".", "contains the warehouse"),
        ("lake/shop.db/t", "in a database of"),
        ("lake/_state", "in the warehouse"),
    ],
)
def test_a_checkpoint_in_the_way_of_the_warehouse_is_refused(tmp_path: Path, checkpoint: str, told: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.format(name="shop", checkpoint=checkpoint))
    with pytest.raises(ConfigError, match=rf"4:1: checkpoint: .*{told}"):
        load_pipeline(file)
    file.write_text(GOOD.format(name="shop", checkpoint="lakeside"))
    load_pipeline(file)


@pytest.mark.parametrize("form", ["lake/_state", "file://{}/lake/_state"])
def test_a_checkpoint_in_use_stays_where_it_lies_in_the_warehouse_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    (tmp_path / "lake/_state").mkdir(parents=True)
    (tmp_path / "lake/_state/metadata").write_text("{}")
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.format(name="shop", checkpoint=form.format(tmp_path)))

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    (told,) = [text for record in caplog.records if "checkpoint: " in (text := record.getMessage())]
    assert f"{file}:4:1: warning: checkpoint: is in the warehouse" in told and "move the directory out" in told


@pytest.mark.parametrize(("second", "shown"), [("Caf\u00c9", "lake.Caf\u00c9"), ("cafe\u0301", r"lake.cafe\u0301")])
def test_names_that_some_storage_takes_for_one_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, second: str, shown: str
) -> None:
    rules = "".join(f"  - {{ match: {{ table: {n} }}, into: 'lake.{n}' }}\n" for n in ("caf\u00e9", second, "tea"))
    file = tmp_path / "shop.yaml"
    file.write_text(f"{GOOD.format(name='shop', checkpoint='state')}tables:\n{rules}")

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    (told,) = [text for record in caplog.records if ".into: " in (text := record.getMessage())]
    assert told.startswith(f"{file}:9:") and "warning: tables[1].into: " in told and "line 8" in told
    assert f"'{shown}' differs from 'lake.caf\u00e9' only in case or in how" in told


def test_a_file_in_the_place_of_a_directory_is_told_before_a_run(tmp_path: Path) -> None:
    for name in ("taken", "lake"):
        (tmp_path / name).write_text("")
    file = tmp_path / "shop.yaml"
    text = GOOD.format(name="shop", checkpoint="taken/state")
    file.write_text(text)

    with pytest.raises(ConfigError) as error:
        load_pipeline(file)

    told = [line.split(": ", 1)[1] for line in str(error.value).splitlines()]
    assert sorted(told) == [
        f"{key}: {tmp_path}/{name} is a file; name a directory"
        for key, name in (("catalog.warehouse", "lake"), ("checkpoint", "taken"))
    ]


def test_a_start_in_seconds_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = "kafka: { bootstrap_servers: 'k:1', topics: [t], start: { timestamp: 1767225600 } }"
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.format(name="shop", checkpoint="state").replace("files: { path: dumps }", source))

    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    (told,) = [r.getMessage() for r in caplog.records]
    assert "source.kafka.start.timestamp: numbers are milliseconds since 1970, and this one is 1970-01-21T10" in told


def test_a_port_beyond_the_last_one_says_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.format(name="shop", checkpoint="state") + "metrics: { port: 99999 }\n")
    with pytest.raises(ConfigError, match=r"metrics\.port: must be at most 65535"):
        load_pipeline(file)


def test_a_duration_without_a_unit_is_refused(tmp_path: Path) -> None:
    """Paimon's own reading, milliseconds, would take rows and snapshots away at once."""
    file = tmp_path / "shop.yaml"
    text = GOOD.format(name="shop", checkpoint="state")
    options = "{ snapshot.time-retained: 12, changelog.time-retained: 12 h, tag.default-time-retained: '0' }"
    file.write_text(f"{text}defaults: {{ options: {options} }}\n")
    with pytest.raises(ConfigError) as error:
        load_pipeline(file)
    (told,) = str(error.value).splitlines()
    assert "option 'snapshot.time-retained': '12' has no unit" in told
    assert told.endswith("write 12 d, 12 h, 12 s or 12 ms")


QUARANTINES = [
    ("lake", "is also the directory of the warehouse"),
    ("lake/shop.db/t", "is in the warehouse"),
    ("state", "is also the directory of the checkpoint"),
    ("file://{}/state/bad", "is in the checkpoint"),
    (".", "contains the warehouse"),
]


@pytest.mark.parametrize(("quarantine", "told"), QUARANTINES)
def test_a_quarantine_among_tables_or_state_is_refused_while_it_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quarantine: str, told: str
) -> None:
    place = quarantine.format(tmp_path)
    file = tmp_path / "shop.yaml"
    good = GOOD.format(name="shop", checkpoint="state")
    file.write_text(good.replace("source: {", f"source: {{ quarantine: '{place}',"))
    with pytest.raises(ConfigError, match=rf"source\.quarantine: {told}"):
        load_pipeline(file)

    (tmp_path / place.removeprefix("file://") / "batch-000000000001").mkdir(parents=True)
    with caplog.at_level("WARNING", logger="pipelines"):
        load_pipeline(file)

    assert f"warning: source.quarantine: {told}" in caplog.text
