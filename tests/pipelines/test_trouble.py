"""Trouble that passes: how long it is waited out, and what ends a pipeline at once."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from paimon_table.errors import CommitOutcomeUnknown, ConfigError, Outage, SinkUnavailable
from paimon_table.patience import Patience
from paimon_table.storage.outages import storage_failure, told_failure
from pipelines.catchup.shown_standing import Standing, TableStanding
from pipelines.checkpoint.book import Cause, Pause
from pipelines.tables.table_failure import TableContinued
from pipelines.trouble import Trouble, may_pass
from pipelines.views.table_views import EventKind, Phase
from sources.kafka.offset_ranges import offsets_of
from tests.support.supervised_runs import Query, Supervised


def test_waits_grow_up_to_the_longest_and_the_last_try_comes_at_the_end() -> None:
    patience, trouble, now_s, waits = Patience(1.0, 20.0, max_elapsed_s=100.0), Trouble("x", "x", 0.0), 0.0, []
    while (after := trouble.failed_again("x", "x", now_s, patience)) is not None:
        waits.append(after.next_s - now_s)
        trouble, now_s = after, after.next_s
    assert waits == [1, 2, 4, 8, 16, 20, 20, 20, 9]
    assert (trouble.tries, now_s) == (9, 100.0)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Outage("Kafka does not answer"), True),
        (CommitOutcomeUnknown("the link failed"), True),
        (TimeoutError("s3://lake"), True),
        (OSError(errno.ESTALE, "Stale file handle"), True),
        (OSError("When writing s3://lake/a: AWS Error SLOW_DOWN during PutObject operation"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (FileNotFoundError(errno.ENOENT, "gone"), False),
        (SinkUnavailable("another run uses the checkpoint"), False),
        (ConfigError("the topic is not there"), False),
        (ValueError("a fault of ours"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_only_what_somebody_need_not_mend_is_tried_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes
    if isinstance(error, OSError):
        assert isinstance(storage_failure(error), Outage) is passes


def test_what_a_user_has_no_rights_for_is_told_with_who_may() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/lake/shop.db")
    assert "'/lake/shop.db'; this user lacks permission: start as the owner" in str(storage_failure(error))


def test_what_a_task_says_of_its_storage_is_told_apart() -> None:
    assert isinstance(told_failure("ConnectionError", "s3://lake/a: An error occurred (503)"), Outage)
    assert isinstance(told_failure("OSError", "[Errno 116] Stale file handle: '/lake'"), Outage)
    full = told_failure("OSError", "[Errno 28] No space left on device")
    assert full is not None and not isinstance(full, Outage) and "free some space there" in str(full)
    assert told_failure("KeyError", "x") is None


def test_a_query_that_an_outage_ends_is_begun_again_until_it_goes_well(caplog: pytest.LogCaptureFixture) -> None:
    silent = Outage("Kafka at b:1 does not answer")
    one = Supervised([Query(silent), silent, silent, Query()])

    one.run.start()
    one.play(lambda: one.state.view().phase is Phase.WAITING)
    assert one.run.waits_for is not None and "next try in 1 s" in one.run.waits_for
    assert one.state.view().reason == "Kafka at b:1 does not answer"
    one.play(lambda: one.run.waited_s > 0)

    assert [query.is_closed for query in one.begun[:1]] == [True]
    assert one.state.view().retries == {"outage": 3}
    assert one.prepared.reader.losses is one.run.losses, "losses are counted over all queries"
    assert 7 <= one.run.waited_s < 12
    told = [record.getMessage() for record in caplog.records]
    assert [("next try in" in text, "continues after" in text) for text in told[:3]] == [(True, False)] * 3
    assert "next try in 4 s (number 3); the pipeline ends if it lasts 24 h 0 min" in told[2]


def test_a_pipeline_says_once_that_trouble_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """Also where each query begins, and its first batch then meets the same trouble."""
    silent = Outage("s3://lake does not answer")
    one = Supervised([Query(silent), Query(silent), silent, Query(silent), Query(runs_on=True)])
    one.run.start()
    one.play(lambda: one.run.waited_s > 0)
    told = [record.getMessage() for record in caplog.records]
    assert ["continues after" in text for text in told] == [False] * 4 + [True]
    assert [event.kind for event in one.state.view().events][1:] == [EventKind.WAITING, EventKind.GOING_ON]


def test_a_wait_counts_from_when_the_source_fell_silent(caplog: pytest.LogCaptureFixture) -> None:
    """Spark gives up long after that."""
    query = Query(Outage("Kafka at b:1 does not answer"), runs_on=True)
    one = Supervised([query, Query(runs_on=True)])
    one.run.start()
    one.play(lambda: one.run.has_query)
    one.play(lambda: one.clock.now_s >= 170)
    one.prepared.reader.silent_s = 170.0
    assert one.run.is_source_silent
    query.runs_on = False
    one.play(lambda: not one.run.has_query)
    one.prepared.reader.silent_s = None
    assert one.run.waits_for is not None and "has been waiting for 2 min" in one.run.waits_for
    one.play(lambda: one.run.waited_s > 0)
    assert 170 <= one.run.waited_s < 180
    assert "continues after 2 min of waiting" in caplog.text


def test_trouble_and_its_end_are_events_of_the_pipeline() -> None:
    silent = Outage("Kafka at b:1 does not answer")
    one = Supervised([Query(silent), silent, Query(runs_on=True)])
    one.run.start()
    one.play(lambda: one.run.waited_s > 0)
    told = [(event.kind, event.count, event.public_reason) for event in one.state.view().events]
    assert told == [
        (EventKind.STARTED, 1, ""),
        (EventKind.WAITING, 2, silent.public_text),
        (EventKind.GOING_ON, 1, ""),
    ]


def test_a_table_that_is_not_in_the_stream_is_shown_with_what_it_misses() -> None:
    query = Query(runs_on=True)
    position = '{"t":{"0":5}}'
    pause = Pause("lake.t", Cause.FAILED, "too narrow", 7000, 1, position, topics=("t",))
    standing = TableStanding(pause, Standing.PAUSED)
    query.standings = lambda: {"lake.t": standing}  # type: ignore[method-assign]
    one = Supervised([query])
    one.prepared.reader.slices = lambda: SimpleNamespace(offsets=offsets_of)
    one.prepared.reader.lag.ends_at({("t", 0): 12}, 0.0)
    one.run.start()
    one.play(lambda: bool(one.state.view().tables))
    (table,) = one.state.view().tables
    assert (table.missed_records, table.topics, table.since_s) == (7, ("t",), 7.0)
    one.run.request_stop()


def test_patience_ends_with_the_reason_and_what_to_do() -> None:
    one = Supervised([Outage("Kafka at b:1 does not answer")] * 50, max_elapsed="30s")
    one.run.start()
    one.play(lambda: one.run.failure is not None)
    assert "tried again for 30 s (retry.max_elapsed); start again when it is back" in str(one.run.failure)
    assert one.state.view().phase is Phase.FAILED
    assert 30 <= one.clock.now_s < 35


def test_what_does_not_pass_ends_a_pipeline_at_once() -> None:
    one = Supervised([SinkUnavailable("the disk is full: make room there")])
    one.run.start()
    one.play(lambda: one.run.failure is not None)
    assert str(one.run.failure) == "pipeline shop: the disk is full: make room there"
    assert not one.run.is_alive


def test_a_request_to_stop_ends_the_waiting_at_once() -> None:
    one = Supervised([Outage("Kafka at b:1 does not answer")] * 50)
    one.run.start()
    one.play(lambda: one.state.view().phase is Phase.WAITING)
    one.run.request_stop()
    assert not one.run.is_alive and one.run.failure is None


def test_a_query_starts_over_at_once_when_a_new_table_continues_another_one() -> None:
    """Nothing has failed: nobody waits, and no failure is shown."""
    supervised = Supervised([Query(TableContinued("table lake.t_v2 continues table lake.t")), Query()])
    supervised.run.start()
    supervised.play(lambda: not supervised.run.is_alive, step_s=0.0)
    assert len(supervised.begun) == 2 and supervised.begun[0].is_closed
    assert supervised.run.failure is None and supervised.run.waited_s == 0
    kinds = [event.kind for event in supervised.state.view().events]
    assert EventKind.WAITING not in kinds and EventKind.FAILED not in kinds
