"""The harness that compares systems: its events, its check of tables, its measuring and its report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.side_by_side.__main__ import main
from benchmarks.side_by_side.changes import changes_of, expected_rows, records
from benchmarks.side_by_side.contents import by_key, changes_difference, difference
from benchmarks.side_by_side.environments import STAMP, Environment
from benchmarks.side_by_side.measuring import Cost, Sample, SystemFailed, TreeUse, cost_of, measured
from benchmarks.side_by_side.reading import FinishedTable, run_reader
from benchmarks.side_by_side.reads import READS, ROW_KIND, Read
from benchmarks.side_by_side.report import BEGIN, END, PAGE, measured_part, plots_of
from benchmarks.side_by_side.results import Machine, Results, Run, Topic, load
from benchmarks.side_by_side.running import FilledTopic, run_system
from benchmarks.side_by_side.systems import SYSTEMS, paimon_flink
from benchmarks.side_by_side.systems.paimon_options import paimon_options
from benchmarks.side_by_side.systems.readers import READERS
from benchmarks.side_by_side.systems.system import Launch, Task
from benchmarks.side_by_side.workers.table_reader import tidemark_changes, tidemark_kinds
from benchmarks.side_by_side.workloads import WORKLOADS, Workload
from paimon_table.row_kind import VALUE_KIND
from pipelines.config.config_file import load_pipeline
from tests.support.table_driver import TableDriver, new_table

COUNT = 600
ALL_WORKLOADS = pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))


def _task(workload: Workload, directory: Path) -> Task:
    return Task(workload, "127.0.0.1:1", "t", COUNT, directory, directory / "home", cores=2)


@ALL_WORKLOADS
def test_the_expected_table_is_what_the_events_make(workload: Workload) -> None:
    changes = changes_of(workload, COUNT)
    rows: dict[int, dict[str, Any]] = {}
    current: dict[tuple[int, str], dict[str, Any]] = {}
    owners: dict[int, int] = {}
    ops = set()
    for key, value in records(workload, changes):
        event = json.loads(value)
        ops.add(event["op"])
        row_id, source = json.loads(key)["id"], event["source"]["table"]
        there = None if workload.is_insert_only else current.pop((row_id, source), None)
        assert event["before"] == there, "the row before is the one that the source has"
        [owners[row_id]] = [
            n for kind in workload.kinds for n, t in enumerate(workload.source_tables(kind)) if t == source
        ]
        if event["after"] is None:
            del rows[row_id]
            continue
        assert event["after"]["id"] == row_id
        current[row_id, source] = event["after"]
        rows[row_id] = _merged(workload, rows.get(row_id), event["after"])

    assert ops == {"c"} | (set() if workload.is_insert_only else {"u"}) | ({"d"} if "d" in ops else set())
    assert ("d" in ops) == (workload.merge_engine == "deduplicate" and not workload.is_append)
    tables = expected_rows(workload, changes)
    assert sum(table.num_rows for table in tables.values()) == changes.row_count == len(rows)
    for number, name in enumerate(workload.tables):
        for found in tables[name].to_pylist():
            assert owners[found["id"]] == number
            assert {column: _sent(value) for column, value in found.items()} == rows[found["id"]]


def _merged(workload: Workload, old: dict[str, Any] | None, sent: dict[str, Any]) -> dict[str, Any]:
    """The row of a key after one more event, as it would be sent."""
    row: dict[str, Any] = dict.fromkeys(workload.schema.names) if old is None else old
    row |= {name: value for name, value in sent.items() if name in row and _fold(workload, name) == "last"}
    for column in workload.columns:
        before = row[column.name]
        match column.fold:
            case "sum":
                row[column.name] = str(Decimal(before or "0.00") + Decimal(sent[column.name]))
            case "max":
                row[column.name] = max(before or 0, sent[column.name])
            case "count":
                row[column.name] = (before or 0) + 1
    return row


def _fold(workload: Workload, name: str) -> str:
    return next((column.fold for column in workload.columns if column.name == name), "last")


def _sent(value: object) -> object:
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=UTC).timestamp() * 1000)
    return str(value) if isinstance(value, Decimal) else value


def test_hot_keys_have_most_events() -> None:
    shares = {}
    for name in ("uniform", "zipf"):
        counts = sorted(pa.array(changes_of(WORKLOADS[name], 5000).keys).value_counts().field("counts").to_pylist())
        shares[name] = sum(counts[-10:]) / 5000
    assert shares["zipf"] > 0.3 > 0.05 > shares["uniform"]


def _expected() -> pa.Table:
    workload = WORKLOADS["uniform"]
    return expected_rows(workload, changes_of(workload, COUNT))["orders"]


def _changed(table: pa.Table, name: str, value: object) -> pa.Table:
    values = table[name].to_pylist()
    values[3] = value
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("name", "value"), [("note", "another"), ("note", None), ("amount", Decimal("0.01")), ("is_paid", None)]
)
def test_one_wrong_value_is_found(name: str, value: object) -> None:
    expected = _expected()
    wrong = _changed(expected, name, value)

    told = difference(expected, wrong)

    assert told is not None
    assert f"column {name} of id {expected['id'][3]} is {value!r}" in told


def test_order_columns_and_time_zones_do_not_matter_but_rows_do() -> None:
    expected = _expected()
    zoned = expected["created_at"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    other = expected.set_column(expected.schema.get_field_index("created_at"), "created_at", zoned)
    shuffled = other.select(list(reversed(other.column_names))).sort_by([("note", "descending")])

    assert difference(expected, shuffled) is None
    rows = expected.num_rows
    assert difference(expected, expected.slice(1)) == f"the table has {rows - 1} rows instead of {rows}"
    twice = pa.concat_tables([expected.slice(1), expected.slice(1, 1)])
    assert "column id" in str(difference(expected, twice))
    assert difference(expected, expected.drop_columns(["note"])) == "the table has no column note"


def _changes(*rows: tuple[str, int, str]) -> pa.Table:
    kinds, ids, notes = zip(*rows, strict=True)
    return pa.table({ROW_KIND: pa.array(kinds), "id": pa.array(ids), "note": pa.array(notes)})


LIFE = (("+I", 1, "a"), ("+I", 2, "x"), ("-U", 1, "a"), ("+U", 1, "b"), ("-D", 2, "x"), ("+I", 2, "y"), ("-D", 1, "b"))


def test_a_changelog_has_to_lead_to_the_rows() -> None:
    rows = pa.table({"id": [2], "note": ["y"]})
    changes = by_key(_changes(*LIFE))

    assert changes["id"].to_pylist() == [1, 1, 1, 1, 2, 2, 2]
    assert changes_difference(rows, changes) is None
    assert difference(changes, _changes(*LIFE[1:2], *LIFE[:1], *LIFE[2:])) is None, "keys come in any order"
    assert difference(changes, _changes(*LIFE[:-2], *LIFE[:1:-1])) is not None, "changes of a key do not"


@pytest.mark.parametrize(
    ("at", "change", "told"),
    [
        (0, None, "-U of id 1 comes after nothing"),
        (2, None, "+U of id 1 comes after +I"),
        (6, None, "the table has 2 rows instead of 1"),
        (2, ("-U", 1, "?"), "old row is not the one that was there: column note of id 1 is '?' instead of 'a'"),
        (4, ("-D", 2, "?"), "old row is not the one that was there"),
        (5, ("+I", 2, "?"), "the changes do not end with the rows of the table: column note of id 2"),
        (6, ("-U", 1, "b"), "a -U has no +U"),
    ],
)
def test_a_wrong_changelog_is_found(at: int, change: tuple[str, int, str] | None, told: str) -> None:
    changes = by_key(_changes(*LIFE[:at], *([] if change is None else [change]), *LIFE[at + 1 :]))

    assert told in str(changes_difference(pa.table({"id": [2], "note": ["y"]}), changes))


def test_the_second_half_counts() -> None:
    cost = cost_of(_samples((0.0, 0), (6.0, 390), (7.0, 600), (8.0, 600), (9.0, 990)), 1000)

    assert (cost.seconds, cost.cpu_s, cost.peak_memory_bytes, cost.written_bytes) == (9.0, 18, 90, 900)
    assert (cost.half_events, cost.half_seconds, cost.half_cpu_s) == (400, 2.0, 4)
    assert (cost.events_per_s, cost.cpu_s_per_million) == (200, 10_000)


def test_a_run_ends_when_all_events_are_in_the_table() -> None:
    cost = cost_of(_samples((0.0, 0), (4.0, 500), (6.0, 1000), (7.0, 1000), (8.0, 1000)), 1000)

    assert (cost.seconds, cost.cpu_s, cost.peak_memory_bytes, cost.written_bytes) == (6.0, 12, 90, 800)
    assert (cost.half_events, cost.half_seconds, cost.half_cpu_s) == (500, 2.0, 4)


def test_batches_that_end_beside_the_half_count_from_the_nearest_one() -> None:
    cost = cost_of(_samples((0.0, 0), (4.0, 499), (7.0, 998), (8.0, 1000)), 1000)

    assert (cost.half_events, cost.half_seconds) == (501, 4.0)


@pytest.mark.parametrize(("events", "end_s"), [(0, 9.0), (1, 9.0), (998, 9.0), (1000, 7.0)])
def test_without_a_commit_near_the_half_the_whole_run_counts(events: int, end_s: float) -> None:
    cost = cost_of(_samples((0.0, 0), (7.0, events), (9.0, events)), 1000)

    assert (cost.half_events, cost.half_seconds, cost.half_cpu_s) == (1000, end_s, 2 * end_s)


def _samples(*steps: tuple[float, int]) -> list[Sample]:
    """Two cores are busy all the time; memory peaks at 7 s."""
    return [
        Sample(at_s, events, TreeUse(2 * at_s, 90 if at_s == 7.0 else 10, round(at_s * 100))) for at_s, events in steps
    ]


CHILD = """
import time
while time.process_time() < 0.3: pass
open("written", "wb").write(bytes(3_000_000))
"""
WORKING = f"""
import subprocess, sys, time
for _ in range(2):
    subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
open("done", "w").write("5")
time.sleep(0.3)
"""


def _measured(directory: Path, script: str) -> list[Sample]:
    done = directory / "done"
    command = [sys.executable, "-c", script]
    return measured(command, os.environ, directory / "log", lambda: int(done.exists()) * 5, lambda: False, timeout_s=60)


@pytest.mark.slow
def test_the_use_of_descendants_that_have_ended_counts(tmp_path: Path) -> None:
    samples = _measured(tmp_path, WORKING)

    last = samples[-1]
    assert last.events == 5
    assert last.use.cpu_s >= 0.6
    assert last.use.written_bytes >= 6_000_000
    assert max(sample.use.memory_bytes for sample in samples) > 1 << 20
    assert [sample.use.cpu_s for sample in samples] == sorted(sample.use.cpu_s for sample in samples)


def test_a_process_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(SystemFailed, match=r"exit code 3[^$]*the reason"):
        _measured(tmp_path, "print('the reason'); raise SystemExit(3)")


@dataclass(frozen=True)
class CopyingSystem:
    """Its table is a Parquet file that is there before it starts."""

    rows: pa.Table
    name: str = "copying"
    title: str = "Copying 1.0"
    environment: Environment | None = None

    def settings(self, workload: Workload) -> dict[str, str]:
        return {"workload": workload.name}

    def launch(self, task: Task) -> Launch:
        pq.write_table(self.rows, task.directory / "rows.parquet")
        return Launch([sys.executable, "-c", ""], os.environ)

    @contextmanager
    def watching(self, task: Task) -> Iterator[Callable[[], int]]:
        yield lambda: 0

    def is_over(self, task: Task) -> bool:
        return False

    def content(self, task: Task, table: str) -> pa.Table:
        return pq.read_table(task.directory / "rows.parquet")


def _filled() -> FilledTopic:
    workload = WORKLOADS["uniform"]
    changes = changes_of(workload, COUNT)
    facts = Topic(COUNT, COUNT * 900, 120, changes.row_count)
    return FilledTopic(workload, "127.0.0.1:1", "t", facts, {"orders": _expected()})


@pytest.mark.slow
def test_a_run_counts_only_if_its_table_is_right(tmp_path: Path) -> None:
    topic = _filled()

    run = run_system(CopyingSystem(_expected()), topic, 1, tmp_path / "right", tmp_path, cores=2)

    assert (run.system, run.workload, run.topic.rows) == ("copying", "uniform", _expected().num_rows)
    at_s, events = run.progress[-1]
    assert (round(at_s - run.cost.seconds, 1), events) == (0, COUNT)
    assert not (tmp_path / "right").exists()
    wrong = CopyingSystem(_changed(_expected(), "quantity", -1))
    with pytest.raises(SystemFailed, match="column quantity"):
        run_system(wrong, topic, 1, tmp_path / "wrong", tmp_path, cores=2)
    assert (tmp_path / "wrong" / "rows.parquet").exists()


@ALL_WORKLOADS
def test_the_pipeline_file_of_tidemark_is_valid(workload: Workload, tmp_path: Path) -> None:
    SYSTEMS["tidemark"].launch(_task(workload, tmp_path))

    config = load_pipeline(tmp_path / "pipeline.yaml")

    assert config.source.kafka is not None
    bound = config.source.kafka.max_records_per_batch == workload.events_per_commit
    target_ms = config.trigger.target_batch_duration.total_seconds() * 1000
    assert target_ms == workload.checkpoint_ms if workload.is_paced else bound


def test_flink_gets_each_table_with_its_own_events(tmp_path: Path) -> None:
    task = _task(WORKLOADS["tables"], tmp_path)

    statements = paimon_flink.statements(task, {"bucket": "2"})

    created = [one for one in statements if one.startswith("CREATE TABLE")]
    assert len(created) == 20
    assert all("PRIMARY KEY (id)" in one and "'bucket' = '2'" in one for one in created)
    assert statements[-1].startswith("EXECUTE STATEMENT SET BEGIN INSERT INTO paimon.lake.orders_00 SELECT id,")
    assert statements[-1].count("INSERT INTO") == statements[-1].count("WHERE source_table = ") == 20
    assert not any("\n" in one for one in statements), "the worker parts statements at blank lines"


def test_flink_gets_the_columns_of_all_kinds_and_counts_by_adding(tmp_path: Path) -> None:
    wide, sums = (
        paimon_flink.statements(_task(WORKLOADS[name], tmp_path), paimon_options(WORKLOADS[name]))
        for name in ("wide", "aggregation")
    )

    assert "address STRING, carrier STRING" in wide[0]
    assert "address STRING, carrier STRING" in wide[3]
    assert "'merge-engine' = 'partial-update'" in wide[3]
    assert "source_table =" not in wide[-1], "all kinds fill the same table"
    assert "payments" not in sums[0], "no event has it"
    assert "payments BIGINT" in sums[3]
    assert "'fields.payments.aggregate-function' = 'sum'" in sums[3]
    assert "'fields.quantity.aggregate-function' = 'max'" in sums[3]
    assert "CAST(1 AS BIGINT) FROM events" in sums[-1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> FinishedTable:
    """The expected rows of a workload, written in two commits: first some of them with other notes, then all."""
    workload = WORKLOADS["uniform"]
    changes = changes_of(workload, COUNT)
    rows = expected_rows(workload, changes)["orders"]
    path = tmp_path_factory.mktemp("read") / "orders"
    columns = [("id", "BIGINT"), *((column.name, column.sql_type) for column in workload.columns)]
    table = new_table(path, columns, ["id"], options=paimon_options(workload))
    driver = TableDriver(table, tmp_path_factory.mktemp("lookup"))
    for batch in (_changed(rows, "note", "older").slice(0, 40), rows):
        driver.commit_arrow(batch.append_column(VALUE_KIND, pa.array([0] * batch.num_rows, pa.int8())))
    changelog = by_key(tidemark_kinds(tidemark_changes(str(path))))
    return FinishedTable(path, Topic(COUNT, COUNT * 900, 120, changes.row_count), rows, changelog)


@pytest.mark.slow
@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_tidemarks_reader_reads_what_is_there(read: Read, written: FinishedTable, tmp_path: Path) -> None:
    assert changes_difference(written.rows, written.changes) is None

    run = run_reader(READERS["tidemark"], read, written, 1, tmp_path / "right")

    wanted = {"read-all": written.rows.num_rows, "read-changes": written.changes.num_rows}
    assert run.cost.half_events == wanted.get(read.name, 1)
    assert 0 < run.cost.half_seconds < run.cost.seconds
    assert not (tmp_path / "right").exists()
    wrong = replace(written, rows=_changed(written.rows, "note", "?"), changes=written.changes.slice(1))
    if read.name != "read-range":
        with pytest.raises(SystemFailed, match=f"{read.name}: .*; its files stay"):
            run_reader(READERS["tidemark"], read, wrong, 1, tmp_path / "wrong")


def test_a_range_has_its_lower_key_but_not_its_upper_one() -> None:
    rows = pa.table({"id": range(100)})

    read = Read("some", "Some keys", WORKLOADS["uniform"], key_share=0.1)

    assert read.expected(rows, rows)["id"].to_pylist() == list(range(50, 60))


def test_an_environment_of_other_versions_is_not_set_up(tmp_path: Path) -> None:
    old, new = (Environment("e", (f"package=={version}",)) for version in ("1.0", "2.0"))
    old.directory(tmp_path).mkdir()
    assert not old.is_set_up(tmp_path)

    (old.directory(tmp_path) / STAMP).write_text(old.stamp)

    assert old.is_set_up(tmp_path)
    assert not new.is_set_up(tmp_path)


def test_unknown_names_end_before_anything_starts(tmp_path: Path) -> None:
    home = ["--home", str(tmp_path)]
    with pytest.raises(SystemExit, match="--systems: there is no 'hudi'; write one of tidemark, paimon-flink"):
        main([*home, "--ready-only", "--systems", "tidemark,hudi"])
    with pytest.raises(SystemExit, match="--workloads: there is no 'hot'"):
        main([*home, "--workloads", "hot"])
    assert list(tmp_path.iterdir()) == []


def _run(system: str, number: int, seconds: float) -> Run:
    cost = Cost(seconds * 2, 9.0, 500, seconds, 4.0, 7_000_000, 12_345_678)
    topic = Topic(1000, 900_000, 200, 180)
    return Run("uniform", system, SYSTEMS[system].title, number, topic, {"bucket": "2"}, cost, ((0.0, 0), (2.5, 1000)))


def test_ratios_are_of_one_turn(tmp_path: Path) -> None:
    results = Results(Machine("Some CPU", 2, 24 << 30), "2026-11-27", 0.02)
    seconds = {("tidemark", 1): 1.0, ("tidemark", 2): 2.0, ("delta", 1): 4.0, ("delta", 2): 12.0}
    for (system, number), taken in seconds.items():
        results = results.with_run(_run(system, number, taken))
    results.save(tmp_path / "results.json")

    again = load(tmp_path / "results.json")

    assert again == results
    lines = measured_part(again).splitlines()
    assert any("Some CPU, 2 cores, 24 GiB" in line for line in lines)
    assert any("1 000 events of 900 bytes over 200 keys; 180 rows" in line for line in lines)
    row = next(line for line in lines if line.startswith("| Delta"))
    assert [cell.strip() for cell in row.split("|")[2:-1]] == [
        "83", "5.0 times as fast", "8000.0", "7 MB", "12 MB", "16.0 s"
    ]  # fmt: skip
    assert "busy" not in measured_part(again)
    assert "busy with other work" in measured_part(replace(again, busy=0.3).with_run(again.runs[0]))


def test_a_later_session_replaces_the_workloads_that_it_runs_again(tmp_path: Path) -> None:
    run = _run("tidemark", 1, 1.0)
    busy = Results(Machine("Some CPU", 2, 24 << 30), "2026-11-26", 0.4, (run, replace(run, workload="zipf")))
    later = replace(busy, measured_on="2026-11-27", busy=0.1, runs=())

    both = busy.before(later, ["uniform", "wide"]).with_run(replace(run, number=2))

    assert [(one.workload, one.number) for one in both.runs] == [("zipf", 1), ("uniform", 2)]
    assert (both.measured_on, [one.busy for one in both.runs]) == ("2026-11-27", [0.0, 0.1])
    with pytest.raises(ValueError, match="another machine"):
        busy.before(replace(later, machine=Machine("Other", 2, 24 << 30)), [])
    with pytest.raises(SystemExit, match="--add: there is no"):
        main(["--home", str(tmp_path), "--add"])


def test_each_plot_has_its_workloads() -> None:
    first = _run("tidemark", 1, 1.0)
    read = replace(first, workload="read-all", progress=(), title="Tidemark", cost=replace(first.cost, half_events=180))
    slower = replace(read, system="pypaimon", title="pypaimon", cost=replace(read.cost, half_seconds=2.5))
    runs = (read, slower, replace(first, workload="wide"), first)
    results = Results(Machine("Some CPU", 2, 24 << 30), "2026-11-27", 0.02, runs)

    plots = {plot.name: plot.workloads for plot in plots_of(results)}

    assert plots == {"side-by-side": ["uniform"], "side-by-side-more": ["wide"], "side-by-side-reads": ["read-all"]}
    text = measured_part(results)
    places = [text.index(f"(images/{name}.svg)") for name in plots]
    assert places == sorted(places)
    assert "180 rows a read, of a table of 180 rows that 1 000 events made." in text
    assert "| pypaimon | 72 | 2.5 times as fast | 2 500 ms | 4 000 ms | 7 MB |" in text
    assert "\n\n\n" not in text
    assert "progress.svg" not in measured_part(replace(results, runs=(read, slower)))


def test_the_page_has_a_place_for_results() -> None:
    text = PAGE.read_text()
    assert 0 < text.index(BEGIN) < text.index(END)
