"""Tables that are rebuilt: filled by a stream, damaged, and the job that each process takes up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paimon_table.history.branches import BranchStore
from paimon_table.history.tags import TagStore
from pipelines.catchup.reading import Step
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config_file import load_pipeline
from pipelines.prepared import own_tables
from pipelines.replay.in_place import ReplayContext
from pipelines.replay.rebuild_requests import taken_up, with_rebuild
from pipelines.replay.rebuild_rules import count_pinned, unpin
from pipelines.replay.rebuilding import COUNTED_IN_TURN, Rebuilding, aside_branch
from tests.support.quarantined import QUERY, envelope, record, rows_of, run_batch, table, write_pipeline
from tests.support.replayed_topic import HISTORY, TOPIC, Killed, ReplayReading, Topic, delete
from tests.support.table_driver import TableDriver

USER = f"tidemark-shop-{QUERY}"
TAG = "before-rebuild-r1"
FILE = "shop.yaml"

KINDS: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "lookup": {"changelog-producer": "lookup", "sequence.field": "v"},
    "full-compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"},
    "deletion-vectors": {"deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.v.ignore-retract": "true",
    },
}

POINTS = (
    *("slice-planned", "before-append", "after-append", "after-compact", "slice-done"),
    *("rebuild-compacted", "rebuild-noted", "rebuild-tagged", "rebuild-switched"),
)
"""Crash points that every rebuild passes, in their order."""


def start(root: Path, options: Mapping[str, str] | None = None) -> Topic:
    """A table that the stream has filled from ten records, in two batches."""
    file = write_pipeline(root, options)
    run_batch(root, file, 0, *HISTORY[:5])
    run_batch(root, file, 1, *HISTORY[5:])
    return Topic(root, [*HISTORY], closed=10)


def damage(root: Path) -> dict[int, Any]:
    """Rows that are wrong, from a commit that looks like the stream's."""
    run_batch(
        root, root / FILE, 2, delete(20, 3), record(21, envelope(5, 555, v=99), key=5), record(22, envelope(77, 7, v=1))
    )
    return rows_of(root)


def state(begin: Point | None = None) -> ReplayState:
    return ReplayState("r1", "lake.orders", begin or Point(Kind.EARLIEST), None, (TOPIC,))


def noted(topic: Topic, *, allows_missing: bool = False, begin: Point | None = None) -> ReplayState:
    """The note of the command, also when it is called again."""
    config = load_pipeline(topic.root / FILE)
    replays = Replays(Checkpoint(config))
    before = replays.unfinished("lake.orders")
    if before is not None:
        return taken_up(config, replays, before, table(topic.root), allows_missing=allows_missing)
    one = with_rebuild(config, state(begin), table(topic.root), allows_missing=allows_missing)
    replays.put(one)
    return one


def job(topic: Topic, most: int = 3, counted_in_turn: int = COUNTED_IN_TURN, **words: Any) -> ReplayReading:
    """The job as a new process continues it; below 0, rows are counted beside the stream, however few they are."""
    return job_of(topic, noted(topic, **words), most, counted_in_turn)


def job_of(topic: Topic, one: ReplayState, most: int = 3, counted_in_turn: int = COUNTED_IN_TURN) -> ReplayReading:
    config = load_pipeline(topic.root / FILE)
    topic.rebuild = one.id
    context = ReplayContext(config, own_tables(config), Replays(Checkpoint(config)), topic, topic, USER)
    return ReplayReading(Rebuilding(context, one, counted_in_turn), topic, most)


def finish(one: ReplayReading) -> ReplayState:
    for _ in range(20):
        if one.step() is Step.DONE:
            return one.state
    raise AssertionError("the rebuild does not end")


def finish_counting(
    topic: Topic, meanwhile: Callable[[], None] = lambda: None, most: int = 3, **words: Any
) -> ReplayState:
    """Finish a rebuild as the command does that counts rows beside the stream; ``meanwhile`` runs before that."""
    one = job(topic, most, counted_in_turn=-1, **words)
    for _ in range(20):
        step = one.step()
        if step is Step.COUNTING:
            meanwhile()
            count(topic, one.state)
            one = job_of(topic, replays(topic).get("r1"), most, counted_in_turn=-1)
        if step is Step.DONE:
            unpin(one.state.id, table(topic.root))
            return one.state
    raise AssertionError("the rebuild does not end")


def count(topic: Topic, counted: ReplayState) -> None:
    """The work of the command between two steps."""
    orders = table(topic.root)
    assert counted.rebuild is not None
    count_pinned(replays(topic), counted, orders, aside_branch(orders, counted.rebuild).open())


def replays(topic: Topic) -> Replays:
    return Replays(Checkpoint(load_pipeline(topic.root / FILE)))


def old_rows(root: Path) -> dict[int, Any]:
    """The rows of the tag that keeps the old content."""
    orders = table(root)
    found = TagStore(orders.io, orders.paths).find(TAG)
    assert found is not None
    return {row["id"]: row["n"] for row in orders.to_arrow(snapshot_id=found.snapshot.id).to_pylist()}


def branches(root: Path) -> list[str]:
    orders = table(root)
    return BranchStore(orders.io, orders.paths).names()


def data_files(root: Path) -> set[str]:
    return {path.name for path in root_of(root).glob("**/data-*")}


def root_of(root: Path) -> Path:
    return root / "warehouse" / "lake.db" / "orders"


def tags(root: Path) -> list[str]:
    orders = table(root)
    return TagStore(orders.io, orders.paths).names()


def insert(root: Path, key: int) -> None:
    """A row from another engine."""
    TableDriver(table(root), root / "lookup", "other").commit([("+I", key, 1, 1)])


def kill_if(is_due: bool) -> None:
    """Stands for the end of the process at a crash point."""
    if is_due:
        raise Killed
