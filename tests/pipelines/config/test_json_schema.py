"""The JSON Schema agrees with the models about files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipelines.config import config_reference
from pipelines.config.config_file import load_pipeline
from pipelines.config.json_schema import pipeline_schema
from pipelines.config.yaml_file import parse_yaml

ROOT = Path(__file__).parents[3]
CONFIGS = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if not path.name.endswith(".test.yaml"))
BROKEN = Path(__file__).parent / "broken"


def raw(text: str) -> Any:
    """The document as an editor sees it: references to the environment are still text, keys are text."""
    data = parse_yaml(text.replace("${env:", "$\x7bENV:"), {}).data
    return json.loads(json.dumps(data).replace("${ENV:", "${env:"))


def validator() -> jsonschema.Draft202012Validator:
    schema = pipeline_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.slow
@pytest.mark.parametrize("file", CONFIGS, ids=lambda path: path.name)
def test_every_config_of_the_project_is_valid(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [error.message for error in validator().iter_errors(raw(file.read_text()))] == []
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "set-by-the-test")
    load_pipeline(file)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keys", "values", "not_supported", "structure"])
def test_broken_files_are_refused_by_the_schema_too(name: str) -> None:
    assert not validator().is_valid(raw((BROKEN / f"{name}.yaml").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "source: { files: { path: d }, format: debezium-json }\notherwise: create",
        "source: { files: { path: d, topics: [a] }, format: { debezium-json: {} } }\notherwise: skip",
        "source: { kafka: { bootstrap_servers: 'b:1', topics: { include: [a] }, start: { timestamp: 1 } }, format: F }",
        "source: { kafka: { bootstrap_servers: 'b:1', topics: [a], start: { offsets: { t: { 0: 1 } } } }, format: F }",
        "source: { files: { path: d, max_records_per_batch: '${env:MAX:-5}' }, format: F }",
        "source: { files: { path: d }, format: F }\nspark: { master: local, spark.ui.enabled: false }",
        "source: { files: { path: d }, format: F }\ntrigger: { interval: '${env:EVERY:-5s}' }",
        "source: { files: { path: d }, format: F }\ndefaults: { options: { bucket: 4, a: null, b: 1.5, c: true } }",
        "source: { files: { path: d }, format: F }\ntables: [{ match: { schema: p }, into: a.b, primary_key: [c] }]",
    ],
)
def test_every_form_of_a_setting_is_known_to_the_schema(text: str) -> None:
    head = "version: 1\nname: shop\ncheckpoint: c\ncatalog: { warehouse: w }\n"
    document = raw(head + text.replace("format: F", "format: debezium-json") + "\n")
    assert [error.message for error in validator().iter_errors(document)] == []


def test_every_key_of_the_reference_page_has_a_meaning_in_a_sentence() -> None:
    page = config_reference.reference_page()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
    assert "How Tidemark reads lines of CSV." in page


def test_the_reference_page_is_current() -> None:
    page = ROOT / "docs" / "CONFIGURATION.md"
    hint = "run: python -m pipelines.config.config_reference > docs/CONFIGURATION.md"
    assert page.read_text() == config_reference.reference_page(), hint
