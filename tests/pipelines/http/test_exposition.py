"""The text that Prometheus reads, parsed again by its own client."""

from __future__ import annotations

import re
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from pipelines.catchup.shown_standing import Standing
from pipelines.http.metrics import DURATIONS, METRICS
from pipelines.http.metrics_app import exposition
from pipelines.views.table_shape import TableShape
from pipelines.views.table_views import BadGroup, Phase, RunView
from sources.wording import BadReason
from tests.pipelines.http.runs import HOSTILE, LONG, REPLAY, pipeline, run, table

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(view: RunView) -> Series:
    text = exposition(lambda: view)().decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(found: Series, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_every_metric_of_the_list_is_served_once_under_its_name_and_labels() -> None:
    found = series(run())
    for metric in METRICS:
        labels = [{name for name, _ in labels} for name, labels in found if name == metric.name]
        assert labels, metric.name
        assert all(of_one == {*metric.labels} for of_one in labels), metric.name


def test_names_and_meanings_follow_the_conventions() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"tidemark_[a-z0-9_]+", metric.name)
        assert metric.text.endswith("."), metric.name
        assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
        assert not re.search(r"_(ms|millis|minutes|kb|mb)(_|$)", metric.name), "base units: seconds and bytes"


def test_the_numbers_are_those_of_the_run() -> None:
    found = series(run())
    place = {"pipeline": "shop", "topic": "shop.orders", "partition": "0"}
    orders = {"pipeline": "shop", "table": "lake.orders"}
    assert value(found, "tidemark_lag_records", **place) == 25
    assert value(found, "tidemark_lag_seconds", **place) == 12.5
    assert value(found, "tidemark_table_files", **orders, level="5") == 2
    assert value(found, "tidemark_table_level0_runs", **orders) == 3
    assert value(found, "tidemark_table_snapshot_age_seconds", **orders) == 100
    assert value(found, "tidemark_table_state", pipeline="shop", table="lake.items", state="paused") == 1
    assert value(found, "tidemark_table_state", pipeline="shop", table="lake.items", state="running") == 0
    assert value(found, "tidemark_pipeline_phase", pipeline="shop", phase="running") == 1
    bad = {**orders, "reason": "not-json"}
    assert value(found, "tidemark_records_quarantined_total", **bad) == 2
    assert value(found, "tidemark_quarantine_records", **bad) == 1
    assert value(found, "tidemark_table_missed_records", pipeline="shop", table="lake.items") == 250
    assert value(found, "tidemark_unread_bytes", pipeline="shop") == 1_500_000
    assert value(found, "tidemark_group_failures_total", pipeline="shop") == 6
    assert value(found, "tidemark_running_batch_seconds", pipeline="shop") == 2
    assert value(found, "tidemark_memory_bytes", process="jvm") == 1 << 30
    assert value(found, f"{DURATIONS}_bucket", pipeline="shop", le="1.0") == 2
    assert value(found, f"{DURATIONS}_bucket", pipeline="shop", le="+Inf") == 4
    assert value(found, f"{DURATIONS}_sum", pipeline="shop") == 12.5
    assert value(found, "tidemark_table_beside_records", **orders, work="replay") == 12_000
    assert value(found, "tidemark_table_beside_records_left", **orders, work="replay") == 3000
    assert value(found, "tidemark_table_unsent_values_total", **orders, column="body", became="older") == 4
    assert value(found, "tidemark_table_schema_changes_total", **orders, kind="truncate") == 1


def test_what_is_not_known_is_left_out() -> None:
    found = series(run())
    assert [
        labels for name, labels in found if name == "tidemark_lag_records" and ("topic", "shop.items") in labels
    ] == []


def test_a_table_that_is_paused_since_before_the_start_has_no_shape_yet() -> None:
    """Nobody has opened it: zeros would say that it is empty."""
    unseen = replace(table("lake.orders"), standing=Standing.PAUSED, since_s=940.0, snapshot_id=0, shape=TableShape())
    found = series(run(replace(pipeline(), tables=(unseen, table("lake.items")))))
    told = {name for name, labels in found if ("table", "lake.orders") in labels}
    assert value(found, "tidemark_table_behind_seconds", pipeline="shop", table="lake.orders") == 60
    assert value(found, "tidemark_table_behind_seconds", pipeline="shop", table="lake.items") == 0
    of_shape = {name for name, labels in found if ("table", "lake.items") in labels} - told
    assert {"tidemark_table_buckets", "tidemark_table_level0_runs", "tidemark_table_snapshot_id"} <= of_shape


def test_hostile_names_are_labels_and_no_more() -> None:
    bad = BadGroup(HOSTILE, HOSTILE, BadReason.OTHER, 1, 1)
    hostile = replace(
        pipeline(), tables=(table(HOSTILE, beside=REPLAY), table(LONG, Standing.PAUSED)), bad_records=(bad,)
    )
    found = series(run(hostile))
    names = {dict(labels)["table"] for name, labels in found if name == "tidemark_table_rows_total"}
    assert names == {HOSTILE.replace("\ud800", "?"), "n" * 297 + "..."}
    assert {name for name, _ in found} == {name for name, _ in series(run())}


def test_a_process_that_has_just_started_serves_metrics() -> None:
    new = replace(pipeline(phase=Phase.STARTING), last_batches=(), tables=(), places=(), running_since_s=None)
    found = series(replace(run(new), processes={}, spark=""))
    assert value(found, "tidemark_pipeline_phase", pipeline="shop", phase="starting") == 1
    assert value(found, "tidemark_build_info", version="1.2.3", python="3.11.2", spark="") == 1
