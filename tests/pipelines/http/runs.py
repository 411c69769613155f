"""Runs as others see them, made by hand: every kind of number, and names that mean no good."""

from __future__ import annotations

from dataclasses import replace

from pipelines.catchup.shown_standing import Standing
from pipelines.views.process_memory import ProcessUse
from pipelines.views.table_shape import LevelShape, TableShape
from pipelines.views.table_views import (
    BadGroup,
    BatchView,
    Beside,
    Durations,
    EventKind,
    EventView,
    Phase,
    PipelineView,
    Point,
    RunView,
    TableView,
)
from sinks.write.unsent import Became
from sources.lag import PlaceLag
from sources.wording import BadReason

HOSTILE = 'lake.<script>alert("1")</script>\n\\"}\u202e\ud800 x{} 1'
"""A name with a tag, quotes, line ends, a mark that turns text around, half of a surrogate pair."""

LONG = "n" * 1_000_000

SHAPE = TableShape(
    buckets=2,
    files=5,
    size_bytes=5000,
    stored_rows=70,
    levels={0: LevelShape(3, 1000), 5: LevelShape(2, 4000)},
    level0_runs=3,
    most_runs=4,
    backlog_buckets=1,
    backlog_bytes=900,
    waiting_rows=7,
)


REPLAY = Beside("replay", 12_000, 3000, "shop.orders-0: 42", 11_000, 990.0)


def table(
    name: str = "lake.orders", standing: Standing = Standing.RUNNING, reason: str = "", beside: Beside | None = None
) -> TableView:
    unsent = {("body", Became.OLDER): 4}
    missed = None if standing is Standing.RUNNING else 250
    topics = ("shop.old", "shop.orders")
    view = TableView(name, standing, reason, None, 10, 12, 15, 42, 900.0, SHAPE, reason, beside, unsent, topics, missed)
    return replace(view, schema_changes={"add": 2, "truncate": 1})


def pipeline(name: str = "shop", phase: Phase = Phase.RUNNING, reason: str = "") -> PipelineView:
    batch = BatchView(3, 990.0, 1.5, 100, 120, 2, {"decode": 1.0, "append": 0.5})
    return PipelineView(
        name,
        phase,
        reason,
        "/var/lib/tidemark/shop",
        400,
        {"tombstones": 3},
        {"commit conflict": 1},
        {"decode": 3.5, "append": 1.25},
        {"read": 2.0},
        Durations({0.5: 1, 1.0: 2, 10.0: 4}, 4, 12.5),
        4,
        998.0,
        (replace(batch, id=2, ended_s=980.0), batch),
        (table(beside=REPLAY), table("lake.items", Standing.PAUSED, "column id: BIGINT is narrower than TEXT")),
        (PlaceLag("shop.orders", 0, 400, 425, 25, 12.5), PlaceLag("shop.items", 0, None, 7, None, None)),
        None,
        (Point(985.0, 300, 40, 20.0), Point(990.0, 400, 25, 12.5)),
        {("shop.orders", 0): 17},
        group_failures=6,
        unread_bytes=1_500_000,
        public_reason=reason,
        bad_records=(
            BadGroup("lake.items", "column qty INT: string ... does not fit INT", BadReason.VALUE, 0, 7),
            BadGroup("lake.orders", "value is not JSON", BadReason.NOT_JSON, 2, 1),
        ),
        bad_counted_s=995.0,
        events=(
            EventView(900.0, EventKind.PAUSED, "lake.items", "column id: BIGINT is narrower than TEXT"),
            EventView(950.0, EventKind.BAD_RECORDS, "lake.orders", "", count=2),
        ),
    )


def run(*pipelines: PipelineView) -> RunView:
    processes = {"driver": ProcessUse(1 << 28, 40, 1), "jvm": ProcessUse(1 << 30, 200, 1)}
    return RunView("1.2.3", "3.11.2", "4.0.0", "host", 4711, 100.0, 1000.0, pipelines or (pipeline(),), processes)
