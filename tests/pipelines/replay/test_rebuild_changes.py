"""Tables whose rule has changed, which get other options with their new rows, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from sinks import faults
from tests.support.quarantined import envelope, record, rows_of, run_batch, table, write_pipeline
from tests.support.rebuilt_tables import (
    FILE,
    branches,
    finish,
    job,
    kill_if,
    old_rows,
    start,
)
from tests.support.replayed_topic import FINAL, Killed

_OTHERS = "defaults: { options: { bucket: 7, merge-engine: first-row } }\n"


@pytest.mark.slow
def test_a_table_gets_another_merge_engine_with_its_new_rows(tmp_path: Path) -> None:
    topic = start(tmp_path)
    options = {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.aggregate-function": "max",
        "ignore-delete": "true",
    }
    write_pipeline(tmp_path, options)

    finish(job(topic))

    orders = table(tmp_path)
    assert {name: orders.schema.options[name] for name in options} == options
    assert rows_of(tmp_path) == {0: 60, 1: 1, 2: 92, 3: 3, 4: 4, 5: 5}
    run_batch(tmp_path, tmp_path / FILE, 2, record(10, envelope(5, 10, v=10), key=5))
    assert rows_of(tmp_path)[5] == 15
    assert old_rows(tmp_path) == FINAL


@pytest.mark.slow
def test_the_new_rows_read_the_same_before_their_options_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    write_pipeline(
        tmp_path, {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "ignore-delete": "true"}
    )
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == "rebuild-switched"))
        with pytest.raises(Killed):
            finish(job(topic))
    assert table(tmp_path).options.merge_engine == "deduplicate"
    assert rows_of(tmp_path) == {0: 60, 1: 1, 2: 92, 3: 3, 4: 4, 5: 5}

    finish(job(topic))

    assert table(tmp_path).options.merge_engine == "aggregation"
    assert rows_of(tmp_path) == {0: 60, 1: 1, 2: 92, 3: 3, 4: 4, 5: 5}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bucket": "3"}, "changes option 'bucket', which a rebuild cannot do"),
        ({"bucket-function.type": "mod"}, "keys, partitions and buckets. Undo the change, or write into a new"),
        ({"merge-engine": "partial-update", "fields.w.sequence-group": "n"}, "names column 'w' in option"),
    ],
    ids=["bucket", "function", "column"],
)
def test_changes_that_a_rebuild_cannot_bring_are_refused(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    topic = start(tmp_path)
    write_pipeline(tmp_path, options)
    with pytest.raises(ConfigError) as error:
        job(topic)
    assert reason in str(error.value)
    assert branches(tmp_path) == []


def test_another_key_is_refused_with_the_way_out(tmp_path: Path) -> None:
    topic = start(tmp_path)
    file = tmp_path / FILE
    file.write_text(file.read_text() + "    primary_key: [n]\n")
    with pytest.raises(
        ConfigError, match=r"exists with primary_key \[id\], the rule wants \[n\].*or write into a new table"
    ):
        job(topic)


def test_a_rule_that_changes_while_a_rebuild_is_under_way_is_refused(tmp_path: Path) -> None:
    topic = start(tmp_path)
    job(topic).step()
    write_pipeline(tmp_path, {"merge-engine": "partial-update"})
    with pytest.raises(ConfigError, match="has changed since its rebuild began, so its rows would mix both"):
        job(topic)


@pytest.mark.slow
def test_a_rule_for_tables_without_one_says_nothing_of_a_table_that_has_its_own(tmp_path: Path) -> None:
    topic = start(tmp_path, {"merge-engine": "deduplicate"})
    file = tmp_path / FILE
    create = "otherwise: { create: { into: 'lake.{table}' } }\n"
    text = file.read_text().replace("match: { table: '(.*)' }", "match: { schema: public, table: orders }")
    file.write_text(text.replace("into: 'lake.{table}'", "into: lake.orders") + create + _OTHERS)

    finish(job(topic))

    assert rows_of(tmp_path) == FINAL
    assert table(tmp_path).options.merge_engine == "deduplicate"
