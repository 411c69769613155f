"""Messages for machines: one JSON object a line."""

from __future__ import annotations

import io
import json
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.report.json_log import JsonFormatter, JsonHandler
from pipelines.report.run_log import _pipeline, in_pipeline
from tests.support.command import TIDEMARK

log = logging.getLogger("test-json-log")


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    text = io.StringIO()
    handler = JsonHandler(JsonFormatter(_pipeline.get, ["shop", "shop-2"]), text)
    log.handlers[:], log.propagate = [handler], False
    log.setLevel(logging.INFO)
    yield text
    log.handlers.clear()


def last(out: io.StringIO) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(out.getvalue().splitlines()[-1])
    return event


def test_a_message_is_an_object_with_time_level_and_pipeline(out: io.StringIO) -> None:
    text, extra = "pipeline shop: creating %s\n\u2028\udcff", {"event": "made", "table": "lake.orders"}
    record = log.makeRecord(log.name, logging.INFO, "", 0, text, ("lake.orders",), None, extra=extra)
    with in_pipeline("shop"):
        log.handlers[0].handle(record)  # not by the logger: pytest would keep a text that no file takes
    event = last(out)
    assert len(out.getvalue().splitlines()) == 1 and out.getvalue().isascii()
    assert event.pop("time").endswith("Z")
    assert event == {
        "level": "info",
        "event": "made",
        "pipeline": "shop",
        "table": "lake.orders",
        "message": "creating lake.orders\n\u2028\udcff",
    }


@pytest.mark.parametrize(
    ("text", "pipeline", "message"),
    [
        ("shop-2: reads 3 topics", "shop-2", "reads 3 topics"),
        ("pipeline shop: stops", "shop", "stops"),
        ("starting Spark ...", None, "starting Spark ..."),
        ("shopping: a word", None, "shopping: a word"),
    ],
)
def test_the_pipeline_is_told_by_the_begin_of_a_message_of_another_thread(
    out: io.StringIO, text: str, pipeline: str | None, message: str
) -> None:
    log.warning(text)
    event = last(out)
    assert (event.get("pipeline"), event["message"], event["event"]) == (pipeline, message, "message")


def test_fields_stand_beside_and_never_hide_what_every_line_has(out: io.StringIO) -> None:
    log.info("x", extra={"pipeline": "shop", "fields": {"records": 3, "level": "mine", "where": Path("/a")}})
    event = last(out)
    assert (event["records"], event["level"], event["where"]) == (3, "info", "/a")


@pytest.mark.slow
def test_what_ends_a_run_is_a_line_too(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("version: 1\nname: shop\n")
    command = [*TIDEMARK, "run", str(file), "--once", "--log-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 2
    assert (events[-1]["event"], events[-1]["level"]) == ("failed", "error")
    assert "source" in events[-1]["message"]
