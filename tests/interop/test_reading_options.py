"""Options by which a table chooses the rows of its readers: Tidemark gives the rows that Java gives, or refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, UnsupportedFeature
from paimon_table.options.option_parsing import parse_options
from paimon_table.schema.table_schema import create_schema
from paimon_table.table import Table
from paimon_table.types import parse_type
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError
from tests.support.plain_values import Plain, rows_plain, sorted_rows

COLUMNS = [("k", "INT"), ("p", "INT")]


@pytest.fixture(scope="module")
def root(java: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 1, 2 and 3 in as many snapshots, tag ``one`` and branch ``b`` at the first; partition 2 in ``b`` alone."""
    path = tmp_path_factory.mktemp("options") / "t"
    java.create_table(str(path), COLUMNS, ["k", "p"], ["p"], {"bucket": "1"})
    for k in (1, 2, 3):
        java.write(str(path), [["+I", k, 1]], identifier=k)
    java.create_tag(str(path), "one", 1)
    java.create_tag(str(path), "2", 3)
    java.create_branch(str(path), "b", "one")
    java.create_branch(str(path), "c")
    return path


def _state(root: Path, options: dict[str, str]) -> None:
    """Give the table these options; {time} stands for when its second snapshot was made."""
    moment = json.loads((root / "snapshot" / "snapshot-2").read_text())["timeMillis"]
    schema = json.loads((root / "schema" / "schema-0").read_text())
    schema["options"] = {"bucket": "1", **{name: text.format(time=moment) for name, text in options.items()}}
    (root / "schema" / "schema-0").write_text(json.dumps(schema))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scan.snapshot-id": "2"},
        {"scan.tag-name": "one"},
        {"scan.timestamp-millis": "{time}"},
        {"scan.version": "1"},
        {"scan.version": "2"},
        {"scan.version": "one"},
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
        {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
        {"scan.mode": "from-timestamp", "scan.timestamp-millis": "{time}"},
        {"scan.mode": "latest"},
        {"scan.mode": "latest-full"},
        {"scan.max-splits-per-task": "1", "consumer-id": "c", "batch-scan-mode": "incremental"},
        {"branch": "main"},
    ],
    ids=str,
)
def test_rows_are_those_that_java_gives(java: JavaPaimon, root: Path, options: dict[str, str]) -> None:
    _state(root, options)
    by_java = [row[1:] for row in java.read(str(root))]
    table = Table.open_for_reading(str(root))
    assert sorted_rows(rows_plain(table.to_arrow(), table.schema.fields)) == sorted_rows(by_java)
    assert Table.open(str(root)).to_arrow().num_rows == 3, "writers continue from the newest snapshot"
    assert table.to_arrow(snapshot_id=1).num_rows == 1, "a reader's own choice goes first"


@pytest.mark.parametrize("options", [{"scan.snapshot-id": "9"}, {"scan.tag-name": "none"}], ids=str)
def test_a_snapshot_that_is_not_there_is_an_error(java: JavaPaimon, root: Path, options: dict[str, str]) -> None:
    _state(root, options)
    with pytest.raises(WorkerError):
        java.read(str(root))
    with pytest.raises(ConfigError, match="has no"):
        Table.open_for_reading(str(root)).to_arrow()


@pytest.mark.parametrize(
    "options",
    [
        {"scan.timestamp": "2020-01-01 00:00:00"},
        {"scan.watermark": "5"},
        {"scan.file-creation-time-millis": "{time}"},
        {"scan.creation-time-millis": "{time}"},
        {"incremental-between": "1,2"},
        {"scan.mode": "compacted-full"},
        {"branch": "b"},
        {"scan.fallback-branch": "b"},
        {"scan.primary-branch": "b"},
        {"scan.fallback-snapshot-branch": "b"},
        {"scan.fallback-delta-branch": "b"},
    ],
    ids=str,
)
def test_other_choices_are_refused_by_name(root: Path, options: dict[str, str]) -> None:
    _state(root, options)
    with pytest.raises(UnsupportedFeature, match=next(iter(options))):
        Table.open_for_reading(str(root)).to_arrow()


def test_java_reads_other_rows_with_a_branch(java: JavaPaimon, root: Path) -> None:
    """So passing over the options would be silence about rows."""
    found: dict[str, list[Plain]] = {}
    for option in ("branch", "scan.primary-branch"):
        _state(root, {option: "b"})
        found[option] = [row[1] for row in java.read(str(root))]
    assert found == {"branch": [1], "scan.primary-branch": [1]}


def test_no_option_of_java_is_called_unknown(java: JavaPaimon) -> None:
    schema = create_schema([("k", parse_type("INT"))], ["k"], [], {})
    unknown = []
    for name in {*java.option_names()} - {"primary-key", "partition"}:
        try:
            parse_options({name: "1"}, schema)
        except ConfigError as error:
            unknown += [name] if "is unknown" in str(error) and "nearest" in str(error) else []
    assert unknown == []
