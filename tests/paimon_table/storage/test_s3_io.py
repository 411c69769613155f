"""Tables on S3, against a small endpoint that speaks the protocol over HTTP."""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.session import get_session
from botocore.stub import Stubber

from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.storage import s3_clients
from paimon_table.storage.file_io import file_io_for
from paimon_table.storage.outages import storage_failure
from paimon_table.storage.s3_clients import S3Settings, region_of
from paimon_table.storage.s3_io import S3FileIO
from paimon_table.table import Table
from tests.support.builders import committer, data_file, message, orders_schema
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def options(server: S3Server) -> dict[str, str]:
    return {
        "s3.endpoint": server.endpoint,
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.path.style.access": "true",
    }


@pytest.fixture
def io(server: S3Server) -> S3FileIO:
    found = file_io_for("s3://warehouse", options(server))[0]
    assert isinstance(found, S3FileIO)
    return found


def test_objects_are_written_read_listed_and_deleted(io: S3FileIO) -> None:
    io.write_all([(f"s3://warehouse/t/m/{n}", b"x" * n) for n in range(5)])
    io.write("s3://warehouse/t/m/sub/y", b"y")
    assert io.list_names("s3://warehouse/t/m") == ["0", "1", "2", "3", "4", "sub"]
    assert io.list_names("s3://warehouse/t/none") == []
    assert (io.read("s3://warehouse/t/m/3"), io.size_bytes("s3://warehouse/t/m/4")) == (b"xxx", 4)
    io.delete("s3://warehouse/t/m/3")
    io.delete("s3://warehouse/t/m/3")
    assert not io.exists("s3://warehouse/t/m/3")
    with pytest.raises(FileNotFoundError):
        io.read("s3://warehouse/t/m/3")
    with pytest.raises(FileNotFoundError):
        io.open_input("s3://warehouse/t/m/3")


def test_keys_keep_every_character_that_paths_of_partitions_have(io: S3FileIO, server: S3Server) -> None:
    names = sorted(["dt=2024-01-01 10%3A00", "ä", "a+b&c", "q?#", "~[x]*", "..a", "'\"", "a\\b", "{^|<>`}"])
    for name in names:
        io.write(f"s3://warehouse/t/{name}/f", name.encode())
    assert {key.split("/")[2] for key in server.objects} == set(names)
    assert io.list_names("s3://warehouse/t") == names
    assert [io.read(f"s3://warehouse/t/{name}/f").decode() for name in names] == names
    io.delete_all([f"s3://warehouse/t/{name}/f" for name in names])
    assert server.objects == {}


def test_a_name_that_no_store_takes_is_refused_for_good(io: S3FileIO) -> None:
    with pytest.raises(OSError, match=r"^s3://warehouse/t/a\nb: ") as failure:
        io.write("s3://warehouse/t/a\nb", b"x")
    assert not isinstance(failure.value, ConnectionError)


@pytest.mark.parametrize("refused", [False, True])
def test_aws_says_in_which_region_a_bucket_is(refused: bool) -> None:
    client = get_session().create_client(
        "s3", region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s"
    )
    headers = {"x-amz-bucket-region": "eu-west-1"}
    with Stubber(client) as aws:
        if refused:
            aws.add_client_error("head_bucket", "403", http_status_code=403, response_meta={"HTTPHeaders": headers})
        else:
            aws.add_response("head_bucket", {"ResponseMetadata": {"HTTPHeaders": headers}})
        assert region_of(client, "lake") == "eu-west-1"


@pytest.mark.parametrize(
    ("bucket", "options", "place", "in_host"),
    [
        ("lake", {}, "https://lake.s3.eu-west-1.amazonaws.com", True),
        ("lake", {"s3.path.style.access": "true"}, "https://s3.eu-west-1.amazonaws.com", False),
        ("la.ke", {}, "https://s3.eu-west-1.amazonaws.com", False),
        ("lake", {"s3.endpoint": "https://vpce-1.s3.eu-west-1.vpce.amazonaws.com"}, None, False),
        ("lake", {"s3.endpoint": "HTTP://minio:9000/s3"}, "http://minio:9000/s3", False),
    ],
)
def test_a_bucket_is_looked_for_where_it_is(
    bucket: str, options: dict[str, str], place: str | None, in_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_clients, "region_of", lambda *_args: "eu-west-1")
    io = file_io_for(f"s3://{bucket}/t", {"s3.access-key": "k", "s3.secret-key": "s", **options})[0]
    assert isinstance(io, S3FileIO)

    found = s3_clients.store_of(io.settings, bucket).config

    assert found["endpoint"] == (options["s3.endpoint"] if place is None else place)
    assert found["virtual_hosted_style_request"] in ((True, "true") if in_host else (False, "false"))


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_listings_name_each_child_once_whatever_the_pages(page_size: int) -> None:
    with s3_server(page_size=page_size) as server:
        io, root = file_io_for("s3://warehouse/t", options(server))
        for name in ("a", "b/1", "b/2", "b/c/3", "b.1", "b0", "gone"):
            io.write(f"{root}/{name}", b"x")
        io.write("s3://warehouse/t2/other", b"x")
        io.delete(f"{root}/gone")
        server.requests.clear()

        assert io.list_names(root) == ["a", "b", "b.1", "b0"]

        assert len(server.requests) == -(-4 // page_size)
        assert [found.name for found in io.list_files(f"{root}/b")] == ["1", "2"]


def test_parquet_files_stream_both_ways(io: S3FileIO) -> None:
    rows = pa.table({"a": list(range(1000))})
    with io.open_output("s3://warehouse/t/bucket-0/data-1.parquet") as stream:
        pq.write_table(rows, stream)
    travelled = pickle.loads(pickle.dumps(io))
    with travelled.open_input("s3://warehouse/t/bucket-0/data-1.parquet") as stream:
        assert pq.read_table(stream) == rows


def test_a_small_file_is_one_request_and_a_large_one_goes_in_parts(io: S3FileIO, server: S3Server) -> None:
    small, large = b"x" * 1_000_000, bytes(range(256)) * 60_000
    for name, content in (("small", small), ("large", large)):
        server.requests.clear()
        with io.open_output(f"s3://warehouse/t/{name}") as stream:
            for start in range(0, len(content), 1 << 18):
                stream.write(content[start : start + (1 << 18)])
        assert server.objects[f"warehouse/t/{name}"] == content
        assert (len(server.requests) == 1) is (name == "small"), server.requests


def test_failed_stream_leaves_no_object(io: S3FileIO, server: S3Server) -> None:
    with pytest.raises(KeyError), io.open_output("s3://warehouse/t/f") as stream:
        stream.write(b"half")
        raise KeyError
    assert server.objects == {}


def test_published_object_is_never_replaced(io: S3FileIO, server: S3Server) -> None:
    path = "s3://warehouse/t/snapshot/snapshot-1"
    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(lambda n: io.publish(path, str(n).encode()), range(8)))
    assert sum(won) == 1
    assert server.objects == {"warehouse/t/snapshot/snapshot-1": str(won.index(True)).encode()}


def test_store_that_ignores_the_condition_is_refused() -> None:
    with s3_server(honours_conditions=False) as careless:
        io, path = file_io_for("s3://warehouse/t", options(careless))
        with pytest.raises(ConfigError, match="ignores If-None-Match"):
            io.publish(f"{path}/snapshot/snapshot-1", b"1")
        assert careless.objects == {}


def test_a_store_is_tried_out_once_for_all_tables_of_a_bucket(io: S3FileIO, server: S3Server) -> None:
    for _ in range(2):
        for table in range(70):
            io.publish(f"s3://warehouse/t{table}/snapshot/snapshot-1", b"1")
    assert sum("probe" in request for request in server.requests) == 3  # written, refused, deleted


def test_conflict_answer_is_tried_again(io: S3FileIO, server: S3Server) -> None:
    io.publish("s3://warehouse/t/snapshot/snapshot-1", b"1")
    server.fail_next_put = 409
    assert io.publish("s3://warehouse/t/snapshot/snapshot-2", b"2")


def test_server_error_leaves_the_outcome_unknown_or_finds_the_own_object(io: S3FileIO, server: S3Server) -> None:
    """The client repeats the request after a 500; the repetition finds the object of the first try."""
    io.publish("s3://warehouse/t/snapshot/snapshot-1", b"1")
    server.fail_next_put = 500
    assert not io.publish("s3://warehouse/t/snapshot/snapshot-2", b"2")
    assert server.objects["warehouse/t/snapshot/snapshot-2"] == b"2"


@pytest.mark.slow
def test_unreachable_store_leaves_the_outcome_unknown(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    io, path = file_io_for("s3://warehouse/u", options(server))
    io.publish(f"{path}/snapshot/snapshot-1", b"1")
    server.is_unreachable = True
    with pytest.raises(CommitOutcomeUnknown, match="may or may not"):
        io.publish(f"{path}/snapshot/snapshot-2", b"2")


@pytest.mark.slow
def test_table_is_created_committed_and_continued(server: S3Server) -> None:
    table = Table.create("s3://warehouse/lake.db/orders", orders_schema(), options(server))
    commit = committer(table)
    a = data_file("a")
    commit.commit(1, [message(0, new_files=[a], compact_before=[a], compact_after=[a.at_level(5)])], {})
    server.fail_next_put = 500
    result = commit.commit(2, [message(1, new_files=[data_file("b")])], {})
    opened = Table.open("s3://warehouse/lake.db/orders", options(server))
    assert opened.snapshots.latest() == result.append
    state = opened.state(result.append)
    assert sorted(f.file_name for files in state.files.values() for f in files) == ["a", "b"]
    assert committer(opened).commit(2, [message(1, new_files=[data_file("b")])], {}).replayed
    assert not any("probe" in key for key in server.objects)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"s3.endpoint": "minio:9000"}, {}),
        ({"s3.region": "no such"}, {}),
        ({}, {"AWS_PROFILE": "nobody"}),
    ],
    ids=["endpoint", "region", "profile"],
)
def test_settings_that_make_no_client_are_told_as_such(
    options: dict[str, str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigError, match=r"cannot create a client for S3 .*check s3\.endpoint"):
        file_io_for("s3://bucket/lake", options)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((404, FileNotFoundError), (403, PermissionError), (401, PermissionError), (400, OSError)),
        *((503, ConnectionError), (429, ConnectionError)),
    ],
)
def test_answers_of_the_store_become_errors_of_the_operating_system(
    io: S3FileIO, server: S3Server, status: int, kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server.answers_with = status
    path = "s3://warehouse/t/key"
    for ask in (
        lambda: io.read(path),
        lambda: io.write(path, b"x"),
        lambda: io.size_bytes(path),
        lambda: io.list_names(path),
        lambda: io.delete_all([path]),
        lambda: io.delete_tree(path),
        lambda: _stream(io, path),
    ):
        with pytest.raises(OSError, match=rf"^s3://warehouse/t/key: [^\n]*(?:{status}|Refused)[^\n]*$") as failure:
            ask()
        assert type(failure.value) is kind


@pytest.mark.parametrize("size", [10, 20_000_000])
@pytest.mark.parametrize(("status", "kind"), [(503, ConnectionError), (403, PermissionError)])
def test_a_refused_upload_is_told_as_such(
    io: S3FileIO, server: S3Server, size: int, status: int, kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    server.answers_with, server.refused_method = status, "PUT"
    said = rf"^s3://warehouse/t/f: status code {status} [^\n]*Refused, not now$"
    with pytest.raises(kind, match=said), io.open_output("s3://warehouse/t/f") as stream:
        stream.write(b"x" * size)
    assert server.objects == {}


def test_an_error_of_the_caller_stays_as_it_is(io: S3FileIO, server: S3Server) -> None:
    with pytest.raises(ValueError, match=r"^mine$"), io.open_output("s3://warehouse/t/f") as stream:
        stream.write(b"x" * 20_000_000)
        raise ValueError("mine")
    assert server.requests == [] and server.uploads == {}


def test_errors_hold_nothing_of_an_answer_but_its_code_and_message(io: S3FileIO, server: S3Server) -> None:
    server.answers_with, server.detail = 400, "<Token-0>LIVETOKEN</Token-0>\n<CanonicalRequest>LIVETOKEN"
    for ask in (io.read, io.size_bytes, io.list_names, lambda path: io.write(path, b"x")):
        with pytest.raises(OSError) as failure:
            ask("s3://warehouse/t/key")
        assert "LIVETOKEN" not in "".join(traceback.format_exception(failure.value))


def test_keys_that_are_no_paths_are_listed_and_removed(io: S3FileIO, server: S3Server) -> None:
    for key in ("t/", "t/sub/", "t/a", "t//b", "t/../c", "t/\x7f", "t"):
        server.store(f"warehouse/{key}", b"")
    assert io.list_names("s3://warehouse/t") == ["", "..", "a", "sub", "\x7f"][1:]
    io.delete_tree("s3://warehouse/t")
    assert [*server.objects] == ["warehouse/t"]


def test_all_clients_share_the_models_of_botocore() -> None:
    """A copy takes 0.2 s to read, and 15 MB of memory."""
    first, second = (s3_clients.aws(S3Settings(endpoint=f"http://127.0.0.1:{port}", region="r"))[0] for port in (1, 2))
    assert first is not second
    assert first.get_component("data_loader") is second.get_component("data_loader")


def test_paths_on_s3_are_written_in_one_way(server: S3Server) -> None:
    assert file_io_for("s3a://b//lake///t/", options(server))[1] == "s3://b/lake/t"
    with pytest.raises(ConfigError, match=r"no '\.' or '\.\.'"):
        file_io_for("s3://b/lake/../t", options(server))


@pytest.mark.parametrize("certificates", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_told(
    io: S3FileIO, certificates: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    if certificates is not None:
        file.write_text(f"-----BEGIN CERTIFICATE-----\n{certificates}\n-----END CERTIFICATE-----\n")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(file))
    with pytest.raises(ConfigError, match="AWS_CA_BUNDLE"):
        io.exists("s3://warehouse/t/key")
    with pytest.raises(ConfigError, match="not a valid bucket name"):
        io.exists("s3://ware house/t/key")


def test_a_signal_is_heard_while_the_store_does_not_answer(io: S3FileIO, server: S3Server) -> None:
    def interrupt(*_args: object) -> None:
        raise KeyboardInterrupt("heard")

    io.write("s3://warehouse/t/key", b"x")
    server.delay_s = 20.0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for ask in (io.read, io.exists, io.list_names, lambda path: io.publish(path, b"x")):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            began_s = time.monotonic()
            with pytest.raises(KeyboardInterrupt, match="heard"):
                ask("s3://warehouse/t/key")
            assert time.monotonic() - began_s < 10
    finally:
        signal.signal(signal.SIGALRM, before)


def _stream(io: S3FileIO, path: str) -> None:
    with io.open_output(path) as stream:
        stream.write(b"x")


def test_a_store_that_is_not_reached_is_an_error_of_the_operating_system() -> None:
    io, path = file_io_for(
        "s3://bucket/key", {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key": "k", "s3.secret-key": "s"}
    )
    with pytest.raises(ConnectionError, match=r"^s3://bucket/key: .*127\.0\.0\.1:1.*\(Connection refused\)$"):
        io.read(path)


def test_many_objects_are_deleted_and_their_times_are_told(io: S3FileIO) -> None:
    paths = [f"s3://warehouse/t/many/{n}" for n in range(20)]
    io.write_all([(path, b"x") for path in paths])
    assert abs(io.modified_ms(paths[0]) - time.time() * 1000) < 3_600_000
    io.delete_all([*paths[:15], "s3://warehouse/t/many/none"])
    assert len(io.list_names("s3://warehouse/t/many")) == 5
    assert io.delete_if_empty("s3://warehouse/t/many")
    assert len(io.list_names("s3://warehouse/t/many")) == 5
    with pytest.raises(FileNotFoundError):
        io.modified_ms("s3://warehouse/t/many/none")


def test_files_are_listed_with_sizes_and_times(io: S3FileIO) -> None:
    io.write_all([(f"s3://warehouse/t/d/{n}", b"x" * n) for n in range(5)])
    io.write("s3://warehouse/t/d/sub/file", b"x")
    found = io.list_files("s3://warehouse/t/d")
    assert [(file.name, file.size_bytes) for file in found] == [(str(n), n) for n in range(5)]
    assert all(abs(file.modified_ms - time.time() * 1000) < 60_000 for file in found)
    assert io.list_files("s3://warehouse/t/none") == []


def test_a_machine_without_credentials_is_told_which_keys_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {"CONFIG_FILE": tmp_path / "none", "SHARED_CREDENTIALS_FILE": tmp_path / "none"}.items():
        monkeypatch.setenv(f"AWS_{name}", str(value))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    io, path = file_io_for("s3://lake/warehouse", {"s3.endpoint": "http://127.0.0.1:1"})

    for ask in (io.read, io.list_names):
        with pytest.raises(PermissionError) as told:
            ask(path)

        assert str(storage_failure(told.value)) == (
            "storage cannot be read or written: s3://lake/warehouse: no AWS credentials were found; set "
            "s3.access-key and s3.secret-key under catalog.options, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in"
            " the environment"
        )
