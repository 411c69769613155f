"""`source.format: debezium-avro` in pipeline files: what is taken, refused at its place, and never shown."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pipelines.config.config_file import load_pipeline
from pipelines.config.json_schema import pipeline_schema
from pipelines.control.requests import digest_of_rules
from sources.avro.registry_settings import RegistrySettings
from sources.debezium_avro.decoder import DebeziumAvroDecoder
from sources.debezium_avro.options import AvroOptions
from tests.support.command import tidemark

YAML = """\
version: 1
name: shop
source:
  files: {{ path: dumps }}
  format: {form}
checkpoint: state
catalog: {{ warehouse: lake }}
otherwise: create
"""


FILES = {"ca": "ca.pem", "certificate": "own.pem", "key": "own.key"}


def written(directory: Path, form: str) -> Path:
    (directory / "dumps").mkdir(exist_ok=True)
    (directory / "dumps" / "a.jsonl").touch()
    file = directory / "shop.yaml"
    file.write_text(YAML.format(form=form))
    return file


def decoder(directory: Path, form: str) -> DebeziumAvroDecoder:
    found = load_pipeline(written(directory, form)).source.format.decoder
    assert isinstance(found, DebeziumAvroDecoder)
    return found


def test_all_options_of_a_registry_reach_the_decoder(tmp_path: Path) -> None:
    registry = (
        "{ url: [https://a:1, https://b], username: u, password: p, ca: ca.pem, certificate: own.pem, key: own.key,"
        " proxy: http://proxy:3128, timeout: 2s }"
    )
    found = decoder(tmp_path, f"{{ debezium-avro: {{ registry: {registry}, key_format: text, on_message: fail }} }}")

    places = {name: str(tmp_path / file) for name, file in FILES.items()}
    expected = replace(
        RegistrySettings(("https://a:1", "https://b"), username="u", password="p", proxy="http://proxy:3128"),
        timeout=timedelta(seconds=2),
        ca=places["ca"],
        certificate=places["certificate"],
        key=places["key"],
    )
    assert found.options == AvroOptions(expected, "text")
    assert found.policies.on_message == "fail"


def test_one_address_and_a_file_have_short_forms(tmp_path: Path) -> None:
    one = decoder(tmp_path, "{ debezium-avro: { registry: { url: 'http://a:8081' } } }")
    file = decoder(tmp_path, "{ debezium-avro: { registry: { file: schemas.json } } }")

    assert one.options.registry == RegistrySettings(("http://a:8081",))
    assert file.options.registry == RegistrySettings(file=str(tmp_path / "schemas.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "told"),
    [
        (
            "debezium-avro",
            "5:11: source.format: format debezium-avro needs `registry`: write {debezium-avro: {registry: {...}}}",
        ),
        ("{ debezium-avro: {} }", "key 'registry' is missing"),
        (
            "{ debezium-avro: { registry: { url: 'http://a', pasword: x } } }",
            "5:59: source.format.debezium-avro.registry: unknown key 'pasword'; did you mean 'password'?",
        ),
        ("{ debezium-avro: { registri: { url: 'http://a' } } }", "unknown key 'registri'; did you mean 'registry'?"),
        (
            "{ debezium-avro: { registry: { url: 'a:8081' } } }",
            "5:42: source.format.debezium-avro.registry: 'a:8081' is not an address of a registry; write https://HOST:PORT",
        ),
        ("{ debezium-avro: { registry: { url: 5 } } }", "source.format.debezium-avro.registry.url: "),
        ("{ debezium-avro: { registry: {} } }", "registry: give exactly one of `url` and `file`"),
        ("{ debezium-avro: { registry: { url: 'http://a', timeout: 10 } } }", "expected a duration such as"),
        ("{ debezium-avro: { registry: { url: 'http://a' }, key_format: xml } }", "key_format: "),
        ("{ debezium-avro: { registry: { url: 'http://a' }, decimal_format: text } }", "unknown key 'decimal_format'"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_place(tmp_path: Path, form: str, told: str) -> None:
    done = tidemark("validate", written(tmp_path, form))

    assert done.returncode == 2
    assert told in done.stderr.replace("\n", " ")


def test_a_secret_that_is_not_set_is_told_once(tmp_path: Path) -> None:
    form = "{ debezium-avro: { registry: { url: 'http://a', username: u, password: '${env:NO_SUCH_VARIABLE}' } } }"
    done = tidemark("validate", written(tmp_path, form))

    assert done.returncode == 2
    assert "environment variable NO_SUCH_VARIABLE is not set" in done.stderr
    assert "together" not in done.stderr


def test_a_secret_is_in_no_message_and_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "s3cret")
    good = "{ debezium-avro: { registry: { url: 'http://a', username: u, password: '${env:PASSWORD}' } } }"
    config = load_pipeline(written(tmp_path, good))
    before = digest_of_rules(config)

    assert "s3cret" not in f"{config!r} {config.source.format} {config.source.format.decoder.__dict__}"
    assert pickle.loads(pickle.dumps(config.source.format)).decoder.options.registry.password == "s3cret"
    monkeypatch.setenv("PASSWORD", "other")
    assert digest_of_rules(load_pipeline(written(tmp_path, good))) == before
    bad = good.replace("'http://a'", "'http://u:${env:PASSWORD}@a'")
    done = tidemark("validate", written(tmp_path, bad))
    assert done.returncode == 2
    assert "s3cret" not in done.stdout + done.stderr and "other" not in done.stderr


@pytest.mark.slow
def test_editors_know_the_options_of_a_registry() -> None:
    schema = json.dumps(pipeline_schema())

    assert all(f'"{name}": {{' in schema for name in ("registry", "url", "password", "key_format"))
    assert '"debezium-json"' in schema and '"canal-json"' in schema
