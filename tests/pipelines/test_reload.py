"""Changed files in a running process: what is taken over, what cannot be, and that a wrong one changes nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.config_changes import changes_of
from pipelines.control.requests import Answer, Request, State
from pipelines.reloading import Reloading
from tests.support.supervised_runs import Query, Supervised

FILE: dict[str, Any] = {
    "version": 1,
    "name": "shop",
    "source": {"kafka": {"bootstrap_servers": "a:1", "topics": ["t", "u"]}, "format": "debezium-json"},
    "checkpoint": "/state/shop",
    "catalog": {"warehouse": "/lake"},
    "tables": [
        {"match": {"table": "orders"}, "into": "lake.orders"},
        {"match": {"table": "items"}, "into": "lake.items"},
    ],
}


def of_kafka(**more: object) -> dict[str, object]:
    return {**FILE["source"], "kafka": {**FILE["source"]["kafka"], **more}}


def config(**changes: object) -> PipelineConfig:
    return PipelineConfig.model_validate({**FILE, **changes})


def test_tables_and_settings_that_change_are_told() -> None:
    tables = [
        {"match": {"table": "orders"}, "into": "lake.orders", "options": {"changelog-producer": "lookup"}},
        {"match": {"table": "people"}, "into": "lake.people"},
    ]
    found = changes_of(config(), config(tables=tables, trigger={"interval": "5s"}))
    assert str(found) == (
        "tables added: lake.people; tables removed: lake.items; rules changed: lake.orders; changed: trigger.interval"
    )
    assert changes_of(config(), config()).is_none


def test_a_default_changes_every_rule_that_follows_it() -> None:
    found = changes_of(config(), config(defaults={"max_bad_records": 3}))
    assert found.changed == ("lake.orders", "lake.items")


def test_of_rules_for_one_pattern_of_tables_the_changed_ones_are_named() -> None:
    rules = [{"match": {"schema": "public", "table": name}, "into": "lake.{table}"} for name in (["a", "b"], "c", "d")]
    changed = [rules[0] | {"options": {"bucket": 3}}, rules[1], rules[2] | {"before": "full"}]

    assert changes_of(config(tables=rules), config(tables=changed)).changed == (
        "lake.{table} (schema public, table a|b)",
        "lake.{table} (schema public, table d)",
    )
    assert changes_of(config(tables=rules), config(tables=rules[:2])).changed == ("lake.{table}",)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"checkpoint": "/state/other"}, "checkpoint: it holds the progress"),
        ({"name": "other"}, "name: the tables and the checkpoint"),
        ({"catalog": {"warehouse": "/other"}}, "catalog.warehouse: its tables are open"),
        ({"spark": {"spark.driver.memory": "2g"}}, "spark: the Spark session has started"),
        (
            {"source": {"kafka": {"bootstrap_servers": "b:1", "topics": ["t"]}, "format": "debezium-json"}},
            "source.kafka.bootstrap_servers: the positions",
        ),
        ({"source": {"files": {"path": "d"}, "format": "debezium-json"}}, "source.files: the positions"),
        ({"source": of_kafka(reader="spark")}, "source.kafka.reader: the JVM has started"),
        ({"source": of_kafka(options={"metric.reporters": "x.Y"})}, "source.kafka.options: they need a `reader` other"),
    ],
)
def test_what_cannot_change_says_why(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        changes_of(config(), config(**changes))
    assert str(refusal.value).startswith("the pipeline continues unchanged: ") and told in str(refusal.value)
    assert "restart the pipeline" in str(refusal.value)


def test_a_changed_file_is_taken_when_the_running_query_has_ended() -> None:
    one, answers = Supervised([Query(runs_on=True), Query(runs_on=True)]), []
    one.run.start()
    one.play(lambda: len(one.begun) == 1 and one.run._is_running)

    one.run.reload(one.changed(trigger={"interval": "5s"}), lambda *answer: answers.append(answer))
    assert one.run.is_alive and not one.begun[0].runs_on
    one.play(lambda: bool(answers))

    assert answers == [(True, "changed: trigger.interval")]
    assert one.begun[0].is_closed and one.run.query is one.begun[1]
    assert [seen.trigger.interval.total_seconds() for seen in one.configs] == [60, 5]


def test_a_file_that_cannot_begin_leaves_the_pipeline_as_it_was() -> None:
    wrong = ConfigError("table lake.orders: its bucket is 4")
    one, answers = Supervised([Query(runs_on=True), wrong, Query(runs_on=True)]), []
    one.run.start()
    one.play(lambda: len(one.begun) == 1 and one.run._is_running)

    one.run.reload(one.changed(trigger={"interval": "5s"}), lambda *answer: answers.append(answer))
    one.play(lambda: len(one.begun) == 2 and one.run._is_running)

    assert [taken for taken, _ in answers] == [False] and "its bucket is 4" in answers[0][1]
    assert [seen.trigger.interval.total_seconds() for seen in one.configs] == [60, 5, 60]
    assert one.run.failure is None

    one.script.append(Query(runs_on=True))
    one.run.reload(one.changed(trigger={"interval": "7s"}), lambda *answer: answers.append(answer))
    one.play(lambda: len(answers) == 2)
    assert answers[1] == (True, "changed: trigger.interval")
    told = [(event.kind.value, event.reason) for event in one.state.view().events if event.kind.value != "started"]
    assert told == [
        ("reload refused", "table lake.orders: its bucket is 4"),
        ("reloaded", "changed: trigger.interval"),
    ]


def test_a_wrong_file_is_told_with_its_place_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("version: 1\nname: shop\ntrigger: { intervall: 5s }\n")
    one = Supervised([Query(runs_on=True)])
    one.run.start()
    one.play(lambda: one.run._is_running)

    reloading = Reloading([file], ["shop"], once=False)
    reloading.ask_all()
    reloading.work([one.run])

    assert f"{file}:3:12: trigger: unknown key 'intervall'" in caplog.text and "continue unchanged" in caplog.text
    assert one.begun[0].runs_on


def test_a_request_is_answered_when_the_file_was_taken_or_cannot_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = Supervised([Query(runs_on=True), Query(runs_on=True)])
    answers: list[Answer] = []
    numbers = itertools.count()
    file = tmp_path / "shop.yaml"
    reloading = Reloading([file], ["shop"], once=False)
    handler = reloading.handlers("shop")["reload"]
    one.run.start()
    one.play(lambda: one.run._is_running)

    def ask(text: str, of: Path = file) -> None:
        file.write_text(text)
        request = Request(f"{next(numbers)}", "reload", {"file": str(of)}, 0, "me")
        assert handler(request, answers.append) is None
        reloading.work([one.run])
        assert handler(request, answers.append) is None, "it is taken once"

    whole = json.dumps(one.config)
    ask(whole.replace('"shop"', '"other"'))
    ask(whole.replace('"create"', "1"))
    with pytest.raises(ConfigError, match=f"was started from {file}"):
        ask(whole, tmp_path / "other.yaml")
    reloading.work([one.run])
    ask(whole.replace('"retry": {}', '"trigger": {"interval": "5s"}'))
    one.play(lambda: len(answers) == 6)

    assert [answer.state for answer in answers] == [
        State.WORKING,
        State.REFUSED,
        State.WORKING,
        State.REFUSED,
        State.WORKING,
        State.DONE,
    ]
    assert "name: the tables and the checkpoint" in answers[1].text and f"{file}:1:" in answers[3].text
    assert answers[5].text == "changed: trigger.interval"
    assert "shop: the pipeline continues unchanged: name: the tables" in caplog.text


def test_a_mistake_in_the_file_of_another_pipeline_is_no_matter_to_a_request(tmp_path: Path) -> None:
    one = Supervised([Query(runs_on=True), Query(runs_on=True)])
    other = Supervised([Query(runs_on=True)])
    other.run.config = other.run.config.model_copy(update={"name": "other", "checkpoint": "/elsewhere"})
    for each in (one, other):
        each.run.start()
    one.play(lambda: one.run._is_running)
    files = [tmp_path / "shop.yaml", tmp_path / "other.yaml"]
    files[0].write_text(json.dumps(one.config).replace('"retry": {}', '"trigger": {"interval": "5s"}'))
    files[1].write_text("version: 1\nname: other\ntrigger: { intervall: 5s }\n")
    reloading = Reloading(files, ["shop", "other"], once=False)
    answers: list[Answer] = []

    request = Request("0", "reload", {"file": str(files[0])}, 0, "me")
    assert reloading.handlers("shop")["reload"](request, answers.append) is None
    reloading.work([one.run, other.run])
    one.play(lambda: len(answers) == 2)

    assert (answers[1].state, answers[1].text) == (State.DONE, "changed: trigger.interval")
