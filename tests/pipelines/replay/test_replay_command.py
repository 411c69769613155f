"""`tidemark replay`: which tables and ranges it takes, and what it says."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from paimon_table.errors import ConfigError
from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.catchup.reading import Step
from pipelines.checkpoint.book import Book, Entry
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import load_pipeline
from pipelines.replay import replaying
from pipelines.replay.rebuild_requests import with_rebuild
from pipelines.replay.replay_progress import Progress, ReplayProgress
from pipelines.replay.replay_range import point_of, position_of_places, read_of
from pipelines.replay.replaying import Wanted
from pipelines.tables.tables import PipelineTables
from sinks.commit.positions import Position, cut_key
from sources.changes import RECORD_SCHEMA
from sources.wording import counted
from tests.support.command import tidemark
from tests.support.local_batches import run_batches
from tests.support.quarantined import envelope, record, run_batch, table, write_pipeline
from tests.support.replayed_topic import Topic


def filled(root: Path, options: dict[str, str]) -> Path:
    file = write_pipeline(root, options)
    run_batch(root, file, 0, record(0, envelope(0, 0, v=0)), record(1, envelope(1, 1, v=1)))
    return file


def refused(file: Path, *words: str) -> str:
    done = tidemark("replay", file, "--into-place", *words)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


FROM = ("--from", "earliest")
TOPIC = "shop.public.orders"
READ = {(TOPIC, 0): 2}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "table lake.orders has no sequence.field: older records would replace"),
        ({"merge-engine": "partial-update"}, "table lake.orders has no sequence.field"),
        ({"merge-engine": "aggregation", "sequence.field": "v"}, "table lake.orders aggregates: values that its rows"),
        (
            {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
            "table lake.orders aggregates (columns n): values that its rows already contain would count a second time",
        ),
    ],
    ids=str,
)
def test_tables_in_which_records_count_again_are_refused(tmp_path: Path, options: dict[str, str], reason: str) -> None:
    file = filled(tmp_path, options)
    assert reason in refused(file, "--table", "lake.orders", *FROM)
    assert not (tmp_path / "checkpoint" / "tidemark" / "replays").exists()


def test_a_table_without_key_is_refused(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, {"bucket": "-1"})
    file.write_text(file.read_text().replace("    into:", "    mode: append\n    into:"))
    run_batch(tmp_path, file, 0, record(0, envelope(0, 0)))
    assert "no primary key: every record would add its row a second time" in refused(
        file, "--table", "lake.orders", *FROM
    )


def test_an_early_end_is_refused_where_deletes_apply(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    assert "takes deletes: rows that are deleted after --to would reappear" in refused(
        file, "--table", "lake.orders", *FROM, "--to", "2024-01-01"
    )


def test_wrong_requests_are_told(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    assert "there is no table 'lake.order' of pipeline shop; did you mean 'lake.orders'?" in refused(
        file, "--table", "lake.order", *FROM
    )
    assert "dump files are replayed from the earliest record on" in refused(
        file, "--table", "lake.orders", "--from", "2024-01-01"
    )
    assert "choose --into-place" in tidemark("replay", file, "--table", "lake.orders", *FROM).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--into-place", "--rebuild"), "choose --into-place (apply the records to the existing table) or --rebuild"),
        (("--rebuild", "--to", "2024-01-01"), "--to: a rebuild ends at the position of the stream; leave out --to"),
        (("--into-place", "--from", "earliest", "--allow-missing"), "--allow-missing: only --rebuild can lose rows"),
        (("--into-place",), "--from is missing: give the begin, as"),
        (("--rebuild", "--abandon"), "table lake.orders has no unfinished rebuild; there is nothing to give up"),
        (("--rebuild", "--from", "snapshot:1"), "dump files are replayed from the earliest record on"),
    ],
    ids=" ".join,
)
def test_words_that_do_not_go_together_are_refused(tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    done = tidemark("replay", filled(tmp_path, {"sequence.field": "v"}), "--table", "lake.orders", *words)
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


def test_an_unfinished_rebuild_is_gone_on_with_or_given_up_before_anything_else(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    replays = Replays(Checkpoint(load_pipeline(file)))
    topics = ("shop.public.orders",)
    begun = ReplayState("r1", "lake.orders", Point(Kind.EARLIEST, "", "the earliest record"), None, topics)
    replays.put(with_rebuild(load_pipeline(file), begun, table(tmp_path), allows_missing=False))

    told = refused(file, "--table", "lake.orders", *FROM)
    assert "a rebuild of lake.orders from the earliest record to the position of the stream is unfinished" in told
    assert "give it up (--rebuild --abandon)" in told
    done = tidemark("replay", file, "--table", "lake.orders", "--rebuild", "--abandon")
    assert done.stdout.startswith("gave up rebuild r1 of lake.orders; its rows are removed")
    assert replays.all() == []


@pytest.mark.parametrize("left", [1, 0], ids=["some commits", "no commit"])
@pytest.mark.parametrize("how", [("--rebuild",), ("--into-place", *FROM)], ids=["rebuild", "into place"])
def test_a_table_that_is_older_than_the_checkpoint_is_not_replayed(
    tmp_path: Path, how: tuple[str, ...], left: int
) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    run_batch(tmp_path, file, 1, record(2, envelope(2, 2, v=2)))
    orders, checkpoint = table(tmp_path), Checkpoint(load_pipeline(file))
    Book(checkpoint).note_commits({"lake.orders": Entry(orders.created_ms, 2, 0, (TOPIC,))})
    if left:
        roll_back(orders.context, plan_rollback(orders.context, 1))
    else:
        shutil.rmtree(f"{orders.paths.root}/snapshot")

    done = tidemark("replay", file, "--table", "lake.orders", *how)

    assert (done.returncode, Replays(checkpoint).all()) == (2, [])
    assert (
        f"table lake.orders lacks the last {counted(2 - left, 'commit')} of the pipeline that its checkpoint has"
        in done.stderr
    )


def kafka(file: Path) -> None:
    text = file.read_text()
    begin, end = text.index("source:"), text.index("checkpoint:")
    source = "source: { kafka: { bootstrap_servers: 'localhost:1', topics: [t] }, format: debezium-json }\n"
    file.write_text(text[:begin] + source + text[end:])


def test_ranges_are_named_by_times_offsets_and_snapshots(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    kafka(file)
    config, orders = load_pipeline(file), table(tmp_path)

    assert point_of("--from", "2024-05-01T00:00:00", config, orders, READ, {}).value == "1714521600000"
    assert point_of("--from", "1714521600000", config, orders, READ, {}).value == "1714521600000"
    given = '{"shop.public.orders": {"0": 1}}'
    assert json.loads(point_of("--from", given, config, orders, READ, {}).value) == {"shop.public.orders": {"0": 1}}
    assert json.loads(point_of("--from", "snapshot:1", config, orders, READ, {}).value) == {
        "shop.public.orders": {"0": 2}
    }
    for text, reason in {
        "snapshot:9": "the table has the snapshots 1 to",
        "snapshot:x": "expected a snapshot's id",
        '{"t": 5}': "not t: 5",
        '{"t": {"0": -1}}': "not '0': -1 of topic t",
        '{"shop.public.order": {"0": 1}}': "no topic 'shop.public.order'; did you mean 'shop.public.orders'?",
        '{"shop.public.orders": {"7": 1}}': "no partition 7 of shop.public.orders; known: 0",
        '{"t":' * 100_000: "expected offsets as",
        '{"shop.public.orders": {"0": 3}}': "no offset 3 in partition 0 of shop.public.orders: the stream has read",
        '{"shop.public.orders": {"0": "soon"}}': "expected an offset, a time or `earliest` for '0' of topic",
        '{"shop.public.orders": {"*": 0}}': "not '*': 0 of topic",
        "2999-01-01": "this time is in the future, and no record is that new",
        '{"shop.public.orders": {"*": "2999-01-01"}}': "this time is in the future",
        "yesterday": "expected earliest, a time",
    }.items():
        with pytest.raises(ConfigError, match="--from") as error:
            point_of("--from", text, config, orders, READ, {})
        assert reason in str(error.value)


def test_partitions_that_are_not_named_do_not_begin_at_their_first_record_in_silence(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    kafka(file)
    config, orders = load_pipeline(file), table(tmp_path)
    read = {(TOPIC, 0): 9, (TOPIC, 1): 9, ("other", 0): 9}

    with pytest.raises(
        ConfigError, match=r"--from: other partition 0, shop\.public\.orders partition 0: feeds the table"
    ):
        point_of("--from", json.dumps({TOPIC: {"1": 3}}), config, orders, read, {})
    assert point_of("--to", json.dumps({TOPIC: {"1": 3}}), config, orders, read, {}).kind is Kind.POSITION
    with pytest.raises(ConfigError, match="--to: expected an offset"):
        point_of("--to", json.dumps({TOPIC: {"1": "earliest"}}), config, orders, read, {})
    named = {TOPIC: {"1": 3, "*": "2024-05-01T00:00:00.001Z"}, "other": {"0": "earliest"}}
    found = point_of("--from", json.dumps(named), config, orders, read, {})
    assert (found.kind, json.loads(found.value)) == (Kind.PLACES, named)


class TwoPartitions(Topic):
    """Answers questions for times alone."""

    def position_at(self, time_ms: int, topics: Collection[str]) -> str:
        return json.dumps({TOPIC: {"0": time_ms % 1000, "1": 50, "2": 60}, "other": {"0": 7}})


def test_a_time_stands_for_the_partitions_that_it_is_given_for(tmp_path: Path) -> None:
    named = {
        TOPIC: {"1": 3, "*": "2024-05-01T00:00:00.005Z", "2": "earliest"},
        "other": {"0": "2024-05-01T00:00:00.001+00:00"},
    }
    at = position_of_places(json.dumps(named), TwoPartitions(tmp_path, []), (TOPIC, "other"))
    assert json.loads(at) == {TOPIC: {"0": 5, "1": 3}, "other": {"0": 7}}


def test_a_replay_whose_range_is_refused_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    kafka(file)
    config = load_pipeline(file)

    @contextmanager
    def refusing(_config: PipelineConfig) -> Iterator[Callable[[str], Progress]]:
        def do(id_: str) -> Progress:
            raise ConfigError(f"{len(Replays(Checkpoint(config)).all())} replay has no records")

        yield do

    monkeypatch.setattr(replaying, "_here", refusing)
    wanted = Wanted("lake.orders", "2024-01-01", None, abandons=False)
    with pytest.raises(ConfigError, match="1 replay has no records"):
        replaying.replay(config, wanted)
    assert Replays(Checkpoint(config)).all() == []


def test_what_the_stream_has_read_is_told_by_checkpoint_and_table(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    kafka(file)
    config, end = load_pipeline(file), json.dumps({TOPIC: {"0": 5, "1": 1}, "of another table": {"0": 1}})
    position = Position("u", {(TOPIC, 0): 2, (TOPIC, 2): 7}, topics={TOPIC: "id-1"})
    assert read_of(config, position, end, {}) == {(TOPIC, 0): 5, (TOPIC, 1): 1, (TOPIC, 2): 7}
    assert read_of(config, position, "{}", {}) == position.offsets
    assert read_of(config, position, end, {TOPIC: "id-2"}) == {(TOPIC, 0): 5, (TOPIC, 1): 1}, "it was recreated"


def test_a_snapshot_from_before_a_topic_was_made_anew_names_no_range(tmp_path: Path) -> None:
    file = filled(tmp_path, {"sequence.field": "v"})
    kafka(file)
    config, orders = load_pipeline(file), table(tmp_path)
    for batch_id, topic_id in enumerate(("id-1", "id-2"), 1):
        tables = PipelineTables(config, "u", topic_ids={TOPIC: topic_id}.copy)
        records = pa.RecordBatch.from_pylist([record(9 - batch_id, envelope(3, 3, v=3))], schema=RECORD_SCHEMA)
        run_batches(tables, [records], tmp_path, batch_id)
    newest = orders.snapshots.latest_id()
    assert newest is not None

    def at(snapshot_id: int, ids: dict[str, str]) -> object:
        return json.loads(point_of("--from", f"snapshot:{snapshot_id}", config, orders, READ, ids).value)

    for snapshot_id, topic_id in ((newest - 1, "id-2"), (newest, "id-3")):
        with pytest.raises(ConfigError, match=r"topics that were recreated since: shop\.public\.orders"):
            at(snapshot_id, {TOPIC: topic_id})
    assert at(newest, {TOPIC: "id-2"}) == {TOPIC: {"0": 8}}
    assert at(newest, {TOPIC: "id-2", cut_key((TOPIC, 0)): "5"}) == {TOPIC: {"0": 5}}, "the partition was cut off there"


def test_progress_has_a_rate_and_an_estimate() -> None:
    now = [0.0]
    out = io.StringIO()
    shown = ReplayProgress("lake.orders", Console(file=out, width=200), lambda: now[0])
    for second, count in ((5.0, 1_000), (15.0, 11_000)):
        now[0] = second
        shown.show(Progress(Step.SLICE, count, 0, 100_000 - count))
    assert out.getvalue() == "replaying lake.orders: 11,000 of 100,000 records, 1,000/s, about 89 s left\n"
