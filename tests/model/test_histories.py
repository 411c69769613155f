"""Histories that the machine has found, each as short as it gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.judged import ONE, TOPICS
from tests.model.machine import PipelineMachine


@pytest.fixture
def machine() -> Iterator[PipelineMachine]:
    machine = PipelineMachine()
    try:
        machine.begin(partitions=1)
        yield machine
    finally:
        machine.teardown()


@pytest.mark.slow
def test_a_rebuild_does_not_wait_for_a_topic_that_is_gone(machine: PipelineMachine) -> None:
    """The table's position in it lies beyond what the new topic of its name holds."""
    machine.make_topic_anew(topic=ONE)
    machine.check_at_rest()
    machine.rebuild(table="lake.orders", meanwhile=[])
    machine.check_at_rest()


@pytest.mark.slow
def test_the_first_batch_of_a_checkpoint_does_not_run_again_over_a_topic_made_anew(machine: PipelineMachine) -> None:
    """It was killed, so that no batch is closed; its offsets are of the topic before."""
    machine.lose_checkpoint()
    machine.produce(source="sums", keys=[4], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch"], most=20)
    assert not machine.pipeline.is_running
    machine.make_topic_anew(topic=ONE)
    machine.produce(source="sums", keys=[0, 8], deletes=False)
    machine.check_at_rest()


@pytest.mark.slow
def test_a_killed_batch_that_was_the_first_of_its_topic_does_not_run_again_over_a_new_one(
    machine: PipelineMachine,
) -> None:
    """The closed batches do not know the topic: the first one of its name went before."""
    machine.make_topic_anew(topic=ONE)
    machine.produce(source="sums", keys=[4], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch", "batch", "batch"], most=20)
    assert not machine.pipeline.is_running
    machine.make_topic_anew(topic=ONE)
    machine.produce(source="sums", keys=[8], deletes=False)
    machine.check_at_rest()


@pytest.mark.slow
def test_a_new_table_is_filled_under_a_new_checkpoint(machine: PipelineMachine) -> None:
    machine.lose_checkpoint()
    machine.fill_another_table()
    machine.check_at_rest()


@pytest.mark.slow
def test_a_new_table_is_filled_where_the_first_batch_of_a_checkpoint_was_killed(machine: PipelineMachine) -> None:
    machine.lose_checkpoint()
    machine.produce(source="orders", keys=[4], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch"], most=20)
    assert not machine.pipeline.is_running
    machine.fill_another_table()
    machine.check_at_rest()


@pytest.mark.slow
def test_a_partition_that_a_paused_table_has_not_read_is_read_under_a_new_checkpoint(machine: PipelineMachine) -> None:
    """The other tables of the topic have read it, so that only their positions name it."""
    machine.pause(table="lake.orders", source="log")
    machine.add_partition(topic=ONE)
    machine.produce(source="orders", keys=[1], deletes=False)
    machine.produce(source="sums", keys=[1], deletes=False)
    machine.produce(source="log", keys=[1], deletes=False)
    machine.run(work=["batch"], most=20)
    machine.lose_checkpoint()
    machine.check_at_rest()


@pytest.mark.slow
def test_records_that_get_the_offsets_of_lost_ones_are_read(machine: PipelineMachine) -> None:
    """Also by a process that comes after a kill, and by tables that have nothing new before the checkpoint is lost."""
    machine.produce(source="sums", keys=[0, 4, 8], deletes=False)
    machine.cut_off(topic=ONE, partition=0, count=3)
    machine.produce(source="sums", keys=[4], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch"], most=20)
    assert not machine.pipeline.is_running
    machine.check_at_rest()
    machine.lose_checkpoint()
    for source in TOPICS:
        machine.produce(source=source, keys=[0, 4], deletes=False)
    machine.check_at_rest()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_cuts_of_a_topic_that_is_gone_say_nothing_of_the_new_one(machine: PipelineMachine, count: int) -> None:
    """Cut at the same offset again (3), or at another."""
    machine.produce(source="sums", keys=[0, 4, 8, 0, 4], deletes=False)
    machine.cut_off(topic=ONE, partition=0, count=4)
    machine.produce(source="sums", keys=[4, 4], deletes=False)
    machine.check_at_rest()
    machine.make_topic_anew(topic=ONE)
    machine.produce(source="sums", keys=[0] * 7, deletes=False)
    machine.check_at_rest()
    machine.cut_off(topic=ONE, partition=0, count=count)
    machine.produce(source="sums", keys=[4, 4], deletes=False)
    machine.check_at_rest()


@pytest.mark.slow
def test_a_new_checkpoint_does_not_take_over_cuts_of_a_topic_that_is_gone(machine: PipelineMachine) -> None:
    """The log never met the cut, and has read more of the new topic than the old one had when it was cut."""
    machine.produce(source="sums", keys=[0, 4, 8, 0, 4], deletes=False)
    machine.cut_off(topic=ONE, partition=0, count=3)
    machine.produce(source="sums", keys=[4, 4], deletes=False)
    machine.check_at_rest()
    machine.make_topic_anew(topic=ONE)
    machine.produce(source="log", keys=[0] * 9, deletes=False)
    machine.check_at_rest()
    machine.produce(source="sums", keys=[0] * 3, deletes=False)
    machine.produce(source="orders", keys=[0] * 3, deletes=False)
    machine.check_at_rest()
    machine.has_cut = False
    machine.lose_checkpoint()
    machine.check_at_rest()


@pytest.mark.slow
def test_a_partition_that_lost_what_a_killed_batch_had_read_is_read_on(machine: PipelineMachine) -> None:
    """The closed batches end where the partition ends now; the tables are beyond."""
    machine.produce(source="sums", keys=[0, 4, 8, 0, 4], deletes=False)
    machine.check_at_rest()
    machine.produce(source="sums", keys=[0, 0, 0], deletes=False)
    machine.kill_at(point="after-append")
    machine.run(work=["batch"], most=20)
    assert not machine.pipeline.is_running
    machine.pipeline.broker.cut_off(ONE, 0, 3)
    machine.truth.cut_off(ONE, 0)
    machine.start()
    machine.produce(source="sums", keys=[4, 4, 4], deletes=False)
    machine.check_at_rest()


@pytest.mark.slow
def test_a_position_that_has_expired_is_known_by_the_checkpoint(machine: PipelineMachine) -> None:
    """Else the next commit would record the partitions of its own rows alone."""
    machine.add_partition(topic=ONE)
    machine.produce(source="log", keys=[0, 1, 0, 1, 1], deletes=False)
    machine.check_at_rest()
    machine.pipeline.stop()
    _commit_nothing(machine, "another-engine", 1)
    machine.pipeline.expire("lake.log")
    machine.let_an_hour_pass()
    machine.produce(source="log", keys=[0, 0], deletes=False)
    machine.check_at_rest()
    machine.lose_checkpoint()
    machine.check_at_rest()


@pytest.mark.slow
def test_a_rollback_that_leaves_only_commits_of_others_is_refused(machine: PipelineMachine) -> None:
    """Nothing shows which records the table lacks, and it does not go on as if it had them all."""
    machine.produce(source="log", keys=[0, 1], deletes=False)
    machine.check_at_rest()
    machine.pipeline.stop()
    _commit_nothing(machine, "another-engine", 1)
    machine.pipeline.expire("lake.log")
    kept = machine.pipeline.snapshot_ids("lake.log")[-1]
    machine.let_an_hour_pass()
    machine.produce(source="log", keys=[0, 0], deletes=False)
    machine.check_at_rest()
    machine.pipeline.stop()
    machine.pipeline.roll_back("lake.log", kept)
    _commit_nothing(machine, "a-third", 3)

    assert "lake.log was rolled back" in str(machine.pipeline.start())


def _commit_nothing(machine: PipelineMachine, user: str, times: int) -> None:
    log = machine.pipeline.table("lake.log")
    assert log is not None
    commit = log.new_commit(user, is_new_user=True)
    for number in range(times):
        commit.commit(number, [], {}, also_empty=True)


@pytest.mark.slow
def test_a_compaction_that_a_rollback_has_undone_is_done_again(machine: PipelineMachine) -> None:
    """The snapshot with the rows stays, the one with their changelog goes; the checkpoint has counted both."""
    machine.pipeline.stop()
    machine.check_at_rest()
    machine.roll_back(table="lake.orders", back=1)
    machine.check_at_rest()
    assert not machine.pipeline.awaits_compaction("lake.orders")


@pytest.mark.slow
def test_a_compaction_that_a_rollback_has_undone_waits_with_a_paused_table(machine: PipelineMachine) -> None:
    """A paused table is not written at all."""
    machine.pipeline.stop()
    machine.check_at_rest()
    machine.roll_back(table="lake.orders", back=1)
    machine._pause("lake.orders")
    machine.check_at_rest()
    assert machine.pipeline.awaits_compaction("lake.orders")
    machine.resume(table="lake.orders")
    machine.check_at_rest()
    assert not machine.pipeline.awaits_compaction("lake.orders")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["retry", "replay"])
def test_rows_of_a_killed_command_are_in_the_changelog_after_the_next_start(
    machine: PipelineMachine, command: str
) -> None:
    """It was killed before it had compacted them, with the pipeline stopped, and nothing else comes for the table."""
    machine.produce_bad(partition=0, source="orders")
    machine.check_at_rest()
    machine.mend_rules()
    machine.produce(source="orders", keys=[4], deletes=False)
    machine.check_at_rest()
    machine.pipeline.stop()
    machine.kill_at(point="after-append")
    if command == "retry":
        machine.retry(meanwhile=[])
    else:
        machine.unfinished.add("lake.orders")
        machine.pipeline.replay("lake.orders", rebuilds=False)
    assert machine.pipeline.awaits_compaction("lake.orders")
    machine.check_at_rest()
    assert not machine.pipeline.awaits_compaction("lake.orders")


@pytest.mark.slow
def test_an_older_copy_of_a_checkpoint_is_refused_where_a_table_was_filled_since(machine: PipelineMachine) -> None:
    """To it the table is new, so that it is filled once more."""
    machine.back_up()
    machine.fill_another_table()
    machine.check_at_rest()
    machine.restore_checkpoint()
    machine.check_at_rest()


@pytest.mark.slow
def test_a_bad_record_that_a_rebuild_reads_again_is_in_the_quarantine_once(machine: PipelineMachine) -> None:
    """Both know the topic by its id."""
    machine.produce_bad(partition=0, source="log")
    machine.run(work=["batch"], most=2)
    machine.rebuild(table="lake.log", meanwhile=[])
    machine.check_at_rest()
