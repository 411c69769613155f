"""What the page answers to whom: names, other sites, tokens, and requests that are none."""

from __future__ import annotations

import http.client
import json
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from paimon_table.errors import ConfigError
from pipelines.catchup.side_work import COMMANDS
from pipelines.config.config_file import load_pipeline
from pipelines.http.page.app import MOST_LISTENERS
from pipelines.http.page.token_file import token_path
from tests.pipelines.http.files import pipeline_file
from tests.pipelines.http.live_page import HUGE, TAG, LivePage, desk, live_page
from tests.support.waiting import seconds

ACTION = json.dumps({"pipeline": "shop", "table": "lake.orders", "action": "compact"})
PRIVATE = (
    "/api/rows?pipeline=shop&table=lake.orders",
    "/api/changes?pipeline=shop&table=lake.orders",
    "/api/quarantine?pipeline=shop",
    "/api/token",
    "/api/actions?number=job-0",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    with live_page(tmp_path_factory.mktemp("page"), hosts=["lake.example"]) as page:
        page.batch(("orders", {"id": 1, "note": TAG}), ("orders", {"id": 2, "note": HUGE}), ("orders", None))
        page.batch(("orders", {"id": 3, "note": None}))
        yield page


def ask(
    page: LivePage, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    address = urlsplit(page.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=seconds(30))
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def snapshots(page: LivePage) -> int:
    return page.tables.sinks["lake.orders"].table.snapshots.latest_id() or 0


def test_numbers_need_no_token(page: LivePage) -> None:
    code, text, headers = ask(page, "/api/state")
    (shop,) = json.loads(text)["pipelines"]
    assert (code, shop["records"], shop["actions"]) == (200, 4, ["compact"])
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert "access-control-allow-origin" not in headers
    assert page.token not in text


@pytest.mark.parametrize("path", PRIVATE)
@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic {token}", "Bearer {token}x", "{token}"])
def test_rows_and_bad_records_need_the_token(page: LivePage, path: str, authorization: str) -> None:
    code, text, _ = ask(page, path, Authorization=authorization.format(token=page.token))
    assert (code, json.loads(text)) == (401, {"error": "enter the token of the page first"})


def test_with_the_token_they_are_told_long_values_cut(page: LivePage) -> None:
    code, text, _ = ask(page, PRIVATE[0], Authorization=f"Bearer {page.token}")
    found = json.loads(text)
    notes = [row[found["columns"].index("note")] for row in found["rows"]]
    assert (code, notes[0], notes[2]) == (200, TAG, None)
    assert notes[1].endswith("… (1,000,000 characters)") and len(notes[1]) < 600
    code, text, _ = ask(page, PRIVATE[2], Authorization=f"Bearer {page.token}")
    (group,) = json.loads(text)["groups"]
    assert (code, group["count"]) == (200, 1) and "script" in group["examples"][0]["record"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", "[::2]:{port}", "[::1]evil",
        "127.0.0.1:{port}, evil.example", "127.0.0.1:{port}@evil.example", "localhost:evil", "localhost:{port}/evil",
    ],
)  # fmt: skip
def test_other_names_for_this_machine_are_refused(page: LivePage, host: str) -> None:
    name = host.format(port=urlsplit(page.url).port)
    for path in ("/", "/api/state", "/api/events", PRIVATE[0]):
        assert ask(page, path, Host=name, Authorization=f"Bearer {page.token}")[0] == 421


@pytest.mark.parametrize("host", ["localhost:1234", "LOCALHOST", "127.0.0.1:{port}", "[::1]:{port}", "lake.example"])
def test_its_own_names_are_taken(page: LivePage, host: str) -> None:
    assert ask(page, "/api/state", Host=host.format(port=urlsplit(page.url).port))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
    ],
)
def test_requests_of_other_sites_change_nothing_even_with_the_token(page: LivePage, headers: dict[str, str]) -> None:
    before = snapshots(page)
    given = {"Content_Type": "application/json", "Authorization": f"Bearer {page.token}", **headers}
    assert ask(page, "/api/actions", "POST", ACTION, **given)[0] == 403
    assert ask(page, "/api/state", **headers)[0] == 403
    assert snapshots(page) == before


def test_a_link_of_another_site_leads_to_the_page_and_a_form_to_nothing(page: LivePage) -> None:
    headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(page, "/", **headers)[0] == 200
    given = {"Content_Type": "application/json", "Authorization": f"Bearer {page.token}", **headers}
    before = snapshots(page)
    assert ask(page, "/api/actions", "POST", ACTION, **given)[0] == 403
    assert snapshots(page) == before


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (ACTION, {}, 401),
        (ACTION, {"Authorization": "Bearer {token}"}, 415),
        (ACTION, {"Authorization": "Bearer {token}", "Content_Type": "text/plain"}, 415),
        ("{", {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 400),
        ("[" * 4_000, {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 400),
        ("[]", {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 400),
        ("{}", {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 400),
        (
            ACTION.replace("compact", "drop"),
            {"Authorization": "Bearer {token}", "Content_Type": "application/json"},
            404,
        ),
        (
            ACTION.replace("orders", "none"),
            {"Authorization": "Bearer {token}", "Content_Type": "application/json"},
            404,
        ),
        (ACTION.replace("shop", "none"), {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 404),
        ("x" * 10_000, {"Authorization": "Bearer {token}", "Content_Type": "application/json"}, 413),
    ],
)
def test_what_is_no_action_with_a_token_changes_nothing(
    page: LivePage, body: str, headers: dict[str, str], code: int
) -> None:
    before = snapshots(page)
    given = {name: value.format(token=page.token) for name, value in headers.items()}
    found, text, _ = ask(page, "/api/actions", "POST", body, **given)
    assert (found, "error" in json.loads(text), snapshots(page)) == (code, True, before)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/state", "/api/table?pipeline=shop&table=lake.orders"])
def test_only_actions_take_more_than_reading(page: LivePage, method: str, path: str) -> None:
    assert ask(page, path, method, "", Authorization=f"Bearer {page.token}")[0] == 405


@pytest.mark.parametrize("path", ["/page/../../config", "/..%2f..%2fapp.py", "/page.py", "/api/none", f"/{quote('ä')}"])
def test_there_is_nothing_else(page: LivePage, path: str) -> None:
    assert ask(page, path)[0] == 404


def test_levels_and_history_of_a_table_are_told(page: LivePage) -> None:
    code, text, _ = ask(page, "/api/table?pipeline=shop&table=lake.orders")
    found = json.loads(text)
    assert code == 200
    assert [run["level"] for run in found["buckets"][0]["runs"]] == [0, 0]
    assert [one["id"] for one in found["snapshots"]] == list(range(snapshots(page), 0, -1))
    assert found["schemas"][-1]["changes"] == ["+ id BIGINT NOT NULL", "+ note STRING"]


@pytest.mark.slow
def test_events_are_a_stream_of_states(page: LivePage) -> None:
    address = urlsplit(page.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=seconds(30))
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    seen: list[dict[str, Any]] = []
    for _ in range(2):
        line = answer.fp.readline()
        while not line.startswith(b"data: "):
            line = answer.fp.readline()
        seen.append(json.loads(line[6:]))
    connection.close()
    assert answer.getheader("content-type", "").startswith("text/event-stream")
    assert len(seen[0]["pipelines"][0]["history"]) == 2 and seen[0]["pipelines"][0]["name"] == "shop"


@pytest.mark.slow
def test_partitions_are_named_with_the_token_alone(tmp_path: Path) -> None:
    with live_page(tmp_path, partition_by=["note"]) as page:
        page.batch(("orders", {"id": 1, "note": "Ada"}), ("orders", {"id": 2, "note": "Grace"}))
        path = "/api/table?pipeline=shop&table=lake.orders"
        _, hidden, _ = ask(page, path)
        _, shown, _ = ask(page, path, Authorization=f"Bearer {page.token}")
    assert "Ada" not in hidden and "Grace" not in hidden
    assert [one["partition"] for one in json.loads(hidden)["buckets"]] == ["partition 1", "partition 2"]
    assert [one["partition"] for one in json.loads(shown)["buckets"]] == ["note=Ada", "note=Grace"]


def test_streams_that_nobody_reads_keep_nobody_out(page: LivePage) -> None:
    address = urlsplit(page.url)
    with ExitStack() as stack:
        streams = []
        for _ in range(MOST_LISTENERS + 1):
            connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=seconds(30))
            stack.callback(connection.close)
            connection.request("GET", "/api/events")
            streams.append(connection.getresponse())
        assert [answer.status for answer in streams] == [200] * (MOST_LISTENERS + 1)
        assert streams[-1].fp.readline()
        streams[0].read()  # which ends


@pytest.mark.slow
def test_the_token_is_made_anew_private_and_gone_with_the_run(tmp_path: Path) -> None:
    with live_page(tmp_path) as page:
        file = token_path(page.tables.config)
        first = page.token
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and len(first) >= 32
    assert not file.exists()
    with live_page(tmp_path) as page:
        assert page.token != first


@pytest.mark.slow
def test_a_token_of_the_file_is_taken_and_a_short_one_refused(tmp_path: Path) -> None:
    with live_page(tmp_path, token="correct horse battery") as page:
        assert ask(page, "/api/token", Authorization="Bearer correct horse battery")[0] == 200
        assert not token_path(page.tables.config).exists()
    with pytest.raises(ConfigError, match=r"ui\.token"):
        load_pipeline(pipeline_file(tmp_path, ui={"token": "short"}))


def test_page_and_metrics_cannot_share_a_port(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`metrics` listens on the same port"):
        load_pipeline(pipeline_file(tmp_path, ui={"port": 9464}, metrics={}))


def test_a_compaction_that_was_asked_for_is_done(page: LivePage) -> None:
    given = {"Content_Type": "application/json", "Authorization": f"Bearer {page.token}"}
    code, text, _ = ask(page, "/api/actions", "POST", ACTION, Origin=page.url, **given)
    assert code == 200
    number = json.loads(text)["number"]
    outcome = {"state": "working"}
    while outcome["state"] == "working":
        outcome = json.loads(ask(page, f"/api/actions?number={number}", Authorization=f"Bearer {page.token}")[1])
    assert outcome == {"state": "done", "text": "compacted: 2 files -> 1 file"}


def outcome_of(page: LivePage, **asks: object) -> dict[str, str]:
    """Ask for an action with the token, and wait for its end."""
    given = {"Content_Type": "application/json", "Authorization": f"Bearer {page.token}"}
    code, text, _ = ask(
        page, "/api/actions", "POST", json.dumps({"pipeline": "shop", **asks}), Origin=page.url, **given
    )
    assert code == 200, text
    found: dict[str, str] = {"state": "working"}
    while found["state"] == "working":
        path = f"/api/actions?number={quote(json.loads(text)['number'])}"
        found = json.loads(ask(page, path, Authorization=f"Bearer {page.token}")[1])
    return found


def test_the_running_pipeline_is_asked_to_pause_and_resume(page: LivePage) -> None:
    with desk(page) as taken:
        for command in COMMANDS:
            assert outcome_of(page, table="lake.orders", action=command) == {"state": "done", "text": f"{command}d"}
    assert taken == ["pause lake.orders", "resume lake.orders"]
    with pytest.raises(AssertionError, match="there is no such action"):
        outcome_of(page, table="lake.orders", action="pause")


@pytest.mark.parametrize("number", ["", "job-99", "request-99", "shop/../../../../etc/passwd"])
def test_what_was_not_asked_for_has_no_outcome(page: LivePage, number: str) -> None:
    code, text, _ = ask(page, f"/api/actions?number={quote(number)}", Authorization=f"Bearer {page.token}")
    assert (code, json.loads(text)["state"]) == (200, "failed")


@pytest.mark.slow
def test_bad_records_are_retried_as_the_command_does_it(tmp_path: Path) -> None:
    with live_page(tmp_path) as page:
        page.batch(("orders", {"id": 1}), ("orders", None))
        found = outcome_of(page, action="retry", table="lake.none")
        assert (found["state"], found["text"]) == ("done", "retried 0 records: 0 are in their tables")
        found = outcome_of(page, action="retry")
        assert found["state"] == "done", found
        assert found["text"].startswith("retried 1 record: 0 are in their tables; 1 stays in the quarantine")
