"""`tidemark quarantine retry`: bad records come into their tables, each exactly once."""

from __future__ import annotations

import fcntl
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.errors import CorruptFile, SinkUnavailable
from paimon_table.history.rollback import plan_rollback, roll_back
from pipelines.bad_records.facts import evidence_of
from pipelines.bad_records.log import Applied, stretches
from pipelines.checkpoint.book import FILE, Book, Cause, Entry, Pause, Ruleless
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.lock import held_checkpoints
from pipelines.config.config_file import load_pipeline
from pipelines.control.request_desk import RequestDesk
from pipelines.control.requests import Requests
from pipelines.prepared import own_tables
from pipelines.quarantine.applying import COMMAND, handler
from pipelines.replay.rebuild_rules import rows_of_others
from pipelines.tables.checkpoint_record import CheckpointRecord
from sinks import faults
from sinks.commit.positions import FedBy
from sinks.commit.table_sink import TableSink
from sources.changes import QuarantineRow, SourceTable
from tests.support.command import Done, tidemark, tidemark_process
from tests.support.quarantined import (
    bad,
    checkpoint,
    envelope,
    forget_the_past,
    letters,
    lines_left,
    offsets_left,
    put,
    read_from_kafka,
    record,
    rows_of,
    run_batch,
    table,
    write_pipeline,
)

SEQUENCE = {"sequence.field": "v"}
TOO_WIDE = 3_000_000_000


def retry(*words: str | Path, code: int = 0) -> Done:
    done = tidemark("quarantine", "retry", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def filled(root: Path, options: dict[str, str] | None = None) -> Path:
    """Rows 0 to 3 in the table; records 4, 5 and 6 in quarantine, because n is INT and theirs is more."""
    file = write_pipeline(root, SEQUENCE if options is None else options)
    good = [record(offset, envelope(offset, offset, v=offset)) for offset in range(4)]
    wide = [record(offset, envelope(offset, TOO_WIDE + offset, v=offset)) for offset in range(4, 7)]
    run_batch(root, file, 0, *good, *wide)
    assert offsets_left(root) == [4, 5, 6]
    return file


def widen(file: Path) -> None:
    """Let the table follow the types that the records show."""
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "columns:" not in line))


def mended(root: Path, **values: Any) -> Path:
    """A file of the lines in quarantine with other values in the rows of their payloads."""
    lines = lines_left(root)
    for line in lines:
        payload = json.loads(line["payload"])
        payload["after"] |= values
        line["payload"] = json.dumps(payload)
    path = root / "edited.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


ALL = {0: 0, 1: 1, 2: 2, 3: 3, **{key: TOO_WIDE + key for key in (4, 5, 6)}}


@pytest.mark.slow
def test_different_records_of_one_place_are_all_applied(tmp_path: Path) -> None:
    """A topic that was recreated, or a dump that was replaced, has other records at the offsets of before."""
    file = filled(tmp_path)
    other = {**record(4, envelope(9, TOO_WIDE + 9, v=9), key=9), "timestamp": 1_800_000_000_000_000}
    run_batch(tmp_path, file, 1, other)
    assert offsets_left(tmp_path) == [4, 4, 5, 6]
    widen(file)

    assert "retried 4 records" in retry(file).stdout

    assert rows_of(tmp_path) == {**ALL, 9: TOO_WIDE + 9} and lines_left(tmp_path) == []


@pytest.mark.slow
def test_a_slice_that_has_lost_records_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = filled(tmp_path)
    widen(file)
    killed = tidemark_process("quarantine", "retry", str(file), TIDEMARK_CRASH_AT="slice-written")
    assert killed.returncode < 0
    (cut,) = tmp_path.glob("checkpoint-quarantine/retry-*/slice-*/records.jsonl")
    cut.write_bytes(cut.read_bytes().splitlines(keepends=True)[0])

    assert "has 1 record, not the 3 that were written" in retry(file, code=1).stderr
    assert offsets_left(tmp_path) == [4, 5, 6]


def test_records_are_applied_once_their_rule_is_right(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)

    assert "would retry 3 records:\n  lake.orders: 3 records\n" in retry(file, "--dry-run").stdout
    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"

    assert rows_of(tmp_path) == ALL
    assert lines_left(tmp_path) == []
    assert retry(file).stdout.startswith("nothing to retry: ")
    assert not list(tmp_path.glob("checkpoint-quarantine/retry-*/slice-*"))


def test_a_record_that_replays_have_put_aside_again_is_counted_once(tmp_path: Path) -> None:
    file = filled(tmp_path)
    run_batch(tmp_path, file, 1, *(record(offset, envelope(offset, TOO_WIDE + offset, v=offset)) for offset in (4, 5)))
    assert len([*(tmp_path / "checkpoint-quarantine").rglob("*.jsonl")]) == 2
    widen(file)

    assert "would retry 3 records:\n  lake.orders: 3 records\n" in retry(file, "--dry-run").stdout
    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"


def test_a_table_whose_past_has_just_expired_takes_records(tmp_path: Path) -> None:
    file = filled(tmp_path)
    run_batch(tmp_path, file, 1, record(7, envelope(7, 7, v=7)))
    forget_the_past(tmp_path)
    widen(file)

    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"
    assert rows_of(tmp_path) == {**ALL, 7: 7}


def test_records_are_applied_as_they_are_mended_in_a_file(tmp_path: Path) -> None:
    file = filled(tmp_path)
    edited = mended(tmp_path, n=77)
    edited.write_text("".join(edited.read_text().splitlines(keepends=True)[:2]))

    assert retry(file, "--file", edited).stdout == "retried 2 records: 2 are in their tables\n"
    assert rows_of(tmp_path) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 77, 5: 77}
    assert offsets_left(tmp_path) == [6]

    again = retry(file, "--file", edited)
    assert again.stdout.startswith("nothing to retry: ")
    assert "2 lines of --file name records that are not in the quarantine: line 1, 2" in again.stderr


def test_a_record_that_stands_twice_in_the_file_is_applied_once(tmp_path: Path) -> None:
    """It may lie in the quarantine twice, so `show` prints it twice."""
    file = filled(tmp_path, {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"})
    edited = mended(tmp_path, n=77)
    edited.write_text(edited.read_text() * 2)
    assert retry(file, "--file", edited).stdout == "retried 3 records: 3 are in their tables\n"
    assert [rows_of(tmp_path)[key] for key in (4, 5, 6)] == [77] * 3


def test_what_fails_again_stays_with_the_new_reason(tmp_path: Path) -> None:
    file = filled(tmp_path)

    done = retry(file, "--file", mended(tmp_path, n="many"), code=1)

    assert "retried 3 records: 0 are in their tables, 3 stay in the quarantine\n  3: " in done.stdout
    assert all("many" in line["reason"] for line in lines_left(tmp_path))
    assert offsets_left(tmp_path) == [4, 5, 6]
    assert all('"many"' in line["payload"] for line in lines_left(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("mended_at_first", [True, False], ids=["one is mended", "none is"])
def test_what_failed_in_a_retry_that_was_killed_and_is_good_by_now_is_not_lost(
    tmp_path: Path, mended_at_first: bool
) -> None:
    """The tables have its slice: what they did not take then waits for the next one."""
    file = filled(tmp_path)
    words: list[str | Path] = ["quarantine", "retry", file]
    if mended_at_first:
        edited = mended(tmp_path)
        lines = edited.read_text().splitlines()
        edited.write_text("\n".join([lines[0], lines[1].replace(str(TOO_WIDE + 5), "55"), lines[2]]))
        words += ["--file", edited]
    assert tidemark_process(*map(str, words), TIDEMARK_CRASH_AT="slice-applied").returncode != 0
    widen(file)

    retry(file)
    assert rows_of(tmp_path) == {**ALL, **({5: 55} if mended_at_first else {})}
    assert offsets_left(tmp_path) == []


@pytest.mark.parametrize("how", ["rolled back", "its source was away"])
def test_records_that_the_next_start_reads_again_wait(tmp_path: Path, how: str) -> None:
    file = filled(tmp_path)
    widen(file)
    checkpoint(tmp_path, 0)
    found, config = table(tmp_path), load_pipeline(file)
    CheckpointRecord(config, Checkpoint(config)).add([("lake.orders", found)], ["lake.orders"])
    if how == "rolled back":
        Book(Checkpoint(config)).note_commits({"lake.orders": Entry(found.created_ms, 99, 0, ("shop.public.orders",))})
    else:  # of dump files it would not be read again
        read_from_kafka(file)
        source = FedBy("shop.public.orders", "shop", "public", "orders")
        book = Book(Checkpoint(config))
        book.put({"lake.orders": replace(book.entry("lake.orders"), ruleless=(Ruleless(source, 0, None),))})

    assert "lake.orders is behind the stream" in retry(file, "--table", "lake.orders", code=2).stderr
    assert offsets_left(tmp_path) == [4, 5, 6]


def test_a_retry_without_a_checkpoint_makes_none(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    shutil.rmtree(tmp_path / "checkpoint")
    retry(file)
    assert rows_of(tmp_path) == ALL
    assert not (tmp_path / "checkpoint" / FILE).exists()


@pytest.mark.slow
@pytest.mark.parametrize(("cause", "has_rule"), [(Cause.ASKED, True), (Cause.FAILED, True), (Cause.FAILED, False)])
def test_records_of_a_table_that_reads_them_again_wait(tmp_path: Path, cause: Cause, has_rule: bool) -> None:
    file = filled(tmp_path)
    widen(file)
    checkpoint(tmp_path, 0)
    book = Book(Checkpoint(load_pipeline(file)))
    pause = Pause("lake.orders", cause, "why", 1, 0, None, topics=("shop.public.orders",), has_rule=has_rule)
    book.put({"lake.orders": Entry(pause=pause)})

    told = "table lake.orders is behind the stream and rereads its topics"
    assert told in retry(file, "--table", "lake.orders", code=2).stderr
    assert f"3 records not retried: {told}" in retry(file, "--even-if-older").stderr
    assert offsets_left(tmp_path) == [4, 5, 6]

    book.change_entry("lake.orders", Entry.resumed)
    retry(file)
    assert rows_of(tmp_path) == ALL


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}\n", ":1: its field 'topic' is missing"),
        ("\nno\n", ":2: it is not JSON"),
        (
            '{"topic": "t", "partition": 0, "offset": 1, "payloat": ""}',
            "unknown field 'payloat'; did you mean 'payload'",
        ),
        (
            '{"topic": "t", "partition": 0, "offset": 1}\n'
            '{"topic": "t", "partition": 0, "offset": 1, "payload": "x"}\n',
            ":2: the record of line 1 appears here a second time",
        ),
    ],
)
def test_a_file_with_lines_that_are_no_records_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = filled(tmp_path)
    (tmp_path / "edited.jsonl").write_text(text)

    assert problem in retry(file, "--file", tmp_path / "edited.jsonl", code=2).stderr
    assert offsets_left(tmp_path) == [4, 5, 6]


def test_positions_of_the_stream_stay_as_they_are(tmp_path: Path) -> None:
    file = filled(tmp_path)
    before = table(tmp_path).snapshots.latest()
    widen(file)
    retry(file)
    run_batch(tmp_path, file, 1, record(7, envelope(7, 7, v=7)))

    newest = table(tmp_path).snapshots.latest()
    assert before is not None and newest is not None
    assert before.commit_user == newest.commit_user
    assert json.loads(newest.properties["tidemark.offsets"]) == {"shop.public.orders": {"0": 8}}
    assert rows_of(tmp_path) == {**ALL, 7: 7}


# ---------------------------------------------------------------- order


def test_a_late_record_does_not_win_over_a_newer_row(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    run_batch(tmp_path, file, 1, record(7, envelope(5, 1000, v=7), key=5))

    retry(file)

    assert rows_of(tmp_path) == {**ALL, 5: 1000}


WINS = {
    "its key. Check": [{}, {"merge-engine": "partial-update"}],
    "its key in n (last_non_null_value), v (last_non_null_value). Check": [{"merge-engine": "aggregation"}],
    "its key in v (last_non_null_value). Check": [
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "max"}
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "options"), [(where, options) for where, of in WINS.items() for options in of], ids=str
)
def test_where_a_late_record_would_win_it_stays_unless_that_is_wanted(
    tmp_path: Path, where: str, options: dict[str, str]
) -> None:
    file = filled(tmp_path, options)
    run_batch(tmp_path, file, 1, record(7, envelope(0, 0, v=0), key=0))
    widen(file)
    forget_the_past(tmp_path)

    told = retry(file, "--table", "lake.orders", code=2).stderr
    assert "table lake.orders has no sequence.field, so a late record replaces newer rows of " in told
    assert where in told
    assert "3 records not retried: table lake.orders has no sequence.field" in retry(file).stderr
    assert offsets_left(tmp_path) == [4, 5, 6]
    assert retry(file, "--even-if-older").stdout == "retried 3 records: 3 are in their tables\n"
    assert rows_of(tmp_path) == ALL


def test_a_late_record_finds_its_place_among_the_versions_of_its_row(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    file.write_text(file.read_text().replace("    into:", "    history: scd2\n    into:"))
    gone = json.dumps({**json.loads(envelope(1, 0)), "before": {"id": 1, "n": 0}, "after": None, "op": "d"}).encode()
    values = [envelope(1, 0), envelope(1, TOO_WIDE), gone, envelope(1, 3)]
    run_batch(tmp_path, file, 0, *(record(offset, value, key=1) for offset, value in enumerate(values)))
    assert offsets_left(tmp_path) == [1]
    widen(file)

    retry(file)

    rows = table(tmp_path).to_arrow().sort_by("valid_from").to_pylist()
    spans = [(row["n"], row["valid_from_offset"], row["valid_to_offset"], row["is_current"]) for row in rows]
    assert spans == [(0, 0, 1, False), (TOO_WIDE, 1, 2, False), (3, 3, None, True)]
    assert offsets_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [SEQUENCE, {}], ids=["takes late records", "does not"])
@pytest.mark.parametrize("words", [(), ("--table", "lake.orders"), ("--dry-run",)], ids=str)
def test_a_reason_that_no_record_has_is_told_with_those_that_there_are(
    tmp_path: Path, options: dict[str, str], words: tuple[str, ...]
) -> None:
    file = filled(tmp_path, options)

    done = retry(file, "--reason", "of the moon", *words)

    assert done.stdout.startswith("nothing to retry: no records ")
    assert "with a reason like 'of the moon' in " in done.stdout
    assert done.stdout.endswith("\n  lake.orders: 3 records: column n INT: number ... is out of the range of INT\n")
    assert "--even-if-older" not in done.stdout + done.stderr
    assert offsets_left(tmp_path) == [4, 5, 6]


def test_records_that_stay_are_not_told_as_none(tmp_path: Path) -> None:
    file = filled(tmp_path, {})
    run_batch(tmp_path, file, 1, record(7, envelope(0, 0, v=0), key=0))
    forget_the_past(tmp_path)

    done = retry(file, "--reason", "out of the range")

    assert done.stdout.startswith("nothing to retry: all records with a reason like 'out of the range' stay in ")
    assert done.stderr.startswith("3 records not retried: table lake.orders has no sequence.field")


def test_records_of_a_batch_that_may_run_again_are_retried_once_their_table_has_it(tmp_path: Path) -> None:
    file = filled(tmp_path)
    put(tmp_path, 0, [bad_record(9)])
    widen(file)
    read_from_kafka(file)
    (tmp_path / "checkpoint" / "commits" / "0").unlink()

    done = retry(file)

    assert done.stdout == "retried 3 records: 3 are in their tables\n"
    assert "1 record not retried: the pipeline has not read these records of shop.public.orders" in done.stderr
    assert rows_of(tmp_path) == ALL and offsets_left(tmp_path) == [9]


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        {"merge-engine": "partial-update", "fields.v.sequence-group": "n"},
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "max"},
    ],
    ids=lambda options: options["merge-engine"],
)
def test_where_the_order_does_not_matter_records_are_taken(tmp_path: Path, options: dict[str, str]) -> None:
    file = filled(tmp_path, options)
    widen(file)

    retry(file, "--table", "lake.orders")

    assert rows_of(tmp_path) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("is_edited", [False, True])
def test_a_rebuild_has_the_records_of_a_retry_unless_somebody_has_edited_them(tmp_path: Path, is_edited: bool) -> None:
    file = filled(tmp_path)
    widen(file)
    edited = tmp_path / "edited.jsonl"
    edited.write_text("".join(f"{json.dumps(line)}\n" for line in lines_left(tmp_path)))

    retry(file, *(("--file", edited) if is_edited else ()))

    found = rows_of_others(load_pipeline(file), table(tmp_path), 0)
    assert rows_of(tmp_path) == ALL
    assert len(found) == is_edited and "edited records of a retry" in "".join(found or ["edited records of a retry"])


@pytest.mark.slow
def test_a_late_delete_stays_unless_it_is_wanted(tmp_path: Path) -> None:
    file = filled(tmp_path)
    deleted = json.loads(envelope(3, TOO_WIDE, v=1))
    delete = {**deleted, "before": deleted["after"], "after": None, "op": "d", "source": {"table": 7}}
    run_batch(tmp_path, file, 1, record(8, b'{"op":"d","before":{"id":{}},"after":null}', key=3))
    (line,) = (line for line in lines_left(tmp_path) if line["offset"] == 8)
    line["payload"] = json.dumps({**delete, "source": {"table": "orders"}, "before": {"id": 3, "n": 3, "v": 3}})
    edited = tmp_path / "edited.jsonl"
    edited.write_text(json.dumps(line))

    run_batch(tmp_path, file, 2, record(9, envelope(3, 33, v=9), key=3))

    assert "1: a delete has no sequence value" in retry(file, "--file", edited, code=1).stdout
    assert 3 in rows_of(tmp_path)
    assert retry(file, "--file", edited, "--even-if-older").stdout == "retried 1 record: 1 is in its table\n"
    assert 3 not in rows_of(tmp_path)


# ---------------------------------------------------------------- crashes

STEPS = (
    *("slice-written", "bad-records-sealed"),
    *(p for p in faults.POINTS if p != "between-compactions"),
    "slice-applied",
)


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_retry_that_is_killed_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Sums would show a record that is applied twice; every record is in the table or in quarantine at the end."""
    options = {
        "merge-engine": "aggregation",
        "fields.default-aggregate-function": "sum",
        "changelog-producer": "lookup",
    }
    file = filled(tmp_path, options)
    edited = mended(tmp_path, n=10)
    lines = edited.read_text().splitlines()
    bad = json.loads(lines[2])
    bad["payload"] = bad["payload"].replace("10", '"ten"')
    edited.write_text("\n".join([*lines[:2], json.dumps(bad)]))
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, _: _kill(point, step))
        with pytest.raises(Killed):
            tidemark("quarantine", "retry", file, "--file", edited)

    retry(file, "--file", edited)

    assert rows_of(tmp_path) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 10, 5: 10}
    assert offsets_left(tmp_path) == [6]
    assert not list(tmp_path.glob("checkpoint-quarantine/retry-*/slice-*/slice.json"))
    changes = [row for _, rows in table(tmp_path).changes() for row in rows.to_pylist()]
    assert len([row for row in changes if row["id"] in (4, 5)]) == 2


def _kill(point: str, step: str) -> None:
    if point == step:
        raise Killed


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_leaves_everything_once(tmp_path: Path) -> None:
    file = filled(tmp_path, {"merge-engine": "aggregation", "fields.default-aggregate-function": "sum"})
    edited = mended(tmp_path, n=10)

    killed = tidemark_process("quarantine", "retry", file, "--file", edited, TIDEMARK_CRASH_AT="after-append")
    assert killed.returncode < 0, killed.stderr
    listed = tidemark("quarantine", "list", file)
    assert "a retry of 3 records was interrupted; the next retry finishes it" in listed.stderr
    finished = retry(file)

    assert "finishing retry-" in finished.stderr
    assert "retried 3 records: 3 are in their tables" in finished.stdout
    assert rows_of(tmp_path) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 10, 5: 10, 6: 10}
    assert lines_left(tmp_path) == []


def read_again(root: Path, offsets: set[int]) -> None:
    """As if a table that was caught up had brought these records."""
    quarantine, found = letters(root), table(root)
    newest = found.snapshots.latest()
    assert newest is not None
    places = stretches(place for place in quarantine.facts().places() if place.offset in offsets)
    evidence = evidence_of("lake.orders", found, newest)
    quarantine.log.append(Applied(by="other/batch-000000000000", evidence=evidence, places=places))


@pytest.mark.slow
@pytest.mark.parametrize("offsets", [{5}, {4, 5, 6}], ids=["one", "all"])
def test_a_retry_that_was_killed_passes_over_what_was_read_again_since(tmp_path: Path, offsets: set[int]) -> None:
    file = filled(tmp_path)
    words = ["quarantine", "retry", str(file), "--file", str(mended(tmp_path, n=10))]
    assert tidemark_process(*words, TIDEMARK_CRASH_AT="slice-written").returncode < 0
    read_again(tmp_path, offsets)
    assert offsets_left(tmp_path) == sorted({4, 5, 6} - offsets)

    finished = retry(file)

    assert rows_of(tmp_path) == {0: 0, 1: 1, 2: 2, 3: 3, **dict.fromkeys({4, 5, 6} - offsets, 10)}
    assert lines_left(tmp_path) == [] and "finishing retry-" in finished.stderr
    assert not list(tmp_path.glob("checkpoint-quarantine/retry-*/slice-*/slice.json"))


def back_to(root: Path, snapshot_id: int) -> None:
    context = table(root).context
    roll_back(context, plan_rollback(context, snapshot_id))


@pytest.mark.slow
@pytest.mark.parametrize("is_mended", [False, True], ids=["as it was", "mended by hand"])
def test_a_rollback_behind_a_retry_opens_its_records_again(tmp_path: Path, is_mended: bool) -> None:
    file = filled(tmp_path)
    before = table(tmp_path).snapshots.latest_id() or 0
    words: list[str | Path] = ["--file", mended(tmp_path, n=10)] if is_mended else []
    if not is_mended:
        widen(file)
    retry(file, *words)
    assert offsets_left(tmp_path) == [] and rows_of(tmp_path).keys() == {*range(7)}

    back_to(tmp_path, before)

    assert offsets_left(tmp_path) == [4, 5, 6] and rows_of(tmp_path).keys() == {*range(4)}
    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"
    assert rows_of(tmp_path) == ({**ALL, 4: 10, 5: 10, 6: 10} if is_mended else ALL)


def test_a_table_that_is_made_anew_opens_them_again(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    retry(file)
    shutil.rmtree(tmp_path / "warehouse" / "lake.db" / "orders")
    assert offsets_left(tmp_path) == [4, 5, 6]


@pytest.mark.slow
def test_a_retry_that_was_killed_waits_for_a_table_that_reads_again(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    assert tidemark_process("quarantine", "retry", file, TIDEMARK_CRASH_AT="slice-written").returncode < 0
    checkpoint(tmp_path, 0)
    book = Book(Checkpoint(load_pipeline(file)))
    pause = Pause("lake.orders", Cause.FAILED, "why", 1, 0, None, topics=("shop.public.orders",))
    book.put({"lake.orders": Entry(pause=pause)})

    refused = retry(file, code=2)
    assert (
        "an earlier retry is unfinished, and its retry-" in refused.stderr
        and "lake.orders is behind the stream" in refused.stderr
    )
    assert offsets_left(tmp_path) == [4, 5, 6] and rows_of(tmp_path).keys() == {0, 1, 2, 3}

    book.change_entry("lake.orders", Entry.resumed)
    retry(file)
    assert rows_of(tmp_path) == ALL


def test_records_of_a_table_that_is_to_be_filled_wait_for_that(tmp_path: Path) -> None:
    """A retry would make the table, and nobody would fill it."""
    file = filled(tmp_path)
    text = file.read_text().replace("columns: { types: { n: INT } }", "backfill: true")
    file.write_text(text.replace("lake.{table}", "lake.new_{table}"))
    told = retry(file)
    assert "3 records not retried: table lake.new_orders does not exist, and its rule has `backfill" in told.stderr
    assert offsets_left(tmp_path) == [4, 5, 6] and not (tmp_path / "warehouse/lake.db/new_orders").exists()


def test_records_of_files_wait_for_their_batch_whatever_their_offsets(tmp_path: Path) -> None:
    """The offsets of files rise in no order: only the number of a batch shows whether the table has it."""
    file = filled(tmp_path)
    put(tmp_path, 1, [bad_record(3, ts=1)])
    widen(file)

    done = retry(file)

    assert done.stdout == "retried 3 records: 3 are in their tables\n"
    assert "1 record not retried: the pipeline has not read these records of shop.public.orders" in done.stderr
    assert rows_of(tmp_path) == ALL and offsets_left(tmp_path) == [3]


def test_records_that_a_new_checkpoint_reads_from_the_start_wait(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    file.write_text(file.read_text() + "on_lost_checkpoint: restart\n")
    shutil.rmtree(tmp_path / "checkpoint")

    assert "3 records not retried: the pipeline has not read these records of " in retry(file).stderr
    assert rows_of(tmp_path).keys() == {0, 1, 2, 3} and offsets_left(tmp_path) == [4, 5, 6]


@pytest.mark.slow
def test_records_that_a_new_checkpoint_has_still_to_read_wait(tmp_path: Path) -> None:
    """A process put them aside and was killed before the table had their batch."""
    file = filled(tmp_path)
    put(tmp_path, 1, [bad_record(7)])
    widen(file)
    shutil.rmtree(tmp_path / "checkpoint")
    assert "1 record not retried: the pipeline has not read these records of " in retry(file).stderr
    assert rows_of(tmp_path) == ALL and offsets_left(tmp_path) == [7]

    checkpoint(tmp_path, 1)  # of files nobody can tell what it has read
    retry(file)
    assert rows_of(tmp_path) == {**ALL, 7: TOO_WIDE} and offsets_left(tmp_path) == []


def bad_record(offset: int, ts: int = 0, key: int | None = None) -> QuarantineRow:
    row = bad(offset, value=envelope(offset if key is None else key, TOO_WIDE, v=offset))
    source = SourceTable("shop.public.orders", "shop", "public", "orders")
    return replace(row, key=json.dumps({"id": key or offset}).encode(), timestamp_ms=ts, source=source)


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_of_two_records_in_one_place_the_one_in_the_file_is_applied(tmp_path: Path, which: int) -> None:
    """The topic was recreated in between."""
    file = filled(tmp_path)
    put(tmp_path, 0, [bad_record(3, 1_000, 103)])
    put(tmp_path, 0, [bad_record(3, 2_000, 203)], "other-query")
    lines = [line for line in lines_left(tmp_path) if line["offset"] == 3]
    (line,) = [line for line in lines if line["ts"] == 1_000 * (which + 1)]
    line["payload"] = line["payload"].replace(str(TOO_WIDE), "5")
    edited = tmp_path / "edited.jsonl"
    edited.write_text(json.dumps(line))
    for _ in range(2):
        retry(file, "--file", edited)
    key, other = [(103, 203), (203, 103)][which]
    assert rows_of(tmp_path).get(key) == 5 and other not in rows_of(tmp_path)
    assert [left["ts"] for left in lines_left(tmp_path) if left["offset"] == 3] == [[2_000, 1_000][which]]

    del line["ts"]
    put(tmp_path, 0, [bad_record(3, 3_000, 303)], "third-query")
    edited.write_text(json.dumps(line))
    refused = retry(file, "--file", edited, code=2)
    assert f"{edited}:1: the quarantine has two records of shop.public.orders partition 0" in refused.stderr


@pytest.mark.slow
def test_what_cannot_be_applied_is_given_up_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = filled(tmp_path)
    widen(file)
    with monkeypatch.context() as patch:
        patch.setattr(TableSink, "commit", _unavailable)
        assert "the storage is away" in retry(file, code=1).stderr

    assert offsets_left(tmp_path) == [4, 5, 6]
    assert not list(tmp_path.glob("checkpoint-quarantine/retry-*/slice-*"))
    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"


def test_what_may_be_applied_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = filled(tmp_path)
    widen(file)
    with monkeypatch.context() as patch:
        patch.setattr(faults, "reached", lambda point, _: _find_damage(point))
        assert "some tables have, or may have, their records of slice retry-" in retry(file, code=1).stderr

    assert len(list(tmp_path.glob("checkpoint-quarantine/retry-*/slice-*/slice.json"))) == 1
    assert retry(file).stdout == "retried 3 records: 3 are in their tables\n"
    assert rows_of(tmp_path) == ALL


def _find_damage(point: str) -> None:
    if point == "after-append":
        raise CorruptFile("a file is damaged")


def _unavailable(*_: object, **__: object) -> None:
    raise SinkUnavailable("the storage is away")


# ---------------------------------------------------------------- a running pipeline


@contextmanager
def running(file: Path) -> Iterator[list[str]]:
    """Somebody who holds the checkpoint of a pipeline and takes requests; gives the requests that were taken."""
    config = load_pipeline(file)
    taken: list[str] = []
    handlers = {COMMAND: handler(config, own_tables(config), lambda: taken.append(COMMAND))}
    desk = RequestDesk(Requests.of(config), handlers)
    ended = threading.Event()

    def serve() -> None:
        while not ended.wait(0.02):
            desk.take()

    with held_checkpoints([config]):
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield taken
        finally:
            ended.set()
            thread.join()


@pytest.mark.slow
def test_the_process_that_runs_the_pipeline_applies_the_records(tmp_path: Path) -> None:
    file = filled(tmp_path)
    widen(file)
    with running(file) as taken:
        done = tidemark_process("quarantine", "retry", file)
    assert (done.returncode, done.stdout) == (0, "retried 3 records: 3 are in their tables\n"), done.stderr
    assert taken == [COMMAND]
    assert rows_of(tmp_path) == ALL
    assert lines_left(tmp_path) == []


@pytest.mark.slow
def test_a_running_pipeline_with_other_rules_is_asked_to_take_them_first(tmp_path: Path) -> None:
    file = filled(tmp_path)
    with running(file) as taken:
        widen(file)
        done = tidemark_process("quarantine", "retry", file)
    assert done.returncode == 2
    assert "the running pipeline shop does not use the rules of the file" in done.stderr
    assert taken == []
    assert offsets_left(tmp_path) == [4, 5, 6]


def test_a_second_retry_waits_for_nobody(tmp_path: Path) -> None:
    file = filled(tmp_path)
    lock = tmp_path / "checkpoint-quarantine" / "retry.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another retry or drop is using " in retry(file, code=1).stderr


@pytest.mark.slow
def test_many_records_are_retried_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_pipeline(tmp_path, SEQUENCE)
    file.write_text(f"{file.read_text()}defaults: {{ max_bad_records: null }}\n")
    wide = [record(offset, envelope(offset, TOO_WIDE + offset, v=offset)) for offset in range(25)]
    run_batch(tmp_path, file, 0, record(100, envelope(100, 1, v=1)), *wide[:20])
    run_batch(tmp_path, file, 1, *wide[20:])
    widen(file)
    monkeypatch.setattr("pipelines.quarantine.retry.SLICE_RECORDS", 7)

    assert retry(file).stdout == "retried 25 records: 25 are in their tables\n"

    assert rows_of(tmp_path) == {100: 1, **{offset: TOO_WIDE + offset for offset in range(25)}}
    assert lines_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"payload": ""}, "field 'payload' is empty"),
        ({"payload": None}, "field 'payload' is empty"),
        ({"payload": [1]}, "field 'payload' is a list"),
        ({"payload": "\ud800"}, "half a surrogate pair"),
        ({"payload_b64": "?!"}, "field 'payload_b64' is not base64"),
        ({"payload_b64": 7}, "field 'payload_b64' is not base64"),
    ],
    ids=str,
)
def test_a_malformed_line_that_holds_no_line_stays(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    file = filled(tmp_path)
    widen(file)
    line = {"topic": "malformed:dump.jsonl", "partition": -1, "offset": 99, "reason": "?", **fields}
    put(tmp_path, 1, [replace(bad(99, topic="malformed:dump.jsonl"), partition=-1, timestamp_ms=None)])
    (path,) = tmp_path.glob("checkpoint-quarantine/*/batch-000000000001/*.jsonl")
    path.write_text(json.dumps(line) + "\n")

    for done, code in (
        ("3 are in their tables, 1 stays in the quarantine", 0),
        ("0 are in their tables, 1 stays in the quarantine", 1),
    ):
        assert done in retry(file, code=code).stdout
        (left,) = lines_left(tmp_path)
        assert problem in left["reason"]
        assert left["payload"] == json.dumps(line)

    assert rows_of(tmp_path) == ALL
