"""What a truncated table's message says to do: a command that brings the right rows, as it stands."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paimon_table.errors import SchemaChangeRefused
from paimon_table.ids import Offset
from pipelines.batch.batch_checks import rebuild_remedy
from pipelines.checkpoint.replay_state import Kind
from pipelines.config.config_file import load_pipeline
from pipelines.replay.replay_range import point_of
from sources.changes import Refusal, SourceTable
from tests.support.quarantined import envelope, record, run_batch, table, write_pipeline

TOPIC = "shop.public.orders"
TRUNCATE = json.dumps(
    {"before": None, "after": None, "source": {"db": "shop", "schema": "public", "table": "orders"}, "op": "t"}
).encode()


def test_the_message_of_a_truncated_table_has_a_command_that_is_taken(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    text = file.read_text()
    source = "source: { kafka: { bootstrap_servers: 'localhost:1', topics: [t] }, format: debezium-json }\n"
    file.write_text(text[: text.index("source:")] + source + text[text.index("checkpoint:") :])
    run_batch(tmp_path, file, 0, record(0, envelope(0, 0)), {**record(5, envelope(1, 1)), "partition": 1})

    with pytest.raises(SchemaChangeRefused) as error:
        run_batch(tmp_path, file, 1, record(1, TRUNCATE))

    begin = '{"shop.public.orders": {"0": 2, "*": "2023-11-14T22:13:21.000Z"}}'
    told = f"`tidemark replay FILE --table lake.orders --rebuild --from '{begin}' --allow-missing`"
    assert str(error.value).endswith(told)
    steps = ("truncate: apply", "tidemark reload FILE", "then resume", "tidemark replay")
    assert [str(error.value).index(step) for step in steps] == sorted(str(error.value).index(step) for step in steps)
    read = {(TOPIC, 0): 2, (TOPIC, 1): 6}
    assert point_of("--from", begin, load_pipeline(file), table(tmp_path), read, {}).kind is Kind.PLACES


def test_rows_of_other_topics_are_read_from_their_beginning() -> None:
    time = datetime(2026, 11, 24, 3, 50, 0, 123_000, tzinfo=UTC)
    refusal = Refusal(SourceTable(TOPIC, "shop", "public", "orders"), 1, Offset(282), "it was truncated", time)
    assert (
        """{"shop.public.orders": {"1": 283, "*": "2026-11-24T03:50:00.123Z"}, "eu": {"*": "earliest"}}"""
    ) in rebuild_remedy(refusal, "lake.orders", [TOPIC, "eu"])


def test_dumps_have_no_place_to_begin_at(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    run_batch(tmp_path, file, 0, record(0, envelope(0, 0)))
    with pytest.raises(SchemaChangeRefused, match=r"then resume the table$"):
        run_batch(tmp_path, file, 1, record(1, TRUNCATE))
