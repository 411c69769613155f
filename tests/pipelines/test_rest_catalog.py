"""Pipelines whose tables a REST catalog owns: what they bring, what the file may say, what is refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from paimon_table.catalog.catalog import Catalog
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import ConfigError, Outage
from pipelines.checkpoint.replay_state import Kind, Point, ReplayState
from pipelines.config.config_file import load_pipeline
from pipelines.config.config_reference import reference_page
from pipelines.prepared import prepared
from pipelines.replay.rebuild_requests import with_rebuild
from pipelines.storage import catalog_of, hold_secrets
from pipelines.trial.trial_pipeline import TrialPipeline
from tests.stack.rest_catalog import RestServer, rest_server
from tests.support.command import tidemark
from tests.support.keyed_events import batch_of, created, run_through_outages
from tests.support.plain_values import sorted_rows

ORDERS = TableName("lake", "t")
FILE = """\
version: 1
name: shop
source: {{ files: {{ path: dump }}, format: debezium-json }}
checkpoint: state
catalog:
  type: rest
  uri: {uri}
  warehouse: shop
  {token}
defaults: {{ options: {{ bucket: 2, changelog-producer: lookup }} }}
tables:
  - match: {{ table: t }}
    into: lake.t
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "lake", token="secret") as running:
        yield running


def file_of(server: RestServer, directory: Path, token: str = "token: secret", text: str = FILE) -> Path:
    (directory / "dump").mkdir(exist_ok=True)
    file = directory / "shop.yaml"
    file.write_text(text.format(uri=server.uri, token=token))
    return file


def trial(server: RestServer, directory: Path) -> tuple[TrialPipeline, Catalog]:
    config = load_pipeline(file_of(server, directory))
    catalog = catalog_of(config)
    return TrialPipeline(config, directory / "trial", catalog), catalog


@pytest.mark.slow
@pytest.mark.parametrize("is_old", [False, True], ids=["server", "server of 1.4"])
def test_every_record_is_in_the_table_once_whatever_happens_to_answers(
    server: RestServer, tmp_path: Path, is_old: bool
) -> None:
    server.is_old = is_old
    pipeline, catalog = trial(server, tmp_path)
    draw, offset = random.Random(7), 0
    for number in range(8):
        events = [created({"id": offset + i}, n=number, **({"extra": i} if number > 3 else {})) for i in range(3)]
        server.faults[:] = draw.choices(["ok", "lost", "done 503", "503", "cut"], k=draw.randrange(6))
        records = batch_of(offset, events)
        offset += 3
        run_through_outages(pipeline, records)
        if draw.random() < 0.4:
            pipeline.restart()
    table = catalog.load(ORDERS)
    rows = [[i, i // 3, i % 3 if i > 11 else None] for i in range(offset)]
    assert sorted_rows([list(row.values()) for row in table.to_arrow().to_pylist()]) == sorted_rows(rows)
    commits = Counter((s.commit_kind, s.commit_identifier) for s in table.snapshots.newest_first())
    assert set(commits.values()) == {1}
    changes = [row for _, piece in table.changes() for row in piece.column("id").to_pylist()]
    assert sorted(changes) == list(range(offset))
    assert server.table("lake", "t").schema_id == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_late", [False, True], ids=["before the batch runs again", "after that"])
def test_a_commit_that_the_server_carries_out_late_finds_its_files(
    server: RestServer, tmp_path: Path, is_late: bool
) -> None:
    pipeline, catalog = trial(server, tmp_path)
    pipeline.run(batch_of(0, [created({"id": 1}, n=1)]))
    server.faults.append("late")
    records = batch_of(1, [created({"id": 2}, n=2)])
    with pytest.raises(Outage, match="did not confirm POST"):
        pipeline.run(records)
    if not is_late:
        server.finish_late()
    pipeline.restart()
    pipeline.run(records)
    server.finish_late()
    table = catalog.load(ORDERS)
    assert sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist()) == [(1, 1), (2, 2)]
    appended = [s.commit_identifier for s in table.snapshots.newest_first() if s.commit_kind == "APPEND"]
    assert appended == [1, 0]


@pytest.mark.slow
def test_a_killed_batch_is_finished_on_the_server(server: RestServer, tmp_path: Path) -> None:
    pipeline, catalog = trial(server, tmp_path)
    pipeline.run_killed(batch_of(0, [created({"id": 1}, n=1)]))
    pipeline.run(batch_of(1, [({"id": 1}, "u", {"id": 1, "n": 1}, {"id": 1, "n": 2})]))
    table = catalog.load(ORDERS)
    assert [row["n"] for row in table.to_arrow().to_pylist()] == [2]
    assert [s.commit_kind for s in table.snapshots.newest_first()][::-1] == ["APPEND", "COMPACT"] * 2


def test_the_token_may_stand_in_a_file_that_changes(server: RestServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    catalog = catalog_of(load_pipeline(file_of(server, tmp_path, "token_file: token")))
    assert catalog.names() == []
    server.token = "another"
    token.write_text("another")
    assert catalog.names() == []
    token.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"catalog\.token_file .*token is not text"):
        catalog.names()
    token.write_text(" ")
    with pytest.raises(ConfigError, match=r"catalog\.token_file .*token is empty"):
        catalog.names()
    token.unlink()
    with pytest.raises(ConfigError, match=r"catalog\.token_file .*token cannot be read"):
        catalog.names()


def test_a_server_that_is_down_is_told_before_spark_starts(tmp_path: Path) -> None:
    with rest_server(tmp_path / "lake") as server:
        file = file_of(server, tmp_path, token="")
    with pytest.raises(Outage, match=r"catalog server .* does not answer .*start it, or check catalog\.uri"):
        prepared(load_pipeline(file))
    planned = tidemark("plan", file)
    assert planned.returncode != 0
    assert "start it, or check catalog.uri" in planned.stdout + planned.stderr


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("uri: {uri}", "uri: ftp://host", "7:8: catalog.uri: expected the address of a server"),
        ("uri: {uri}", "uri: 127.0.0.1:8080", "7:8: catalog.uri: expected the address of a server"),
        ("uri: {uri}", "uri: http://host/caf\u00e9", "7:8: catalog.uri: expected the address of a server"),
        ("uri: {uri}", "uri: http://host/a b", "7:8: catalog.uri: expected the address of a server"),
        ("uri: {uri}", f"uri: http://{'a' * 70}.com", "7:8: catalog.uri: expected the address of a server"),
        ("{token}", "options: {{ 'header.X Team': x }}", "'header.X Team' does not name a header; write header.NAME"),
        ("uri: {uri}", "uri: http://me:word@host", "7:8: catalog.uri: logs would show a login in the address"),
        ("uri: {uri}", "uri: https://dlf.cn-hangzhou.aliyuncs.com", "catalog.uri: DLF signs requests"),
        ("  uri: {uri}\n", "", "`type: rest` needs the address of the server; add `uri: http://HOST:PORT`"),
        (
            "type: rest",
            "type: filesystem",
            "`uri` has no effect with `type: filesystem`; set `type: jdbc` or `type: rest`",
        ),
        ("type: rest", "type: hive", "catalog type hive is not supported yet; use filesystem, jdbc or rest"),
        ("{token}", "tokn: x", "did you mean 'token'?"),
        ("{token}", "token: x\n  token_file: y", "`token` and `token_file` both set the token"),
        ("{token}", "options: {{ token.provider: dlf }}", "DLF signs requests, which Tidemark does not do yet"),
        ("{token}", "options: {{ dlf.region: cn }}", "DLF signs requests, which Tidemark does not do yet"),
        ("{token}", "options: {{ uri: x }}", "'uri' is a key of `catalog` itself"),
        ("{token}", "options: {{ s3.endpont: x }}", "unknown storage option 's3.endpont'; did you mean 's3.endpoint'?"),
    ],
)
def test_what_a_file_says_wrong_about_the_server_is_told_at_its_place(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    assert before in FILE
    file = file_of(RestServer(tmp_path, port=1), tmp_path, "token: secret", FILE.replace(before, after))
    done = tidemark("validate", file)
    assert done.returncode == 2
    assert said in done.stderr
    assert "word" not in done.stderr


@pytest.mark.slow
def test_storage_options_and_headers_of_a_server_are_taken(tmp_path: Path) -> None:
    options = "options: {{ s3.access-key: k, s3.secret-key: s, header.X-Team: data }}"
    config = load_pipeline(file_of(RestServer(tmp_path, port=1), tmp_path, "", FILE.replace("{token}", options)))
    hold_secrets(config)
    assert config.catalog.location is None
    assert config.catalog.place == "shop at http://127.0.0.1:1"
    assert "header.NAME" in reference_page()


@pytest.fixture
def written(server: RestServer, tmp_path: Path) -> Path:
    """The file of a pipeline that has written its table."""
    pipeline, _ = trial(server, tmp_path)
    pipeline.run(batch_of(0, [created({"id": 1}, n=1)]))
    return tmp_path / "shop.yaml"


@pytest.mark.slow
def test_commands_that_read_work_and_those_that_write_files_are_refused(server: RestServer, written: Path) -> None:
    before = sorted(str(path) for path in server.directory.rglob("*"))
    for command in ("show", "scan", "changes", "snapshots", "schemas", "files", "tags list", "branches list"):
        done = tidemark("table", *command.split(), "lake.t", "--config", written)
        assert done.returncode == 0, done.stderr
    refused = {
        "compact": (),
        "sort": ("--by", "n"),
        "analyze": (),
        "rescale": ("--buckets", "3"),
        "drop-partition": ("--partition", "n=1"),
        "truncate": ("--yes",),
        "expire": (),
        "rollback": ("--snapshot", "1"),
        "remove-orphans": (),
        "repair": (),
        "remove-duplicates": (),
        "tags create": ("x",),
        "tags delete": ("x",),
        "tags rollback": ("x",),
        "branches create": ("x",),
        "branches delete": ("x",),
        "consumers reset": ("x",),
        "consumers delete": ("x",),
    }
    for command, more in refused.items():
        done = tidemark("table", *command.split(), "lake.t", *more, "--config", written)
        assert done.returncode == 2, (command, done)
        assert f"table {command}` changes only the files of a table" in done.stderr
        assert "Use an engine that writes through the catalog" in done.stderr
    assert sorted(str(path) for path in server.directory.rglob("*")) == before


@pytest.mark.slow
def test_a_rebuild_is_refused_because_the_server_owns_branches(written: Path) -> None:
    config = load_pipeline(written)
    state = ReplayState("r1", "lake.t", Point(Kind.EARLIEST), None, ("shop.public.t",))
    with pytest.raises(ConfigError, match=r"the REST catalog .*Use --into-place, or write into a new table"):
        with_rebuild(config, state, catalog_of(config).load(ORDERS), allows_missing=False)
