"""A source table gets another primary key: a new table continues with it, and each table has all records of its key."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.http.page.details import history
from pipelines.jobs.history_commands import table_app
from pipelines.quarantine.selection import Opened
from pipelines.query import StopRequested
from pipelines.report.table_report import schema_rows
from pipelines.tables.table_failure import TableContinued
from pipelines.views.table_views import EventKind
from tests.model.adapter import CHECKPOINT, Adapter
from tests.model.fuse import At
from tests.model.judged import PIPELINE

pytestmark = pytest.mark.slow

TOPIC = "shop.public.orders"
FOLLOWS = {"schema_changes": {"primary_key": "new_table"}}
RULE: dict[str, Any] = {"match": {"table": "orders"}, "into": "lake.orders", **FOLLOWS}
OTHERS: dict[str, Any] = {"match": {"table": "log"}, "into": "lake.log", "mode": "append", "on_change": "log"}


class Shop:
    """A pipeline, and what its tables must hold."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, partitions: int = 1, **rule: Any) -> None:
        rules = [{**RULE, **rule}, {**OTHERS, "options": {"bucket": "-1", "changelog-producer": "none"}}]
        self.pipeline = Adapter(root, patch, {**PIPELINE, "tables": rules})
        self.pipeline.broker.make(TOPIC, partitions)
        self.partitions = partitions
        self.rows: dict[tuple[str, ...], dict[Any, int]] = {}
        """By message key what the table with it must hold: the newest ``v`` of each row."""
        self.count = 0

    def send(self, partition: int, row_id: int, key: tuple[str, ...], op: str = "c", source: str = "orders") -> None:
        """A row of one partition, as the source had its key then."""
        self.count += 1
        row: dict[str, Any] = {"id": row_id * self.partitions + partition, "region": "ab"[row_id % 2], "n": row_id % 3}
        names = {"db": "shop", "schema": "public", "table": source}
        image = {**row, "v": self.count, **({} if key == OLD else {"since_change": self.count})}
        before, after = (image, None) if op == "d" else (None, image)
        value = {"before": before, "after": after, "op": op, "source": names}
        self.pipeline.broker.append(TOPIC, partition, {name: row[name] for name in key}, value, self.count)
        held = self.rows.setdefault(key, {}) if source == "orders" else {}
        place = tuple(row[name] for name in sorted(key))
        if op == "d":
            held.pop(place, None)
        else:
            held[place] = self.count

    def held(self, table: str) -> dict[Any, int]:
        found = self.pipeline.table(table)
        if found is None:
            return {}
        key = sorted(found.schema.primary_keys)
        rows = found.to_arrow().to_pylist()
        held = {tuple(row[name] for name in key): row["v"] for row in rows}
        assert len(held) == len(rows)
        return held

    def check(self, *keys: tuple[str, ...]) -> None:
        """Everything is read: the tables of these keys have their records, and nothing is bad or behind."""
        self.pipeline.fuse.put_out()
        self.pipeline.rest()
        assert self.pipeline.behind == {}
        assert Counter(self.pipeline.quarantined()) == {}
        for number, key in enumerate(keys, 1):
            name = "lake.orders" if number == 1 else f"lake.orders_v{number}"
            table = self.pipeline.table(name)
            assert table is not None, f"{name} is missing"
            assert set(table.schema.primary_keys) == set(key)
            assert self.held(name) == self.rows[key], name
            assert key != OLD or "since_change" not in table.schema.column_names, "the old table stays as it is"
        assert self.pipeline.table(f"lake.orders_v{len(keys) + 1}") is None


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patched:
        yield patched


OLD, NEW, THIRD = ("id",), ("id", "region"), ("id", "n")


def test_a_new_table_continues_from_the_first_record_with_another_key(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, patch)
    for n in range(12):
        shop.send(0, n % 4, OLD if n < 7 else NEW)
    shop.check(OLD, NEW)
    for n in range(5):
        shop.send(0, n % 4, NEW)
    shop.check(OLD, NEW)


@pytest.mark.parametrize("point", ["table-paused", "new-table-made", "new-table-noted", "table-continued"])
def test_a_process_that_is_killed_at_a_step_of_the_change_is_continued_by_the_next(
    tmp_path: Path, patch: pytest.MonkeyPatch, point: str
) -> None:
    shop = changed(tmp_path, patch)
    shop.pipeline.fuse.light(At.POINT, 0, point)
    for _ in range(6):
        shop.pipeline.run_batch(3)
        shop.pipeline.work_beside()
    assert shop.pipeline.fuse.killed_at == f"point {point}"
    shop.send(0, 2, NEW)
    shop.check(OLD, NEW)


def test_a_batch_before_the_query_starts_over_writes_neither_table(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """Its routes are older than the new table. A batch that the stop refuses does not hide why the query ends."""
    shop = changed(tmp_path, patch)
    shop.pipeline.run_batch(50)
    query, spark = shop.pipeline._query, shop.pipeline._spark
    assert query is not None and spark is not None
    with pytest.raises(TableContinued), query._noting_failure():
        while query._beside.work.round():
            pass
    before = shop.held("lake.orders")
    for n in range(4):
        shop.send(n % 2, n, NEW)
    spark.queries[-1].run_batch(50)
    assert shop.held("lake.orders") == before and shop.held("lake.orders_v2") == {}
    shop.send(0, 1, NEW)
    query.request_stop()
    with pytest.raises(StopRequested):
        spark.queries[-1].run_batch(50)
    assert isinstance(query.failure, TableContinued)
    shop.pipeline.kill()
    shop.check(OLD, NEW)


def test_metrics_page_and_versions_of_the_schema_show_the_change(
    tmp_path: Path, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = changed(tmp_path, patch)
    shop.pipeline.run_batch(50)
    query = shop.pipeline._query
    assert query is not None
    with pytest.raises(TableContinued), query._noting_failure():
        while query._beside.work.round():
            pass

    words = "continues table lake.orders with the primary key (id, region) of its source"
    seen = query._beside._of.seen.view(shapes=False)
    assert {one.name: dict(one.schema_changes) for one in seen.tables}["lake.orders_v2"] == {"primary_key": 1}
    (event,) = [event for event in seen.events if event.kind is EventKind.SCHEMA]
    assert (event.table, event.public_reason) == ("lake.orders_v2", f"it {words}")
    (paused,) = [record.getMessage() for record in caplog.records if " is paused from batch " in record.getMessage()]
    assert paused.count("a new table") == 1 and " up to this record" in paused
    table = shop.pipeline.table("lake.orders_v2")
    assert table is not None
    assert schema_rows(table).to_pylist()[0]["changes"] == words
    assert history(table)["schemas"][-1]["changes"][:2] == [words, "+ id BIGINT NOT NULL"]


def test_the_schemas_of_each_table_name_the_table_that_continues_it(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.send(0, 1, THIRD)
    shop.check(OLD, NEW, THIRD)

    said = {}
    for name in ("lake.orders", "lake.orders_v2", "lake.orders_v3"):
        done = CliRunner().invoke(table_app, ["schemas", str(tmp_path / shop.pipeline.directory_of(name))])
        assert done.exit_code == 0, done.output
        said[name] = done.stderr.strip().replace("\n", " ")
    assert said == {
        "lake.orders": "table lake.orders_v2 continues table lake.orders with the primary key (id, region) of its "
        "source; this table gets no more records",
        "lake.orders_v2": "table lake.orders_v3 continues table lake.orders_v2 with the primary key (id, n) of its "
        "source; this table gets no more records",
        "lake.orders_v3": "",
    }


def test_a_table_waits_for_records_that_the_stream_has_not_read_and_a_run_may_end_meanwhile(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """Kafka has records of another partition, which may have the old key."""
    shop = changed(tmp_path, patch)
    shop.pipeline.run_batch(50)
    shop.send(1, 3, OLD)
    for _ in range(4):
        shop.pipeline.work_beside()
    query = shop.pipeline._query
    assert query is not None and query._beside.work.is_at_rest
    assert list(shop.pipeline.behind) == ["lake.orders"] and shop.pipeline.table("lake.orders_v2") is None
    shop.check(OLD, NEW)


def test_a_record_that_comes_after_the_change_with_the_old_key_goes_to_quarantine(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """It could overwrite a newer row of the new table."""
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    held = shop.held("lake.orders_v2")
    shop.send(1, 3, OLD)
    shop.pipeline.rest()
    (line,) = DeadLetters(shop.pipeline.config).records()
    assert "its message key is (id), as before the primary key of the source table became (id, region)" in line.reason
    assert "another `into`, primary_key: [id]" in line.reason
    assert shop.held("lake.orders_v2") == held and shop.pipeline.behind == {}
    assert "1 stays in the quarantine" in shop.pipeline.retry()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_retry_gives_each_table_the_records_of_its_time(
    tmp_path: Path, patch: pytest.MonkeyPatch, is_running: bool
) -> None:
    """Bad records from before two changes, and from after them."""
    columns = {"add": {"u": "10 // n"}, "types": {"n": "INT"}}
    shop = Shop(tmp_path, patch, partitions=2, columns=columns, options={"sequence.field": "v"})
    for key in (OLD, NEW, ("id", "n", "region")):
        for n in range(8):
            shop.send(n % 2, n % 5, key)
        shop.pipeline.rest()
    assert len(shop.pipeline.quarantined()) == 9
    bad = Opened(shop.pipeline.config)
    tables = Counter(bad.names.of(line) for line in bad.bad.records())
    assert tables == {"lake.orders": 3, "lake.orders_v2": 3, "lake.orders_v3": 3}

    shop.pipeline.stop()
    columns["add"] = {"u": "CASE WHEN n = 0 THEN 0 ELSE 10 // n END"}
    if is_running:
        shop.pipeline.rest()
    assert "9 are in their tables" in shop.pipeline.retry()
    shop.check(OLD, NEW, ("id", "n", "region"))


def test_a_retry_does_not_make_a_table_again_that_was_dropped_after_the_change(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    columns = {"add": {"u": "10 // n"}, "types": {"n": "INT"}}
    shop = Shop(tmp_path, patch, columns=columns)
    for key in (OLD, NEW):
        for n in range(4):
            shop.send(0, n, key)
        shop.pipeline.rest()
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders"))
    columns["add"] = {"u": "CASE WHEN n = 0 THEN 0 ELSE 10 // n END"}
    told = shop.pipeline.retry()
    assert "2 are in their tables" in told
    assert "2 records not retried: table lake.orders, which lake.orders_v2 continues, no longer exists" in told
    assert shop.pipeline.table("lake.orders") is None and shop.held("lake.orders_v2") == shop.rows[NEW]


def test_a_table_that_others_made_under_the_name_keeps_the_old_table_paused(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    shop = changed(tmp_path, patch)
    shop.pipeline.rest()
    shop.pipeline.stop()
    shop.pipeline.copy(shop.pipeline.directory_of("lake.orders"), shop.pipeline.directory_of("lake.orders_v3"))
    shop.send(0, 1, THIRD)
    shop.pipeline.rest()
    (reason,) = shop.pipeline.behind.values()
    assert list(shop.pipeline.behind) == ["lake.orders_v2"]
    assert "table lake.orders_v3 exists already: rename or drop that table, then resume this one" in reason
    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders_v3"))
    shop.pipeline.ask("resume", "lake.orders_v2")
    shop.check(OLD, NEW, THIRD)


def test_a_table_of_another_rule_is_not_taken(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.pipeline.document["tables"] = [
        *shop.pipeline.document["tables"],
        {**RULE, "match": {"table": "other"}, "into": "lake.orders_v2"},
    ]
    shop.pipeline.stop()
    shop.pipeline.rest()
    assert "table lake.orders_v2 is of another rule" in shop.pipeline.behind["lake.orders"]


def test_a_table_that_was_paused_continues_once_its_rule_says_so(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch, schema_changes={"primary_key": "pause"})
    shop.pipeline.rest()
    assert "another `into`, primary_key: [id, region]" in shop.pipeline.behind["lake.orders"]
    shop.pipeline.stop()
    shop.pipeline.document["tables"][0] |= FOLLOWS
    shop.check(OLD, NEW)


def test_the_new_table_stays_if_the_word_is_removed(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.document["tables"][0].pop("schema_changes")
    shop.send(0, 1, NEW)
    shop.check(OLD, NEW)


def test_a_new_key_that_does_not_fit_the_partitions_keeps_the_table_paused(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, patch, partition_by=["region"])
    shop.send(0, 0, NEW)
    shop.send(0, 1, OLD)
    shop.pipeline.rest()
    reason = shop.pipeline.behind["lake.orders"]
    assert "its message key is now (id)" in reason and "but Tidemark cannot create it: " in reason
    assert "region" in reason.partition("cannot create it")[2]
    assert shop.pipeline.table("lake.orders_v2") is None
    shop.pipeline.kill()
    shop.pipeline.rest()
    assert shop.pipeline.behind == {"lake.orders": reason}


def test_several_source_tables_of_one_table_keep_it_paused(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """Their rule allowed it before it followed the key."""
    shop = Shop(tmp_path, patch, merge_sources="same_rows", schema_changes={}, match={"table": "orders|more"})
    shop.send(0, 0, OLD)
    shop.send(0, 1, OLD, source="more")
    shop.pipeline.rest()
    shop.pipeline.stop()
    rule = shop.pipeline.document["tables"][0]
    shop.pipeline.document["tables"][0] = {**rule, **FOLLOWS, "merge_sources": None}
    shop.send(0, 1, NEW)
    shop.pipeline.rest()
    assert "several source tables feed lake.orders" in shop.pipeline.behind["lake.orders"]


def test_the_new_table_goes_on_if_the_old_one_is_dropped(
    tmp_path: Path, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders"))
    shop.send(0, 1, NEW)
    shop.pipeline.rest()
    assert shop.pipeline.table("lake.orders") is None and "is no longer in warehouse" not in caplog.text
    assert shop.held("lake.orders_v2") == shop.rows[NEW]


def test_a_rollback_of_the_old_table_is_told_once_and_made_up_if_the_new_one_is_dropped(
    tmp_path: Path, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    for name, word in (("lake.orders", "no pipeline rereads"), ("lake.orders_v2", "next start rereads")):
        path = str(tmp_path / shop.pipeline.directory_of(name))
        done = CliRunner().invoke(table_app, ["rollback", path, "--snapshot", "1", "--dry-run"])
        assert done.exit_code == 0 and word in done.stderr
    shop.pipeline.roll_back("lake.orders", shop.pipeline.snapshot_ids("lake.orders")[0])
    for _ in range(2):
        shop.pipeline.rest()
        shop.pipeline.stop()
    (told,) = [record.getMessage() for record in caplog.records if "rolled back" in record.getMessage()]
    assert told.startswith("table lake.orders: it lacks the last ")
    assert "Table lake.orders_v2 continues it, so Tidemark does not read these records again: restore" in told
    assert shop.held("lake.orders") != shop.rows[OLD] and shop.held("lake.orders_v2") == shop.rows[NEW]

    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders_v2"))
    shop.check(OLD, NEW)


def test_a_new_table_that_was_dropped_is_filled_again(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """The old table meets the change again."""
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders_v2"))
    shop.send(0, 1, NEW)
    shop.check(OLD, NEW)


def test_a_new_table_that_was_dropped_is_filled_again_under_a_new_checkpoint(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """That one began without regard to the old table."""
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", CHECKPOINT)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", shop.pipeline.directory_of("lake.orders_v2"))
    shop.check(OLD, NEW)


def test_of_several_keys_in_the_first_batch_the_oldest_is_that_of_the_first_table(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, patch, partitions=2)
    for n in range(4):
        shop.send(1, n, OLD)
    for n in range(3):
        shop.send(0, n, NEW)
        shop.send(1, n, NEW)
    shop.check(OLD, NEW)


def test_of_several_changes_the_oldest_comes_first(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """A partition may have no record with the key between them."""
    shop = Shop(tmp_path, patch, partitions=2)
    for partition in range(2):
        shop.send(partition, 0, OLD)
    shop.pipeline.rest()
    for key in (NEW, THIRD):
        shop.send(1, 1, key)
    shop.send(0, 1, THIRD)
    shop.check(OLD, NEW, THIRD)


def test_a_checkpoint_that_is_lost_before_the_new_table_has_rows(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.pipeline.fuse.light(At.POINT, 0, "table-continued")
    for _ in range(6):
        shop.pipeline.run_batch(3)
        shop.pipeline.work_beside()
    assert shop.held("lake.orders_v2") == {}
    shop.pipeline.kill()
    shop.pipeline.copy("nothing", CHECKPOINT)
    shop.check(OLD, NEW)


def test_no_failure_policy_stops_the_change(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch, on_table_failure="stop")
    shop.check(OLD, NEW)


def test_tables_of_one_rule_continue_each_for_itself(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, patch, into="lake.{table}", match={"database": "shop"})
    for n in range(9):
        shop.send(0, n, OLD, source="more")
        shop.send(0, n % 4, OLD if n < 5 else NEW)
    shop.pipeline.rest()
    assert shop.held("lake.orders_v2") == shop.rows[NEW]
    assert len(shop.held("lake.more")) == 9 and shop.pipeline.table("lake.more_v2") is None


def test_tables_without_a_rule_of_their_own_continue_too(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, patch)
    document: dict[str, Any] = {
        **shop.pipeline.document,
        "tables": [],
        "otherwise": {"create": {"into": "lake.{table}"}},
    }
    document["defaults"] = {**document["defaults"], **FOLLOWS}
    shop.pipeline.document = document
    for n in range(9):
        shop.send(0, n % 4, OLD if n < 5 else NEW)
    shop.check(OLD, NEW)


def test_a_rebuild_of_the_new_table_reads_only_its_own_records(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    assert shop.pipeline.replay("lake.orders_v2", rebuilds=True) == ""
    assert "table lake.orders_v2 continues it" in shop.pipeline.replay("lake.orders", rebuilds=True)
    shop.check(OLD, NEW)


def test_a_restart_from_the_first_records_gives_no_table_records_of_another_key(
    tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """The new table skips those that the old one has."""
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    shop.pipeline.stop()
    shop.pipeline.copy("nothing", CHECKPOINT)
    shop.pipeline.document["on_lost_checkpoint"] = "restart"
    shop.send(0, 1, NEW)
    shop.check(OLD, NEW)


def test_the_start_names_no_rule_without_effect(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shop = changed(tmp_path, patch)
    shop.check(OLD, NEW)
    query = shop.pipeline._query
    assert query is not None and not [text for text in query.unmatched() if "lake.orders" in text]


def changed(root: Path, patch: pytest.MonkeyPatch, **rule: Any) -> Shop:
    """Two partitions, of which the first has had the new key for three records."""
    shop = Shop(root, patch, partitions=2, **rule)
    for n in range(4):
        shop.send(n % 2, n, OLD)
    shop.pipeline.rest()
    for n in range(3):
        shop.send(1, n, OLD)
    for n in range(3):
        shop.send(0, n, NEW)
    return shop


POINTS = (
    *("after-write", "before-append", "after-append", "after-compact", "before-closing"),
    *("table-paused", "slice-planned", "slice-done", "before-joining", "after-joining", "tables-noted"),
    *("new-table-made", "new-table-noted", "table-continued"),
)


ACTS = (
    *("run", "run", "kill", "kill", "point", "rest", "lose", "rebuild", "replay", "stop"),
    *("expire", "roll_back", "pause", "drop"),
)


def play(shop: Shop, seed: int) -> list[str]:
    """A history drawn by ``seed``; returns its steps. The key changes between any two records."""
    draw, steps = random.Random(seed), list[str]()
    order = [OLD, *draw.sample([NEW, THIRD, ("id", "n", "region")], draw.randint(1, 3))]
    for partition in range(shop.partitions):
        shop.send(partition, 0, OLD)
    shop.pipeline.rest()
    era = 0
    for step in range(16):
        for _ in range(draw.randint(0, 8)):
            era += era + 1 < len(order) and draw.random() < 0.06
            shop.send(draw.randrange(shop.partitions), draw.randrange(6), order[era], draw.choice("cccccd"))
        act = draw.choice(ACTS)
        steps.append(f"{step}: key {order[era]}, {act}")
        match act:
            case "kill":
                shop.pipeline.fuse.light(draw.choice([At.BEFORE, At.AFTER, At.POINT]), draw.randrange(40))
                run(shop, draw)
            case "point":
                shop.pipeline.fuse.light(At.POINT, 0, draw.choice(POINTS))
                run(shop, draw)
            case "run":
                run(shop, draw)
            case "rest":
                shop.pipeline.fuse.put_out()
                shop.pipeline.rest()
            case "lose":
                shop.pipeline.fuse.put_out()
                shop.pipeline.stop()
                shop.pipeline.copy("nothing", CHECKPOINT)
            case "stop":
                shop.pipeline.stop()
            case "pause":
                newest = newest_table(shop)
                shop.pipeline.ask("pause", newest)
                run(shop, draw)
                shop.pipeline.ask("resume", newest)
            case "expire" | "roll_back" | "drop":
                shop.pipeline.fuse.put_out()
                shop.pipeline.rest()
                shop.pipeline.stop()
                change(shop, draw, act)
            case _:
                shop.pipeline.fuse.put_out()
                shop.pipeline.rest()
                name = draw.choice(["lake.orders", "lake.orders_v2", "lake.orders_v3"])
                told = shop.pipeline.replay(name, rebuilds=act == "rebuild")
                steps.append(f"   {name}: {told}")
    return steps


def newest_table(shop: Shop) -> str:
    names = [f"lake.orders_v{number}" for number in (4, 3, 2)]
    return next((name for name in names if shop.pipeline.table(name) is not None), "lake.orders")


def change(shop: Shop, draw: random.Random, act: str) -> None:
    """What others do to a table while the pipeline is stopped; only the newest one is still written."""
    name = newest_table(shop)
    ids = shop.pipeline.snapshot_ids(name)
    if act == "expire":
        shop.pipeline.expire(draw.choice([name, "lake.orders"]))
    elif act == "roll_back":
        shop.pipeline.roll_back(name, draw.choice(ids))
    elif name != "lake.orders":
        shop.pipeline.copy("nothing", shop.pipeline.directory_of(name))


def run(shop: Shop, draw: random.Random) -> None:
    for _ in range(draw.randint(1, 5)):
        if not shop.pipeline.is_running:
            refused = shop.pipeline.start()
            assert refused is None, refused
        match draw.choice(["batch", "batch", "beside", "beside", "compact"]):
            case "batch":
                shop.pipeline.run_batch(draw.choice([1, 3, 20]))
            case "beside":
                shop.pipeline.work_beside()
            case _:
                shop.pipeline.compact()
    shop.pipeline.fuse.put_out()


@pytest.mark.parametrize("seed", range(12))
def test_each_table_has_the_records_of_its_key(tmp_path: Path, patch: pytest.MonkeyPatch, seed: int) -> None:
    """Over changes at any place, partitions that lag, kills, lost checkpoints, replays and rebuilds."""
    logging.disable(logging.CRITICAL)
    shop = Shop(tmp_path, patch, partitions=1 + seed % 3, options={"sequence.field": "v"})
    try:
        steps = play(shop, seed)
        try:
            shop.check(*shop.rows)
        except Exception as error:
            raise AssertionError("\n".join([*steps, str(error)])) from error
    finally:
        logging.disable(logging.NOTSET)
