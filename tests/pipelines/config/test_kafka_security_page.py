"""Every example of the page on Kafka's security is a valid pipeline that nothing warns of."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pipelines.config.config_file import load_pipeline
from tests.support.security_page import kafka_blocks, write_example

ENVIRONMENT = {
    "KAFKA_USER": "tide",
    "KAFKA_PASSWORD": "pass word; 'x'",
    "KAFKA_CLIENT": "tide",
    "KAFKA_SECRET": "client secret",
    "KAFKA_AUTHORITY": "-----BEGIN CERTIFICATE-----",
    "STORE_PASSWORD": "store password",
}


@pytest.mark.parametrize("number", range(len(kafka_blocks())))
def test_an_example_is_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int) -> None:
    file = write_example(tmp_path, "example", kafka_blocks()[number], {})
    with caplog.at_level(logging.WARNING):
        config = load_pipeline(file, ENVIRONMENT)
    assert config.source.kafka is not None and config.source.kafka.options
    assert caplog.text == ""


def test_the_page_has_examples() -> None:
    assert len(kafka_blocks()) == 10
