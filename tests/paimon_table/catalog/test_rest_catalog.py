"""A catalog behind a server: commits whose answer is lost, other writers, tables made anew, what the server says."""

from __future__ import annotations

import json
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.catalog.rest_catalog import RestCatalog
from paimon_table.catalog.rest_client import RestClient, RestSettings, Unanswered
from paimon_table.catalog.rest_schema import schema_changes, schema_document
from paimon_table.catalog.rest_table import ServerSnapshots
from paimon_table.catalog.table_name import TableName
from paimon_table.errors import (
    ConfigError,
    Outage,
    SchemaChangeRefused,
    SinkUnavailable,
    UnsupportedFeature,
)
from paimon_table.maintenance.expiration import Surroundings
from paimon_table.maintenance.job import Job
from paimon_table.maintenance.tidying import tidy
from paimon_table.schema.table_schema import TableSchema, create_schema
from paimon_table.storage.file_io import file_io_for
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import (
    AddColumn,
    DescribeColumn,
    DropColumn,
    NullableColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    TextColumn,
    WidenColumn,
    apply_changes,
)
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.stack.rest_catalog import Refused, RestServer, applied, rest_server
from tests.support.builders import orders_schema
from tests.support.table_driver import TableDriver

ORDERS = TableName("lake", "orders")
LOG = create_schema(
    [("day", parse_type("STRING")), ("id", parse_type("INT"))], [], ["day"], {"bucket": "-1", "write-only": "true"}
)


@pytest.fixture(params=[False, True], ids=["server", "server of 1.4"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "warehouse", token="secret", is_old=request.param) as running:
        yield running


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "warehouse") as running:
        yield running


def catalog_of(server: RestServer, **more: Any) -> RestCatalog:
    given = {"token": lambda: server.token, "sleep_s": lambda _: None, **more}
    return RestCatalog(RestClient(RestSettings(server.uri, "shop", **given)), file_io_for)


def driver_of(server: RestServer, directory: Path, user: str = "driver", **more: Any) -> TableDriver:
    return TableDriver(catalog_of(server, **more).create(ORDERS, LOG), directory / "lookup", user)


def is_once(driver: TableDriver, ids: range) -> bool:
    """Whether the table has each row once, and each commit one snapshot."""
    commits = Counter((s.commit_user, s.commit_identifier) for s in driver.table.snapshots.newest_first())
    return driver.content() == [["monday", i] for i in ids] and set(commits.values()) == {1}


DONE = ("lost", "half", "done 503", "done 524", "done page", "done 404 page")
NOT_DONE = ("cut", "503", "524", "page", "404 page")


@pytest.mark.parametrize("fault", [*DONE, *NOT_DONE])
def test_a_commit_without_an_answer_is_in_the_table_once(server: RestServer, tmp_path: Path, fault: str) -> None:
    driver = driver_of(server, tmp_path)
    for i in range(3):
        commit, messages = driver.table.new_commit("driver"), messages_of(driver, i)
        server.faults += [fault, "ok"]
        try:
            commit.commit(i, messages, {})
            assert fault in DONE, "nothing was done"
        except Unanswered:
            assert fault in NOT_DONE
            driver.table.new_commit("driver").commit(i, messages, {})
        server.faults.clear()
        assert driver.table.new_commit("driver").commit(i, messages, {}).replayed
    assert is_once(driver, range(3))


def messages_of(driver: TableDriver, i: int) -> list[Any]:
    """What one commit of one row brings."""
    rows = driver.arrow([["+I", "monday", i]])
    environment = WriterEnvironment("unused")
    live = driver.state().live_files()
    messages = []
    for bucket, part in driver.table.assign(rows, live, environment).buckets.items():
        writer = driver.table.bucket_writer(bucket, live.of(bucket), environment)
        writer.write(part)
        messages.append(writer.prepare_commit())
    return messages


@pytest.mark.parametrize("is_late", [False, True], ids=["before it is repeated", "after it was repeated"])
def test_a_commit_that_is_carried_out_after_the_client_gave_up_is_there_once(
    server: RestServer, tmp_path: Path, is_late: bool
) -> None:
    driver = driver_of(server, tmp_path)
    messages = messages_of(driver, 0)
    server.faults += ["late"]
    with pytest.raises(Unanswered, match="did not confirm POST"):
        driver.table.new_commit("driver").commit(1, messages, {})
    if not is_late:
        server.finish_late()
    driver.table.new_commit("driver").commit(1, messages, {})
    server.finish_late()
    assert is_once(driver, range(1))
    assert server.commits == 1


def test_a_server_that_learns_of_uuids_takes_commits_on_what_it_stored_without(
    server: RestServer, tmp_path: Path
) -> None:
    one = driver_of(server, tmp_path / "one", "one")
    one.commit([["+I", "monday", 0]])
    server.is_old = False
    one.commit([["+I", "monday", 1]])
    server.is_old = True
    one.commit([["+I", "monday", 2]])
    server.is_old = False
    two = driver_of(server, tmp_path / "two", "two")
    two.commit([["+I", "monday", 3]])
    assert is_once(one, range(4))


def test_who_loses_a_race_commits_on_top_of_the_winner(server: RestServer, tmp_path: Path) -> None:
    one, two = driver_of(server, tmp_path, "one"), driver_of(server, tmp_path, "two")
    one.commit([["+I", "monday", 0]])
    server.before_commit = partial(two.commit, [["+I", "monday", 1]])
    one.commit([["+I", "monday", 2]])
    assert is_once(one, range(3))
    assert [s.commit_user for s in one.table.snapshots.newest_first()] == ["one", "two", "one"]


@pytest.mark.slow
def test_two_writers_at_the_same_time_lose_nothing(server: RestServer, tmp_path: Path) -> None:
    drivers = [driver_of(server, tmp_path / user, user) for user in ("one", "two")]

    def write(driver: TableDriver, first: int) -> None:
        for i in range(first, first + 4):
            driver.commit([["+I", "monday", i]])

    threads = [threading.Thread(target=write, args=(d, 4 * n)) for n, d in enumerate(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_once(drivers[0], range(8))
    assert server.table("lake", "orders").records == {'{"day": "monday"}': 8}


def test_a_table_made_anew_gets_nothing_of_who_wrote_the_old_one(server: RestServer, tmp_path: Path) -> None:
    driver = driver_of(server, tmp_path)
    driver.commit([["+I", "monday", 0]])
    catalog = catalog_of(server)
    catalog.drop(ORDERS)
    anew = driver_of(server, tmp_path, "another")
    with pytest.raises(ConfigError, match="dropped and recreated"):
        driver.commit([["+I", "monday", 1]])
    assert anew.table.snapshots.latest() is None
    with pytest.raises(ConfigError, match="dropped and recreated"):
        driver.evolve([AddColumn("x", parse_type("INT"))])
    catalog.drop(ORDERS)
    with pytest.raises(ConfigError, match="was dropped"):
        driver.commit([["+I", "monday", 2]])


@pytest.mark.slow
def test_snapshots_expire_as_their_options_say(server: RestServer, tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2", "bucket": "1"}
    columns = [("id", parse_type("INT"))]
    table = catalog_of(server).create(ORDERS, create_schema(columns, ["id"], [], options))
    driver = TableDriver(table, tmp_path / "lookup")
    for i in range(5):
        driver.commit([["+I", i]], full_compact=True)
    tidied = tidy(table, Surroundings(), Job(WriterEnvironment(str(tmp_path / "lookup2"))))
    assert len(tidied.expired.snapshots) == 8
    assert [s.id for s in table.snapshots.newest_first()] == [10, 9]
    driver.commit([["+I", 5]])
    assert driver.content() == [[i] for i in range(6)]


def test_tasks_read_files_and_know_no_server(server: RestServer, tmp_path: Path) -> None:
    driver = driver_of(server, tmp_path)
    driver.commit([["+I", "monday", 0]])
    sent = pickle.dumps(driver.table.context)
    assert b"secret" not in sent
    context = pickle.loads(sent)
    assert context.newest is None
    assert context.snapshots.latest_id() == 1


def test_the_newest_snapshot_is_what_the_server_says(new_server: RestServer, tmp_path: Path) -> None:
    driver = driver_of(new_server, tmp_path)
    driver.commit([["+I", "monday", 0]])
    newest = driver.table.snapshots.latest()
    assert newest is not None
    # a file that nobody has committed, and the newest one not there yet
    driver.table.io.write(
        driver.table.paths.snapshot_file(2), driver.table.io.read(driver.table.paths.snapshot_file(1))
    )
    driver.table.io.delete(driver.table.paths.snapshot_file(1))
    assert driver.table.snapshots.latest() == driver.table.snapshots.find(1) == newest
    assert driver.table.snapshots.latest_id() == 1
    assert isinstance(driver.table.context.newest, ServerSnapshots)


def test_all_pages_of_a_list_are_read(new_server: RestServer) -> None:
    catalog = catalog_of(new_server)
    names = [TableName(database, f"t {i}") for database in ("a", "b c", "d+") for i in range(3)]
    for name in names:
        catalog.create(name, orders_schema())
    assert catalog.names() == names
    assert catalog.names("b c") == names[3:6]


# ---------------------------------------------------------------- schemas

TYPES = (
    "INT",
    "BIGINT",
    "STRING",
    "ROW<a INT, b ROW<c INT>>",
    "ARRAY<ROW<a INT>>",
    "MAP<STRING, INT>",
    "DECIMAL(8, 2)",
)
WIDER = {
    "INT": "BIGINT",
    "ROW<a INT, b ROW<c INT>>": "ROW<a BIGINT, b ROW<c INT, d INT>, e STRING>",
    "ARRAY<ROW<a INT>>": "ARRAY<ROW<a BIGINT, b MAP<STRING, INT>>>",
    "MAP<STRING, INT>": "MAP<STRING, BIGINT>",
    "DECIMAL(8, 2)": "DECIMAL(12, 2)",
}
FIRST = create_schema(
    [("id", parse_type("INT")), *((f"c{i}", parse_type(t).with_nullable(i % 2 == 0)) for i, t in enumerate(TYPES))],
    ["id"],
    options={"bucket": "1", "snapshot.num-retained.max": "9"},
)
COLUMNS = st.sampled_from([f"c{i}" for i in range(9)])
CHANGES = st.one_of(
    st.builds(AddColumn, COLUMNS, st.sampled_from([parse_type(t) for t in TYPES]), st.none() | st.just("id") | COLUMNS),
    st.builds(DropColumn, COLUMNS),
    st.builds(RenameColumn, COLUMNS, COLUMNS),
    st.builds(NullableColumn, COLUMNS),
    st.builds(TextColumn, COLUMNS),
    st.builds(DescribeColumn, COLUMNS, st.sampled_from(["one", "two"])),
    st.builds(WidenColumn, COLUMNS, st.sampled_from([parse_type(t) for t in WIDER.values()])),
    st.builds(SetOption, st.just("snapshot.num-retained.max"), st.sampled_from([None, "7", "8"])),
)


def shape(fields: Any) -> Any:
    """Fields without their ids, which the server gives, and without what is unset."""
    if isinstance(fields, Mapping):
        return {key: shape(value) for key, value in fields.items() if key != "id" and value is not None}
    return [shape(one) for one in fields] if isinstance(fields, list) else fields


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_the_changes_sent_make_the_schema_that_is_wanted(changes: list[SchemaChange]) -> None:
    after: TableSchema = FIRST
    for change in changes:
        with suppress(ConfigError, SchemaChangeRefused):
            after = apply_changes(after, [change], 1)
    try:
        sent = schema_changes(FIRST, after)
    except UnsupportedFeature as error:
        assert "swap their names" in str(error)
        return
    document, _ = applied(schema_document(FIRST, {}), json.loads(json.dumps(sent)), FIRST.highest_field_id)
    wanted = schema_document(after, {})
    assert shape(document["fields"]) == shape(wanted["fields"])
    assert (document["options"], document["primaryKeys"]) == (wanted["options"], wanted["primaryKeys"])


def test_two_who_change_one_schema_both_get_their_columns(new_server: RestServer) -> None:
    one = catalog_of(new_server).create(ORDERS, orders_schema())
    two = catalog_of(new_server).load(ORDERS)
    one.evolve([AddColumn("x", parse_type("INT"))], time_ms=5)
    evolved = two.evolve([AddColumn("y", parse_type("INT")), AddColumn("x", parse_type("INT"))], time_ms=6)
    assert evolved.schema.column_names[-2:] == ("x", "y")
    assert evolved.evolve([AddColumn("x", parse_type("INT"))], time_ms=7) == evolved


# ---------------------------------------------------------------- what a server says


def test_defaults_and_overrides_of_the_server_count(tmp_path: Path) -> None:
    defaults = {"header.X-Team": "server", "table-default.bucket": "4", "table-default.file.format": "orc"}
    with rest_server(tmp_path, prefix=None, defaults=defaults, overrides={"header.X-Zone": "z"}) as server:
        catalog = catalog_of(server, options={"header.X-Team": "mine", "header.X-Zone": "mine"})
        table = catalog.create(ORDERS, orders_schema({"bucket": "2"}))
        assert {"X-Team": "mine", "X-Zone": "z"}.items() <= server.headers.items()
        assert {"bucket": "2", "file.format": "orc"}.items() <= table.schema.options.items()


def test_a_token_that_changes_is_used_from_then_on(new_server: RestServer) -> None:
    new_server.token = "one"
    catalog = catalog_of(new_server)
    catalog.create(ORDERS, orders_schema())
    new_server.token = "two"
    assert catalog.names() == [ORDERS]
    with pytest.raises(SinkUnavailable, match=r"rejects the token .*check catalog\.token") as refused:
        catalog_of(new_server, token=lambda: "old").check()
    assert not isinstance(refused.value, Outage)
    assert "old" not in str(refused.value)
    for broken in ("two\nX: y", "zwei\u00fc"):
        with pytest.raises(ConfigError, match="such as a line break") as spoiled:
            catalog_of(new_server, token=partial(str, broken)).check()
        assert broken not in str(spoiled.value)
    catalog_of(new_server, token=lambda: "two\n").check()


def test_a_busy_server_is_asked_again_and_one_that_is_down_is_an_outage(new_server: RestServer) -> None:
    waits: list[float] = []

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        new_server.is_down = len(waits) < 2

    catalog = catalog_of(new_server, sleep_s=sleep)
    catalog.check()
    new_server.is_down = True
    assert catalog.names() == []
    assert len(waits) == 2
    new_server.is_down = True
    with pytest.raises(Outage, match="does not answer"):
        catalog_of(new_server).names()
    nobody = RestCatalog(RestClient(RestSettings("http://127.0.0.1:1", "shop")), file_io_for)
    with pytest.raises(Outage, match=r"http://127.0.0.1:1 does not answer .*start it, or check catalog.uri"):
        nobody.check()


@pytest.mark.parametrize("fault", ["half", "page", "404 page", "524"])
def test_what_a_gateway_answers_says_nothing_of_the_tables(new_server: RestServer, tmp_path: Path, fault: str) -> None:
    catalog = catalog_of(new_server)
    for i in range(3):
        catalog.create(TableName("lake", f"t{i}"), orders_schema())
    driver = driver_of(new_server, tmp_path)
    driver.commit([["+I", "monday", 0]])
    for ask in (catalog.names, partial(catalog.find, ORDERS), driver.table.snapshots.latest, catalog.check):
        new_server.read_faults[:] = [fault] * 3
        with pytest.raises(Outage, match="does not answer"):
            ask()
    new_server.read_faults[:] = ["half"]
    assert len(catalog.names()) == 4


@pytest.mark.parametrize(
    ("told", "error", "text"),
    [
        ({"overrides": {"data-token.enabled": "true"}}, UnsupportedFeature, "storage credentials for each table"),
        ({"warehouse": "other"}, ConfigError, r"has no warehouse 'shop'; check catalog.uri and catalog.warehouse"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_by_name(
    tmp_path: Path, told: dict[str, Any], error: type[Exception], text: str
) -> None:
    with rest_server(tmp_path, **told) as server, pytest.raises(error, match=text):
        catalog_of(server).check()


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (200, b"<html>hello</html>", ConfigError, "it is not a Paimon REST catalog"),
        (404, b"not found", ConfigError, "check catalog.uri and catalog.warehouse"),
        (302, b"", ConfigError, "redirects"),
        (403, b'{"message": "not yours"}', SinkUnavailable, "status 403, not yours"),
        (501, b"{}", UnsupportedFeature, "cannot do this"),
        (400, b'{"message": "what?"}', ConfigError, "refuses GET"),
    ],
)
def test_an_answer_of_something_else_is_an_error_with_its_remedy(
    status: int, body: bytes, error: type[Exception], text: str
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        client = RestClient(RestSettings(f"http://127.0.0.1:{http.server_address[1]}", "shop"))
        with pytest.raises(error, match=text):
            RestCatalog(client, file_io_for).check()
        http.shutdown()
        thread.join()


def test_tables_that_this_machine_cannot_reach_are_refused_with_the_place(new_server: RestServer) -> None:
    catalog = catalog_of(new_server)
    catalog.create(ORDERS, orders_schema())
    table = new_server.table("lake", "orders")
    here, table.root = table.root, Path("/nowhere/orders")
    with pytest.raises(SinkUnavailable, match=r"names file:/nowhere/orders.* reaches the same storage"):
        catalog.find(ORDERS)
    table.root = here
    new_server.location = "oss://bucket/orders"
    with pytest.raises(UnsupportedFeature, match=r"names oss://bucket/orders.* 'oss' is not supported"):
        catalog.find(ORDERS)
    new_server.location, new_server.is_external = None, True
    with pytest.raises(UnsupportedFeature, match="is external"):
        catalog.find(ORDERS)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: {**r, "tableId": "another"},
        lambda r: {**r, "snapshot": {**r["snapshot"], "baseManifestList": "missing"}},
        lambda r: {**r, "snapshot": {**r["snapshot"], "schemaId": 7}},
        lambda r: {**r, "statistics": []},
        lambda r: {**r, "more": 1},
    ],
)
def test_the_server_of_these_tests_believes_nothing(
    new_server: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], Any]
) -> None:
    driver = driver_of(new_server, tmp_path)
    commit = new_server.commit
    monkeypatch.setattr(new_server, "commit", lambda database, name, body: commit(database, name, spoil(body)))
    with pytest.raises(ConfigError):
        driver.commit([["+I", "monday", 0]])
    assert driver.table.snapshots.latest() is None


def test_a_change_that_does_not_apply_is_refused() -> None:
    for change in ({"action": "dropColumn", "fieldNames": ["id"]}, {"action": "dropColumn", "fieldNames": ["none"]}):
        with pytest.raises(Refused):
            applied(schema_document(FIRST, {}), [change], 9)
    swapped = replace(
        FIRST,
        fields=(FIRST.fields[0], *(replace(f, name=n) for f, n in zip(FIRST.fields[1:3], ("c1", "c0"), strict=True))),
    )
    with pytest.raises(UnsupportedFeature, match="swap their names"):
        schema_changes(replace(FIRST, fields=FIRST.fields[:3]), swapped)
