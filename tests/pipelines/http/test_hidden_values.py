"""Values of records that pause a table, stop a pipeline or go to quarantine: nothing tells them without the token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_table.errors import CommitConflict, CorruptFile, Outage, SinkUnavailable
from paimon_table.storage.file_io import LocalFileIO
from pipelines.batch.decode_report import kind_of_reason
from pipelines.catchup.shown_standing import Standing
from pipelines.checkpoint.book import Book
from pipelines.config.config import PipelineConfig
from pipelines.config.look_config import Metrics, WebPage
from pipelines.http.endpoints import endpoints
from pipelines.http.page.token_file import token_path
from pipelines.tables.table_failure import TableFailure
from pipelines.views.run_state import RunState
from pipelines.views.table_counts import OutOfStream
from pipelines.views.table_views import Phase
from sinks.quarantine import Quarantine
from sources.changes import RECORD_SCHEMA
from tests.stack.process import free_port
from tests.support.paused_pipeline import PausedPipeline
from tests.support.waiting import seconds

SECRET = "Jane"
VALUES = (
    f"{SECRET}",
    f"{SECRET} {'long ' * 40}{SECRET}",
    f'it\'s "{SECRET}" \\" {SECRET}',
    f"'\"{SECRET}'\"",
    f"a\\\\\" {SECRET} 'b",
)
"""Short, longer than what a reason shows of it, and with quotes that may seem to end it."""

ORDERS = {"match": {"table": "orders"}, "into": "lake.orders"}
ITEMS = {"match": {"table": "items"}, "into": "lake.items"}


def rows(table: str, *found: dict[str, Any]) -> list[dict[str, Any]]:
    """Records with inserts of a table, keyed by their ids."""
    source = {"db": "d", "schema": "public", "table": table}
    values = [(row, {"before": None, "after": row, "source": source, "op": "c"}) for row in found]
    return [
        {
            "topic": f"shop.public.{table}",
            "partition": 0,
            "offset": offset,
            "timestamp": 0,
            "key": json.dumps({"id": row.get("id")}).encode(),
            "value": json.dumps(value).encode(),
            "headers": None,
        }
        for offset, (row, value) in enumerate(values)
    ]


class Asked:
    """What is told to those with the token, and to those without."""

    def __init__(self, config: PipelineConfig, state: RunState) -> None:
        assert config.ui is not None and config.metrics is not None
        self._page = f"http://127.0.0.1:{config.ui.port}"
        self._numbers = f"http://127.0.0.1:{config.metrics.port}"
        self._token = token_path(config).read_text().strip()
        self.state = state

    def without(self) -> str:
        """All that nobody has to show anything for."""
        places = [(self._page, "/api/state"), (self._page, "/api/table?pipeline=shop&table=lake.orders")]
        places += [(self._numbers, path) for path in ("/metrics", "/healthz", "/readyz")]
        with urllib.request.urlopen(f"{self._page}/api/events", timeout=seconds(30)) as events:
            return str(events.readline(), "utf-8") + "".join(get(host + path) for host, path in places)

    def with_token(self) -> str:
        return get(f"{self._page}/api/state", self._token)


def get(url: str, token: str | None = None) -> str:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=seconds(30)) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return str(refused.read().decode())


@contextmanager
def looked_at(pipeline: PausedPipeline) -> Iterator[Asked]:
    """The pipeline as others see it, with all that its batches have said."""
    ports = {"ui": WebPage(port=free_port()), "metrics": Metrics(port=free_port())}
    config = pipeline.config.model_copy(update=ports)
    state = RunState([config])
    with endpoints([config], state):
        shop = state.pipelines["shop"]
        state.enter(Phase.RUNNING)
        for report in pipeline.reports:
            shop.end(report)
        for name, pause in Book(pipeline.checkpoint).pauses.items():
            shop.put_table(name, Standing.PAUSED, OutOfStream(pause.reason, pause.public_reason))
        yield Asked(config, state)


def paused_by(root: Path, rule: Mapping[str, Any], *records: dict[str, Any], **keys: Any) -> PausedPipeline:
    """A pipeline of two tables after its first batch, and another one with the records that its table cannot take."""
    first = [*rows("orders", {"id": 1, "qty": 1}), *rows("items", {"id": 1, "qty": 1})]
    batch = pa.RecordBatch.from_pylist([*first, *records], schema=RECORD_SCHEMA)
    pipeline = PausedPipeline(root, batch, [{**ORDERS, **rule}, ITEMS], batch_size=2, **keys)
    pipeline.settings = replace(pipeline.settings, quarantine=Quarantine(LocalFileIO(), str(root / "bad")))
    pipeline.run()
    return pipeline


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "refused schema change": ({"schema_changes": {"add": "pause"}}, {"id": 2, "qty": 2, "more": "V"}),
    "bad records": ({"max_bad_records": 0}, {"id": 2, "qty": {"V": "V"}}),
    "not null": ({"max_bad_records": 0}, {"id": None, "qty": "V"}),
    "overflow": ({"max_bad_records": 0, "columns": {"types": {"qty": "TINYINT"}}}, {"id": 2, "qty": "V"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES, ids=["short", "long", "quotes", "more-quotes", "backslashes"])
def test_a_record_that_pauses_its_table_is_not_told(tmp_path: Path, way: str, value: str) -> None:
    rule, row = WAYS[way]
    hostile = {name: json.loads(json.dumps(given).replace('"V"', json.dumps(value))) for name, given in row.items()}
    pipeline = paused_by(tmp_path, rule, *rows("orders", {}, hostile)[1:])

    assert "lake.orders" in pipeline.behind
    with looked_at(pipeline) as asked:
        told = asked.without()
        assert SECRET not in told
        assert "lake.orders" in told
        assert pipeline.behind["lake.orders"] in json.loads(asked.with_token())["pipelines"][0]["tables"][1]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_bad_records_are_counted_without_their_values(tmp_path: Path, value: str) -> None:
    rule = {"columns": {"types": {"qty": "INT"}}}
    pipeline = paused_by(tmp_path, rule, *rows("orders", {}, {"id": 2, "qty": value}, {"id": 3, "qty": [value]})[1:])
    with looked_at(pipeline) as asked:
        told = asked.without()
        assert "column qty INT: string ... does not fit INT" in told
        assert SECRET not in told


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        CommitConflict(f"partition name={SECRET}, bucket 0: another writer"),
        SinkUnavailable(f"Spark gave a job up: value {SECRET}"),
        Outage(f"s3://wh/lake.db/orders/name={SECRET} x/bucket-0/data-1.parquet does not answer"),
        CorruptFile(f"s3://wh/lake.db/orders/name={SECRET} x/bucket-0/data-1.parquet is not there"),
        PermissionError(13, "Permission denied", f"/wh/lake.db/orders/name={SECRET} x/bucket-0"),
        OSError(5, f"Failed to open local file '/wh/lake.db/orders/name={SECRET} x/bucket-0'. Detail: [errno 5] I/O"),
        ValueError(f"{SECRET} is no number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_commit_that_is_refused_is_told_without_partitions_and_keys(tmp_path: Path, error: Exception) -> None:
    pipeline = paused_by(tmp_path, {}, *rows("orders", {}, {"id": 2, "qty": 2})[1:])
    pipeline.tables.pause(TableFailure("lake.orders", error), 1)

    with looked_at(pipeline) as asked:
        assert SECRET in asked.with_token()
        told = asked.without()
        assert SECRET not in told
        assert "lake.orders" in told
        asked.state.end(f"pipeline shop: table lake.orders: {error}")
        assert SECRET in asked.with_token()
        assert SECRET not in asked.without()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (f"column 'n': string \"{SECRET}...\" does not fit INT", "column ...: string ... does not fit INT"),
        (f'column \'n\': string "{SECRET} \\" {SECRET}" does not fit', "column ...: string ... does not fit"),
        (f"op is 'it\\'s {SECRET}' \"{SECRET}\"", "op is ... ..."),
        (f"the table's type does not hold '{SECRET}'", "the table's type does not hold ..."),
        (f'object {{"{SECRET}": "{SECRET} and so...', "object {...: ..."),
    ],
)
def test_kinds_of_reasons_hold_no_value(reason: str, kind: str) -> None:
    assert kind_of_reason(reason) == kind
