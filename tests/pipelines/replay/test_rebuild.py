"""A table rebuilt from its topic beside itself, and switched in one step: once, whatever is killed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table import CommitKind
from paimon_table.errors import CommitOutcomeUnknown, ConfigError
from paimon_table.history.branches import BranchStore
from paimon_table.history.snapshot_names import all_names, changelog_names
from paimon_table.maintenance.rescale import rescale
from paimon_table.metadata.manifest_store import ManifestReader
from pipelines.catchup.reading import Step
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.checkpoint.replay_state import Kind, Point, Replays, ReplayState
from pipelines.config.config_file import load_pipeline
from pipelines.control.request_desk import RequestDesk
from pipelines.control.requests import Requests
from pipelines.jobs.job_progress import new_job
from pipelines.prepared import own_tables
from pipelines.replay.rebuild_requests import give_up
from pipelines.replay.replay_slices import GIVE_UP, giving_up
from sinks import faults
from sinks.commit.positions import newest_position
from tests.support import quarantined
from tests.support.command import tidemark
from tests.support.pipeline_run import wait_until
from tests.support.quarantined import envelope, record, rows_of, run_batch, table, write_pipeline
from tests.support.rebuilt_tables import (
    FILE,
    KINDS,
    POINTS,
    USER,
    branches,
    damage,
    data_files,
    finish,
    insert,
    job,
    kill_if,
    old_rows,
    root_of,
    start,
)
from tests.support.replayed_topic import FINAL, HISTORY, Killed, Topic, delete


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_rebuilt_table_has_the_rows_of_its_topic_and_the_tag_the_old_ones(tmp_path: Path, kind: str) -> None:
    topic = start(tmp_path, KINDS[kind])
    right = rows_of(tmp_path)
    wrong = damage(tmp_path)
    assert wrong != right

    done = finish(job(topic, allows_missing=True))

    assert rows_of(tmp_path) == right
    assert old_rows(tmp_path) == wrong
    assert done.rebuild is not None
    switch = done.rebuild.switch
    assert switch is not None
    assert (switch.old_rows, switch.new_rows, done.failed_count) == (len(wrong), len(right), 1)
    assert branches(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("    partition_by: [v]\n", {"bucket": "-1"}),
        ("    mode: append\n    on_change: skip\n", {"bucket": "-1"}),
        ("    primary_key: [id, v]\n    partition_by: [v]\n", {"changelog-producer": "lookup"}),
    ],
    ids=["rows that move", "without key", "partitions"],
)
def test_other_kinds_of_tables_are_rebuilt_and_written_on(
    tmp_path: Path, rule: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(quarantined, "YAML", quarantined.YAML + rule)
        file = write_pipeline(tmp_path, options)
    history = [r for r in HISTORY if r["offset"] != 7]
    for batch, at in enumerate((0, 5)):
        run_batch(tmp_path, file, batch, *history[at : at + 5 - batch])
    right = content(tmp_path)
    run_batch(tmp_path, file, 2, record(20, envelope(2, 555, v=99), key=2), record(21, envelope(77, 7, v=1)))
    wrong = content(tmp_path)
    assert wrong != right
    topic = Topic(tmp_path, [*history], closed=9)

    finish(job(topic, allows_missing=True))

    assert content(tmp_path) == right
    run_batch(tmp_path, file, 3, record(20, envelope(2, 555, v=99), key=2), record(21, envelope(77, 7, v=1)))
    assert content(tmp_path) == wrong


def content(root: Path) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["n"], row["v"]) for row in table(root).to_arrow().to_pylist())


@pytest.mark.slow
def test_the_stream_goes_on_at_its_position_and_with_the_changelog_of_the_new_rows(tmp_path: Path) -> None:
    topic = start(tmp_path, KINDS["lookup"])
    damage(tmp_path)
    before = newest_position(table(tmp_path).snapshots, "shop")
    finish(job(topic, allows_missing=True))
    switched = table(tmp_path).snapshots.latest()
    assert switched is not None
    assert switched.commit_kind is CommitKind.OVERWRITE
    after = newest_position(table(tmp_path).snapshots, "shop")
    assert before is not None and after is not None
    assert (after.offsets, after.commit_user, after.sources) == (before.offsets, USER, before.sources)

    run_batch(tmp_path, tmp_path / FILE, 3, record(23, envelope(5, 50, v=100), key=5))

    assert rows_of(tmp_path) == {**FINAL, 5: 50}
    changes = [row for _, part in table(tmp_path).changes(switched.id + 1) for row in part.to_pylist()]
    assert sorted((row["id"], row["n"]) for row in changes) == [(5, 5), (5, 50)]


@pytest.mark.slow
def test_the_stream_writes_while_the_table_is_rebuilt_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    topic = start(tmp_path)
    one = job(topic)
    one.step()
    one.step()
    wide = json.loads(envelope(40, 4, v=1))
    wide["after"]["colour"] = "blue"
    run_batch(tmp_path, tmp_path / FILE, 2, delete(10, 3), record(11, json.dumps(wide).encode(), key=40))
    topic.records_ += [delete(10, 3), record(11, json.dumps(wide).encode(), key=40)]
    topic.beyond = True
    assert rows_of(tmp_path) == {**{k: n for k, n in FINAL.items() if k != 3}, 40: 4}
    while one.step() is Step.SLICE:
        assert rows_of(tmp_path)[40] == 4
    assert branches(tmp_path) == ["rebuild-r1"]
    topic.closed, topic.beyond = 12, False

    finish(one)

    rows = {row["id"]: row for row in table(tmp_path).to_arrow().to_pylist()}
    assert {key: row["n"] for key, row in rows.items()} == {**{k: n for k, n in FINAL.items() if k != 3}, 40: 4}
    assert rows[40]["colour"] == "blue"


@pytest.mark.slow
@pytest.mark.parametrize("step", [*POINTS, "rebuild-options-set"])
@pytest.mark.parametrize("kind", ["lookup", "dynamic"])
def test_a_killed_rebuild_goes_on_and_switches_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, kind: str
) -> None:
    topic = start(tmp_path, KINDS[kind])
    damage(tmp_path)
    if step == "rebuild-options-set":
        write_pipeline(tmp_path, {**KINDS[kind], "merge-engine": "partial-update", "ignore-delete": "true"})
    number = {"rebuild": 4}.get(step.split("-")[0], 1)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == step and at == number))
        with pytest.raises(Killed):
            finish(job(topic, allows_missing=True))
    assert (77 not in rows_of(tmp_path)) == (step in ("rebuild-switched", "rebuild-options-set"))
    run_batch(tmp_path, tmp_path / FILE, 3, record(10, envelope(9, 99, v=1), key=9))  # the stream goes on
    topic.records_.append(record(10, envelope(9, 99, v=1), key=9))
    topic.closed = 11

    done = finish(job(topic, allows_missing=True))

    assert done.is_done
    assert rows_of(tmp_path) == {**FINAL, 9: 99, **({1: 1} if step == "rebuild-options-set" else {})}
    kinds = [snapshot.commit_kind for snapshot in table(tmp_path).snapshots.newest_first()]
    assert kinds.count(CommitKind.OVERWRITE) == 1
    assert branches(tmp_path) == []


@pytest.mark.slow
def test_a_rebuild_leaves_no_file_that_nobody_names(tmp_path: Path) -> None:
    topic = start(tmp_path, KINDS["lookup"])
    one, orders = job(topic, most=1), table(tmp_path)
    while one.step() is Step.SLICE:
        assert len([*BranchStore(orders.io, orders.paths).snapshots("rebuild-r1").newest_first()]) <= 2
    reader, named = ManifestReader(orders.io, orders.paths), set[str]()
    for snapshot in orders.snapshots.newest_first():
        named |= all_names(reader, [snapshot]) | changelog_names(reader, snapshot)
    there = {path.name for folder in ("bucket-*", "manifest") for path in root_of(tmp_path).glob(f"{folder}/*")}
    assert there == named


@pytest.mark.slow
def test_a_rebuild_that_is_given_up_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    topic = start(tmp_path, KINDS["lookup"])
    files, latest = data_files(tmp_path), table(tmp_path).snapshots.latest_id()
    one = job(topic)
    one.step()
    one.step()
    assert data_files(tmp_path) > files
    replays = Replays(Checkpoint(load_pipeline(tmp_path / FILE)))

    give_up(replays, one.state, table(tmp_path))

    assert (data_files(tmp_path), table(tmp_path).snapshots.latest_id(), branches(tmp_path)) == (files, latest, [])
    assert replays.all() == []


@pytest.mark.slow
def test_a_rebuild_is_given_up_by_the_process_that_may_be_at_its_switch(tmp_path: Path) -> None:
    topic = start(tmp_path)
    one = job(topic)
    one.step()
    config, own = load_pipeline(tmp_path / FILE), own_tables(load_pipeline(tmp_path / FILE))
    requests = Requests.of(config)
    desk = RequestDesk(requests, {GIVE_UP: giving_up(Checkpoint(config), own)})
    words = ("replay", tmp_path / FILE, "--table", "lake.orders", "--rebuild", "--abandon")
    with held_checkpoints([config]), ThreadPoolExecutor(1) as pool:
        done = pool.submit(tidemark, *words)
        wait_until(lambda: bool(requests.waiting()) or done.done(), 30, "a request")
        assert branches(tmp_path) == ["rebuild-r1"]
        assert desk.take() == 1
        assert done.result().stdout.startswith("gave up rebuild r1 of lake.orders"), done.result().stderr
    assert (branches(tmp_path), Replays(Checkpoint(config)).all()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "code", "told"),
    [
        (None, 1, "rebuild r1 of lake.orders was not given up: it ended in the meantime"),
        ("rebuild-switched", 2, "table lake.orders has the rebuilt content already: call again without --abandon"),
    ],
    ids=["ended", "killed behind its switch"],
)
def test_a_rebuild_that_goes_on_while_it_is_waited_for_is_not_told_as_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str | None, code: int, told: str
) -> None:
    one, config = job(start(tmp_path)), load_pipeline(tmp_path / FILE)
    one.step()
    words = ("replay", tmp_path / FILE, "--table", "lake.orders", "--rebuild", "--abandon")
    with ThreadPoolExecutor(1) as pool:
        with held_checkpoints([config]), monkeypatch.context() as patch:
            done = pool.submit(tidemark, *words)
            wait_until(lambda: bool(Requests.of(config).waiting()) or done.done(), 30, "a request")
            patch.setattr(faults, "reached", lambda at, _path: kill_if(at == point))
            with nullcontext() if point is None else pytest.raises(Killed):
                finish(one)
                Replays(Checkpoint(config)).remove("r1")
        assert (done.result().returncode, done.result().stdout) == (code, ""), done.result().stderr
    assert told in done.result().stderr
    assert "before-rebuild-r1" in done.result().stderr
    assert rows_of(tmp_path) == FINAL


@pytest.mark.slow
def test_what_is_switched_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = start(tmp_path)
    one = job(topic)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == "rebuild-switched"))
        with pytest.raises(Killed):
            finish(one)
    replays = Replays(Checkpoint(load_pipeline(tmp_path / FILE)))
    with pytest.raises(ConfigError, match=r"has the rebuilt content already: call again without --abandon"):
        give_up(replays, replays.get("r1"), table(tmp_path))
    finish(job(topic))
    assert rows_of(tmp_path) == FINAL


@pytest.mark.slow
def test_a_switch_that_nobody_can_tell_any_more_is_not_guessed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == "rebuild-switched"))
        with pytest.raises(Killed):
            finish(job(topic))
    run_batch(tmp_path, tmp_path / FILE, 2, record(10, envelope(9, 99, v=1), key=9))
    for snapshot in list(table(tmp_path).snapshots.newest_first())[1:]:
        (root_of(tmp_path) / "snapshot" / f"snapshot-{snapshot.id}").unlink()
    with pytest.raises(CommitOutcomeUnknown, match=r"the snapshots that show it have expired"):
        job(topic).step()
    replays = Replays(Checkpoint(load_pipeline(tmp_path / FILE)))

    give_up(replays, replays.get("r1"), table(tmp_path))

    assert rows_of(tmp_path) == {**FINAL, 9: 99}
    assert (replays.all(), branches(tmp_path)) == ([], [])
    assert (root_of(tmp_path) / "tag" / "tag-before-rebuild-r1").exists()


@pytest.mark.slow
def test_a_rebuild_given_up_behind_a_kill_before_its_switch_leaves_no_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    before = rows_of(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, at: kill_if(point == "rebuild-tagged"))
        with pytest.raises(Killed):
            finish(job(topic))
    tag = root_of(tmp_path) / "tag" / "tag-before-rebuild-r1"
    assert tag.exists()

    give_up(Replays(Checkpoint(load_pipeline(tmp_path / FILE))), job(topic).state, table(tmp_path))

    assert not tag.exists()
    assert rows_of(tmp_path) == before


# ---------------------------------------------------------------- rows counted beside the stream


@pytest.mark.slow
def test_a_topic_that_has_lost_its_beginning_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    topic = start(tmp_path)
    topic.lost = "topic t partition 0: offsets 0 to 4 are gone (retention, or deleted records)"
    with pytest.raises(
        ConfigError, match=r"cannot be rebuilt completely: topic t partition 0: offsets 0 to 4 are gone"
    ):
        job(topic).step()
    assert topic.runs == []
    topic.records_[:5] = [delete(offset, 1000 + offset) for offset in range(5)]

    finish(job(topic, allows_missing=True))

    assert set(rows_of(tmp_path)) == {0, 2, 5}


@pytest.mark.slow
def test_fewer_rows_than_before_are_told_and_switched_only_when_allowed(tmp_path: Path) -> None:
    topic = start(tmp_path)
    topic.records_[3] = delete(3, 1003)
    one = job(topic, most=100)
    with pytest.raises(ConfigError, match=r"it has 4 rows, and the table has 5. Compare the two; add --allow-missing"):
        one.step()
    assert rows_of(tmp_path) == FINAL
    finish(job(topic, allows_missing=True))
    assert rows_of(tmp_path) == {key: n for key, n in FINAL.items() if key != 3}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the last slice", "behind it"])
def test_rows_of_a_topic_that_comes_in_meanwhile_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(quarantined, "YAML", quarantined.YAML + "    merge_sources: disjoint_keys\n")
    topic = start(tmp_path)
    one = job(topic, allows_missing=True)
    one.step()
    if when == "behind it":
        topic.beyond = True
        while one.step() is Step.SLICE:
            pass
        topic.beyond = False
    run_batch(tmp_path, tmp_path / FILE, 2, record(0, envelope(900, 9), topic="other.public.orders", key=900))
    with pytest.raises(
        ConfigError, match=r"has received records of other.public.orders since its rebuild began.*--abandon"
    ):
        finish(one)
    assert rows_of(tmp_path) == {**FINAL, 900: 9}


@pytest.mark.parametrize("when", ["before", "during"])
def test_rows_of_others_are_not_replaced_unasked(tmp_path: Path, when: str) -> None:
    topic = start(tmp_path)
    if when == "before":
        insert(tmp_path, 500)
        with pytest.raises(
            ConfigError, match=r"a writer other than the stream has written the table: snapshot 3 \(APPEND"
        ):
            job(topic)
        return
    one = job(topic)
    one.step()
    insert(tmp_path, 500)
    with pytest.raises(ConfigError, match=r"was not switched: a writer other than the stream.*snapshot 3 \(APPEND of"):
        job(topic).step()  # before the next slice: the snapshot may have expired before the last one
    assert rows_of(tmp_path)[500] == 1
    assert len(topic.runs) == 1


@pytest.mark.parametrize("when", ["before the last slice", "behind it"])
def test_a_table_that_is_rescaled_meanwhile_is_not_given_the_buckets_from_before(tmp_path: Path, when: str) -> None:
    topic = start(tmp_path)
    one = job(topic, most=3 if when == "before the last slice" else 100)
    topic.beyond = True
    one.step()
    topic.beyond = False
    rescale(table(tmp_path), 3, new_job())
    with pytest.raises(
        ConfigError, match=r"has option 'bucket' 3 since its rebuild began.* rebuilt rows have 1: give it up"
    ):
        finish(one)
    assert rows_of(tmp_path) == FINAL


@pytest.mark.slow
def test_a_table_that_was_rescaled_has_no_rows_of_others_for_that(tmp_path: Path) -> None:
    topic = start(tmp_path)
    rescale(table(tmp_path), 3, new_job())
    write_pipeline(tmp_path, {"bucket": "3"})
    finish(job(topic))
    assert rows_of(tmp_path) == FINAL and table(tmp_path).options.bucket == 3


@pytest.mark.slow
def test_rows_that_others_bring_behind_the_last_slice_are_not_replaced_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = start(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            faults, "reached", lambda point, at: insert(tmp_path, 500) if point == "rebuild-compacted" else None
        )
        with pytest.raises(
            ConfigError, match=r"the table has 6; a writer other than the stream.*snapshot 3 \(APPEND of"
        ):
            finish(job(topic))
    assert rows_of(tmp_path)[500] == 1


@pytest.mark.slow
def test_another_begin_needs_consent(tmp_path: Path) -> None:
    topic = start(tmp_path)
    begin = Point(Kind.POSITION, "5", "the offsets given")
    with pytest.raises(ConfigError, match=r"records before the offsets given are not read.*--allow-missing"):
        job(topic, begin=begin)
    finish(job(topic, begin=begin, allows_missing=True))
    assert rows_of(tmp_path) == {0: 60, 2: 90, 5: 5}


def test_a_branch_that_somebody_has_deleted_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    topic = start(tmp_path)
    one = job(topic)
    one.step()
    orders = table(tmp_path)
    BranchStore(orders.io, orders.paths).delete("rebuild-r1")
    with pytest.raises(ConfigError, match=r"branch 'rebuild-r1' of .* was removed"):
        finish(job(topic))
    assert rows_of(tmp_path) == FINAL


# ---------------------------------------------------------------- another rule


@pytest.mark.slow
def test_the_state_of_a_rebuild_is_read_as_it_was_written(tmp_path: Path) -> None:
    topic = start(tmp_path)
    done = finish(job(topic))
    assert ReplayState.from_bytes(done.to_bytes()) == done
    assert done.rebuild is not None
    assert replace(done, rebuild=replace(done.rebuild, switch=None)) == ReplayState.from_bytes(
        replace(done, rebuild=replace(done.rebuild, switch=None)).to_bytes()
    )


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 20])
def test_a_rebuild_follows_the_truncates_of_its_topic(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(quarantined, "YAML", quarantined.YAML + "    schema_changes: {{ truncate: apply }}\n")
        file = write_pipeline(tmp_path, {"changelog-producer": "lookup"})
    truncate = record(10, envelope(0, 0).replace(b'"op": "c"', b'"op": "t"'), key=0)
    last = [record(11, envelope(50, 5, v=1)), record(12, envelope(51, 6, v=1))]
    for batch, part in enumerate((HISTORY[:5], HISTORY[5:], [truncate, *last])):
        run_batch(tmp_path, file, batch, *part)
    right = rows_of(tmp_path)
    assert right.keys() == {50, 51}
    topic = Topic(tmp_path, [*HISTORY, truncate, *last], closed=13)

    done = finish(job(topic, most, allows_missing=True))

    assert rows_of(tmp_path) == right
    assert done.rebuild is not None and done.rebuild.switch is not None
    assert done.rebuild.switch.new_rows == 2
