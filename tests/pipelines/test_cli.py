"""Exit codes and outputs of `tidemark` without a table or a running pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import TIDEMARK, tidemark, tidemark_process
from tests.support.waiting import seconds

GOOD = """\
version: 1
name: {name}
source: {{ files: {{ path: dumps }}, format: debezium-json }}
checkpoint: {name}-state
catalog: {{ warehouse: lake }}
otherwise: create
"""


def write(directory: Path, name: str) -> Path:
    file = directory / f"{name}.yaml"
    (directory / "dumps").mkdir(exist_ok=True)
    file.write_text(GOOD.format(name=name))
    return file


def test_valid_files_are_listed_on_stdout(tmp_path: Path) -> None:
    files = [write(tmp_path, "a"), write(tmp_path, "b")]
    done = tidemark("validate", *files)
    assert (done.returncode, done.stderr) == (0, "")
    log = ". If the records have no key, the table becomes a log of events"
    assert done.stdout.splitlines() == [
        f"{files[0]}: valid, pipeline a with 0 table rules",
        f"{files[0]}:   {{database}}.{{table}}: fixed buckets: 1{log}",
        f"{files[1]}: valid, pipeline b with 0 table rules",
        f"{files[1]}:   {{database}}.{{table}}: fixed buckets: 1{log}",
    ]


def test_the_bucket_mode_of_each_rule_is_told(tmp_path: Path) -> None:
    rules = {
        "options: { bucket: 4 }": "fixed buckets: 4",
        "options: { bucket: -1 }": "dynamic buckets. If the records have no key, the table becomes a log of events",
        "options: { bucket: -1 }, primary_key: [id, day], partition_by: [day]": "dynamic buckets",
        "options: { bucket: -1 }, primary_key: [id], partition_by: [day]": (
            "dynamic buckets, with rows that move between partitions"
        ),
        "options: { bucket: -1 }, partition_by: [day]": (
            "dynamic buckets; rows move between partitions if the message key does not contain day."
            " If the records have no key, the table becomes a log of events"
        ),
        "options: { bucket: -2 }": "postponed buckets",
        "mode: upsert": "fixed buckets: 1",
        "mode: append": "append, no buckets",
        "mode: append, options: { bucket: 3, bucket-key: id }": "append, fixed buckets: 3",
    }
    lines = [f"  - {{ match: {{ table: t{i} }}, into: lake.t{i}, {rule} }}\n" for i, rule in enumerate(rules)]
    file = write(tmp_path, "a")
    file.write_text(file.read_text().replace("otherwise: create", f"tables:\n{''.join(lines)}otherwise: skip"))
    told = tidemark("validate", file).stdout.splitlines()[1:]
    assert told == [f"{file}:   lake.t{i}: {words}" for i, words in enumerate(rules.values())]


def test_defaults_that_need_a_key_leave_logs_of_events_alone(tmp_path: Path) -> None:
    file = write(tmp_path, "a")
    rules = (
        "defaults: { options: { bucket: 2, changelog-producer: lookup } }\n"
        "tables:\n"
        "  - { match: { table: t0 }, into: lake.t0, mode: append }\n"
        "  - { match: { table: t1 }, into: lake.t1, mode: upsert }\n"
    )
    file.write_text(file.read_text().replace("otherwise: create", f"{rules}otherwise: skip"))
    told = tidemark("validate", file)
    assert (told.returncode, told.stdout.splitlines()[1:]) == (
        0,
        [f"{file}:   lake.t0: append, no buckets", f"{file}:   lake.t1: fixed buckets: 2"],
    )
    own = file.read_text().replace("mode: append", "mode: append, options: { changelog-producer: lookup }")
    file.write_text(own)
    refused = tidemark("validate", file)
    assert (refused.returncode, "needs a primary key; define one or use none" in refused.stderr) == (2, True)


def test_what_an_author_should_know_is_noted_on_stderr(tmp_path: Path) -> None:
    file = write(tmp_path, "a")
    rule = "defaults: { options: { bucket: -2 } }\ntables:\n  - { match: { table: orders }, into: lake.orders }\n"
    file.write_text(file.read_text().replace("otherwise: create", rule + "otherwise: skip"))
    done = tidemark("validate", file)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"{file}: valid, pipeline a with 1 table rule"
    assert done.stderr.startswith(f"{file}: 'bucket' = -2 (lake.orders): readers see rows only after `tidemark table")


def test_what_removal_on_delete_does_within_a_batch_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, "a")
    options = "{ merge-engine: partial-update, partial-update.remove-record-on-delete: true }"
    rules = f"tables:\n  - {{ match: {{ table: orders }}, into: lake.orders, options: {options} }}\n"
    file.write_text(file.read_text().replace("otherwise: create", rules + "otherwise: skip"))
    done = tidemark("validate", file)
    assert done.returncode == 0
    assert f"{file}: 'remove-record-on-delete' (lake.orders): if one batch deletes a key and inserts" in done.stderr
    file.write_text(file.read_text().replace("on-delete: true", "on-delete: false"))
    assert tidemark("validate", file).stderr == ""


def test_problems_go_to_stderr_and_the_code_is_2(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(GOOD.format(name="x").replace("version: 1", "versoin: 1").replace("otherwise", "otherwize"))
    done = tidemark("validate", write(tmp_path, "a"), broken)
    assert done.returncode == 2
    assert done.stdout.splitlines()[0] == f"{tmp_path}/a.yaml: valid, pipeline a with 0 table rules"
    assert done.stderr.splitlines() == [
        f"{broken}:1:1: unknown key 'versoin'; did you mean 'version'?",
        f"{broken}:6:1: unknown key 'otherwize'; did you mean 'otherwise'?",
    ]


def test_run_refuses_a_broken_file_before_anything_starts(tmp_path: Path) -> None:
    done = tidemark("run", tmp_path / "none.yaml", "--once")
    assert done.returncode == 2
    assert done.stderr == f"{tmp_path}/none.yaml: cannot be read: No such file or directory\n"


@pytest.mark.slow
def test_run_without_java_says_what_to_install(tmp_path: Path) -> None:
    done = tidemark_process("run", write(tmp_path, "a"), "--once", JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"Java: JAVA_HOME is {tmp_path}, which has no bin/java; correct it, or install Java 17"
    )
    assert len(done.stderr.splitlines()) == 1


def test_the_schema_is_json_on_stdout() -> None:
    done = tidemark("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout)["required"] == ["version", "name", "source", "checkpoint", "catalog"]


def test_a_wrong_command_has_code_2() -> None:
    assert tidemark("rum").returncode == 2
    assert tidemark("validate").returncode == 2


@pytest.mark.slow
def test_no_stack_trace_unless_asked_for(tmp_path: Path) -> None:
    assert "Traceback" not in tidemark("validate", tmp_path).stderr
    assert "Traceback" in tidemark_process("validate", tmp_path, TIDEMARK_DEBUG="1").stderr


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_failure() -> None:
    code = f"import subprocess, sys; p = subprocess.Popen({[*TIDEMARK, 'schema']!r}, stdout=subprocess.PIPE)\n"
    code += "p.stdout.close(); sys.exit(p.wait())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=seconds(60), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_that_need_no_spark_do_not_load_it(tmp_path: Path) -> None:
    code = "import sys, pipelines.cli; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=seconds(60), check=False).returncode == 0


def test_without_arguments_the_commands_are_listed() -> None:
    done = tidemark()
    assert (done.returncode, done.stderr) == (0, "")
    assert "validate" in done.stdout


def test_the_short_form_of_help_works_everywhere() -> None:
    for words in (["-h"], ["run", "-h"], ["table", "scan", "-h"]):
        assert tidemark(*words).returncode == 0


def test_the_version_is_told_by_option_and_by_command() -> None:
    told = tidemark("--version")
    assert (told.returncode, told.stdout) == (0, tidemark("version").stdout)
    assert told.stdout.startswith("tidemark ")


@pytest.mark.slow
def test_shells_can_complete_the_commands() -> None:
    done = tidemark_process(_TIDEMARK_COMPLETE="complete_bash", COMP_WORDS="tidemark va", COMP_CWORD="1")
    assert done.stdout.split() == ["validate"]


@pytest.mark.slow
def test_warnings_of_a_valid_file_have_places_and_the_code_is_0(tmp_path: Path) -> None:
    file = write(tmp_path, "a")
    file.write_text(file.read_text() + "defaults: { options: { write-buffer-size: 64 mb } }\n")
    done = tidemark_process("validate", file)
    assert done.returncode == 0
    assert done.stderr.startswith(f"{file}:7:24: warning: defaults.options: option 'write-buffer-size' has no effect")
    assert len(done.stderr.splitlines()) == 1


def test_refused_arguments_are_told_in_plain_words() -> None:
    assert tidemark("table", "scan", "x", "--limit", "abc").stderr.endswith(
        "Invalid value for '--limit': expected a whole number\n"
    )
    assert "'-f': 'xml' is not one of" in tidemark("table", "scan", "x", "-f", "xml").stderr


@pytest.mark.parametrize(
    "words",
    [
        ("resume", "x.yaml", "--table", "lake.a", "--table", "lake.b"),
        ("table", "tags", "create", "t", "name", "--snapshot", "1", "--snapshot=2"),
        ("quarantine", "list", "x.yaml", "--table=lake.a", "--table", "lake.b"),
    ],
    ids=lambda words: words[0],
)
def test_an_option_of_one_value_is_given_once(words: tuple[str, ...]) -> None:
    done = tidemark(*words)
    assert (done.returncode, "is given 2 times and takes one value" in done.stderr) == (2, True), done.stderr


def test_an_option_with_one_dash_is_named() -> None:
    done = tidemark("run", "x.yaml", "-once")
    assert (done.returncode, "-once has one dash: write --once" in done.stderr) == (2, True), done.stderr


def test_last_words_act_on_no_terminal(tmp_path: Path) -> None:
    done = tidemark("validate", str(tmp_path / "a\x1b[2J\u202e.yaml"))
    assert done.returncode == 2
    assert "a\\x1b[2J\\u202e.yaml" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_missing_registry_file_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = write(tmp_path, "a")
    form = "{ debezium-avro: { registry: { file: schemas.json } } }"
    file.write_text(file.read_text().replace("format: debezium-json", f"format: {form}"))
    assert tidemark("validate", file).returncode == 0
    (message,) = caplog.messages
    assert (
        message.startswith(f"{file}:3:")
        and "warning: " in message
        and "the file or directory does not exist" in message
    )
    caplog.clear()
    (tmp_path / "schemas.json").write_text("{}")
    assert tidemark("validate", file).returncode == 0
    assert caplog.messages == []


def test_a_table_of_dms_records_needs_a_key_in_its_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def checked(rule: str) -> subprocess.CompletedProcess[str]:
        caplog.clear()
        file = write(tmp_path, "a")
        rules = f"tables:\n  - {{ match: {{ table: t }}, into: lake.t{rule} }}\n"
        file.write_text(file.read_text().replace("debezium-json", "dms-json").replace("otherwise: create", rules))
        return tidemark("validate", file)

    wrong = checked(", mode: upsert")
    assert (
        wrong.returncode == 2
        and "needs a primary key, and records of dms-json name none; set primary_key in this rule" in wrong.stderr
    )
    assert checked("").returncode == 0
    (message,) = caplog.messages
    assert "a.yaml:7:28: warning: " in message and "lake.t becomes a log of events" in message
    for rule in (", primary_key: [id]", ", mode: append"):
        assert (checked(rule).returncode, caplog.messages) == (0, [])
