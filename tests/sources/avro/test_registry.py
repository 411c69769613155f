"""Schemas from a registry over HTTP: what is asked for, what is kept, and what each failure means."""

from __future__ import annotations

import base64
import json
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError, MalformedRecord, Outage
from sources.avro.framing import RefKind, SchemaRef
from sources.avro.registry import AVRO, Registry, SchemaFiles, registry_of
from sources.avro.registry_client import RegistryClient
from sources.avro.registry_settings import RegistrySettings, settings_problem
from sources.avro.writer_schema import AvroKind, Node
from tests.stack.certificates import Authority
from tests.support.registry_server import RegistryServer, running_registry

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
GUID = "89791762-2336-4186-9674-299b90a802e2"


def ref(name: object, kind: RefKind = RefKind.ID) -> SchemaRef:
    return SchemaRef(kind, str(name))


def registry(server: RegistryServer, **settings: Any) -> Registry[Node]:
    asked = RegistrySettings(url=(server.url(),), timeout=timedelta(seconds=1), **settings)
    return Registry(asked, RegistryClient(asked), AVRO)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_registry(RegistryServer({"1": RECORD, GUID: "long"})) as running:
        yield running


def test_a_schema_is_asked_for_once(server: RegistryServer) -> None:
    schemas = registry(server)

    assert schemas.schema(ref(1)) is schemas.schema(ref(1))
    assert schemas.schema(ref(GUID, RefKind.GUID)).kind is AvroKind.LONG
    assert [path for path, _ in server.requests] == ["/schemas/ids/1", f"/schemas/guids/{GUID}"]


@pytest.mark.slow
def test_two_registries_have_their_own_schema_of_one_id(server: RegistryServer) -> None:
    with running_registry(RegistryServer({"1": "string"})) as other:
        first, second = (registry_of(RegistrySettings(url=(s.url(),)), AVRO) for s in (server, other))

        assert [r.schema(ref(1)).kind for r in (first, second)] == [AvroKind.RECORD, AvroKind.STRING]
        assert registry_of(RegistrySettings(url=(server.url(),)), AVRO) is first


def test_an_id_that_the_registry_does_not_know_blames_the_record_and_is_asked_for_again_later(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = registry(server)
    for _ in range(3):
        with pytest.raises(MalformedRecord, match=r"^schema 9 does not exist in registry http://127.0.0.1:\d+$"):
            schemas.schema(ref(9))
    assert len(server.requests) == 1

    server.schemas["9"] = "int"
    monkeypatch.setattr("sources.avro.registry._UNKNOWN_FOR_S", 0.0)

    assert schemas.schema(ref(9)).kind is AvroKind.INT


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["500", "502", "503", "429", "slow", "wrong JSON", "text", "cut"])
def test_a_registry_that_fails_is_trouble_that_passes(server: RegistryServer, failure: str) -> None:
    schemas = registry(server)
    server.failure = failure
    told = r"no schema registry answers \(http://127.0.0.1:\d+: .+\): Tidemark retries schema 1"
    with pytest.raises(Outage, match=told):
        schemas.schema(ref(1))

    server.failure = None

    assert schemas.schema(ref(1)).kind is AvroKind.RECORD


def test_a_registry_that_is_not_there_is_trouble_that_passes() -> None:
    settings = RegistrySettings(url=("http://127.0.0.1:9",), timeout=timedelta(seconds=1), proxy="none")
    with pytest.raises(Outage, match="Connection refused"):
        Registry(settings, RegistryClient(settings), AVRO).schema(ref(1))


def test_the_next_address_is_asked_where_one_fails(server: RegistryServer) -> None:
    with running_registry(RegistryServer({"1": RECORD, "2": "int"}, failure="503")) as broken:
        settings = RegistrySettings(url=(broken.url(), server.url()))
        schemas = Registry(settings, RegistryClient(settings), AVRO)

        assert schemas.schema(ref(1)).kind is AvroKind.RECORD
        with pytest.raises(MalformedRecord):
            schemas.schema(ref(2))
        assert len(broken.requests) == 1  # what has answered is asked first


@pytest.mark.parametrize(("status", "told"), [("401", "refuses the login"), ("403", "refuses the login")])
def test_a_refused_login_is_for_a_person_to_mend(server: RegistryServer, status: str, told: str) -> None:
    server.failure = status
    with pytest.raises(ConfigError, match=told):
        registry(server).schema(ref(1))


@pytest.mark.parametrize("status", ["400", "422"])
def test_a_refused_id_blames_the_record_in_the_words_of_the_registry(server: RegistryServer, status: str) -> None:
    server.failure = status

    with pytest.raises(MalformedRecord, match=rf"{re.escape(server.url())} refuses schema 1 \({status}: down\)$"):
        registry(server).schema(ref(1))


def test_an_address_that_is_no_registry_blames_no_record(server: RegistryServer) -> None:
    settings = RegistrySettings(url=(server.url() + "/wrong",))
    server.prefix = "/right"
    with pytest.raises(ConfigError, match=r"/wrong is not a schema registry \(404 for schema 1"):
        Registry(settings, RegistryClient(settings), AVRO).schema(ref(1))


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"username": "me", "password": "s3cret:ü"}, "Basic " + base64.b64encode("me:s3cret:ü".encode()).decode()),
        ({"token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_logins_are_sent_and_never_shown(
    server: RegistryServer, settings: dict[str, Any], sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.login = sent
    asked = RegistrySettings(url=(server.url(),), **settings)

    assert registry(server, **settings).schema(ref(1)).kind is AvroKind.RECORD
    with pytest.raises(ConfigError) as refused:
        registry(server, token="other").schema(ref(1))
    shown = f"{asked!r} {asked} {asked.name} {refused.value} {caplog.text}"
    assert not [secret for secret in ("s3cret", "t0ken", "other", sent) if secret in shown]
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_a_login_does_not_follow_a_redirect_to_another_host(server: RegistryServer) -> None:
    with running_registry(RegistryServer({"1": RECORD})) as other:
        server.failure, server.elsewhere = "redirect", other.url()

        registry(server, token="t0ken").schema(ref(1))

        assert other.requests == [("/schemas/ids/1", None)]


@pytest.mark.slow
def test_a_certificate_of_an_own_authority_is_trusted_by_its_file(tmp_path: Path, server: RegistryServer) -> None:
    authority = Authority.made_in(tmp_path / "authority")
    certificate = authority.certify("registry", "IP:127.0.0.1", 10)
    with running_registry(RegistryServer({"1": RECORD}), certificate) as secure:
        settings = RegistrySettings(url=(secure.url("https"),), ca=str(authority.pem))

        assert Registry(settings, RegistryClient(settings), AVRO).schema(ref(1)).kind is AvroKind.RECORD
        strange = replace(settings, ca=None)
        with pytest.raises(ConfigError, match=r"certificate of registry .* is not trusted .*: name the authority"):
            Registry(strange, RegistryClient(strange), AVRO).schema(ref(1))
    with pytest.raises(ConfigError, match=r"registry.ca .*none.pem cannot be used"):
        RegistryClient(replace(settings, ca=str(tmp_path / "none.pem")))


def test_a_proxy_is_asked_in_place_of_the_registry(server: RegistryServer) -> None:
    settings = RegistrySettings(url=("http://registry.invalid:8081",), proxy=server.url())

    assert Registry(settings, RegistryClient(settings), AVRO).schema(ref(1)).kind is AvroKind.RECORD
    assert server.requests == [("http://registry.invalid:8081/schemas/ids/1", None)]


def test_schemas_that_refer_to_others_are_read_with_them(server: RegistryServer) -> None:
    server.subjects = {("inner value", 3): json.dumps({"type": "enum", "name": "x.E", "symbols": ["A"]})}
    outer = {"type": "record", "name": "x.R", "fields": [{"name": "e", "type": "E"}]}
    references = [{"name": "x.E", "subject": "inner value", "version": 3}]
    server.schemas["4"] = {"schema": json.dumps(outer), "references": references}

    node = registry(server).schema(ref(4))

    assert node.fields[0].node.symbols == ("A",)
    assert server.requests[-1][0] == "/subjects/inner%20value/versions/3"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"schema": "message X {}", "schemaType": "PROTOBUF"}, "schema 5 of .* is of type PROTOBUF, not Avro"),
        ({"schema": "{"}, "schema 5 of .* cannot be used: it is not JSON"),
        ({"schema": '{"type": "record", "name": "R"}'}, "cannot be used: it is not an Avro schema"),
        ({"schema": '{"type": "nothing"}'}, "uses a type 'nothing' that it does not define"),
        ({"schema": "[" * 500 + "]" * 500}, "nested deeper than 100 levels|no Avro schema"),
    ],
)
def test_a_schema_that_is_no_avro_blames_the_record(server: RegistryServer, answer: Any, told: str) -> None:
    server.schemas["5"] = answer
    with pytest.raises(MalformedRecord, match=told):
        registry(server).schema(ref(5))


def test_apicurio_is_asked_for_its_global_ids_in_its_own_api(server: RegistryServer) -> None:
    server.prefix, server.global_ids, server.schemas = "/apis/ccompat/v7", {"7": RECORD}, {"7": "int", "8": "long"}
    schemas = registry(server)

    assert schemas.schema(ref(7, RefKind.GLOBAL_ID)).kind is AvroKind.RECORD
    assert schemas.schema(ref(7, RefKind.CONTENT_ID)).kind is AvroKind.INT
    with pytest.raises(MalformedRecord, match="schema with globalId 8 does not exist in registry"):
        schemas.schema(ref(8, RefKind.GLOBAL_ID))
    assert server.requests[0][0] == "/apis/registry/v2/ids/globalIds/7?dereference=true"


def test_schemas_come_from_files_too(tmp_path: Path) -> None:
    file, directory = tmp_path / "schemas.json", tmp_path / "schemas"
    file.write_text(json.dumps({"schemas": {"1": RECORD, GUID: {"schema": '"int"'}}}))
    directory.mkdir()
    (directory / "1.avsc").write_text(json.dumps(RECORD))

    for place in (file, directory):
        assert SchemaFiles(str(place)).find(ref(1), "").text == json.dumps(RECORD)
    assert SchemaFiles(str(file)).find(ref(GUID, RefKind.GUID), "").text == '"int"'
    with pytest.raises(MalformedRecord, match=r"schema 2 is not in registry\.file"):
        SchemaFiles(str(directory)).find(ref(2), "")
    with pytest.raises(ConfigError, match=r"registry.file .*none cannot be read: No such file"):
        SchemaFiles(str(tmp_path / "none")).find(ref(1), "")
    file.write_text("[]")
    with pytest.raises(ConfigError, match="is not a JSON object"):
        SchemaFiles(str(file)).find(ref(1), "")


@pytest.mark.parametrize(
    ("settings", "at", "told"),
    [
        ({}, "", "exactly one of `url` and `file`"),
        ({"url": ("http://a",), "file": "x"}, "", "exactly one of `url` and `file`"),
        ({"file": "x", "token": "t"}, "token", "no effect with `file`"),
        ({"file": "s3://a/b.json"}, "file", "is not a local path"),
        ({"url": ("a:8081",)}, "url", "not an address of a registry"),
        ({"url": ("http://a:99999",)}, "url", "ports are 1 to 65535"),
        ({"url": ("http://me:pw@a",)}, "url", "holds no user and password"),
        ({"url": ("http://a?x=1",)}, "url", "no `\\?`"),
        ({"url": ("http://a",), "username": "u"}, "password", "together"),
        ({"url": ("http://a",), "username": "u", "password": "p", "token": "t"}, "token", "either `token` or"),
        ({"url": ("http://a",), "ca": "x"}, "ca", "no effect: no address begins with https"),
        ({"url": ("https://a",), "key": "x"}, "key", "without `certificate`"),
        ({"url": ("http://a",), "proxy": "a:3128"}, "proxy", "http://HOST:PORT"),
        ({"url": ("http://a",), "timeout": timedelta(hours=1)}, "timeout", "at most 5m"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, Any], at: str, told: str) -> None:
    problem = settings_problem(RegistrySettings(**settings))

    assert problem is not None
    assert problem[0] == at
    assert re.search(told, problem[1])
    assert "pw" not in problem[1]
