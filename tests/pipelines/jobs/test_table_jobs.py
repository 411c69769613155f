"""`tidemark table analyze | compact | rescale | drop-partition | truncate` on tables that the engine wrote."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paimon_table import Table
from paimon_table.errors import ConfigError
from pipelines.jobs.job_commands import table_app
from pipelines.jobs.job_progress import BarProgress
from sinks.commit.pipeline_mark import write_mark
from tests.support.plain_values import Plain
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "INT"), ("dt", "DATE"), ("region", "STRING")]


def table(tmp_path: Path, options: Mapping[str, str] | None = None) -> TableDriver:
    made = new_table(
        tmp_path / "t", COLUMNS, ["k", "dt", "region"], ["dt", "region"], {"bucket": "2", **(options or {})}
    )
    driver = TableDriver(made, tmp_path / "lookup")
    driver.commit([["+I", key, 1, day, region] for key in range(20) for day, region in PLACES])
    return driver


PLACES: list[tuple[Plain, Plain]] = [
    ("2024-01-01", "a,b"),
    ("2024-01-01", ""),
    ("2024-01-02", "it's"),
    ("2024-01-02", "x"),
]


def run(command: str, driver: TableDriver, *arguments: str, code: int = 0) -> str:
    """Everything that is printed."""
    path = driver.table.paths.root
    done = CliRunner().invoke(table_app, [command, path, *arguments], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def places(driver: TableDriver) -> list[tuple[Plain, Plain]]:
    rows = Table.open(driver.table.paths.root).to_arrow(["dt", "region"]).to_pylist()
    return sorted({(str(row["dt"]), row["region"]) for row in rows})


def reopened(driver: TableDriver, tmp_path: Path) -> TableDriver:
    return TableDriver(Table.open(driver.table.paths.root), tmp_path / "lookup", "next")


# ---------------------------------------------------------------- sort


def test_sort_says_what_it_did(tmp_path: Path) -> None:
    options = {"bucket": "-1", "clustering.columns": "v,k", "clustering.strategy": "zorder"}
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS, [], ["region"], options), tmp_path / "lookup")
    for number in (2, 1):
        driver.commit([["+I", number, number, "2024-01-01", region] for region in "ab"])
    assert "would sort by v, k: 2 partitions, 4 files of " in run("sort", driver, "--dry-run")
    printed = run("sort", driver, "--partition", "region=b")
    assert printed.startswith("Tidemark sorts rows by v, k, in this order, not along a curve\n")
    assert "sorted 1 partition by v, k: 2 files of " in printed and printed.endswith(" bytes, snapshot 3\n")
    assert "sorted 2 partitions by k: 3 files of " in run("sort", driver, "--by", "k")
    with pytest.raises(ConfigError, match="only tables without primary key and with bucket = -1 can"):
        run("sort", table(tmp_path / "keyed"), "--by", "k")


# ---------------------------------------------------------------- analyze


def test_analyze_says_what_it_read(tmp_path: Path) -> None:
    driver = table(tmp_path)
    printed = run("analyze", driver, "--columns", "k, v")
    assert printed.startswith("analyzed 80 rows of ") and printed.endswith(" bytes, 2 columns, snapshot 2\n")
    with pytest.raises(ConfigError, match="has no column 'vv'; did you mean 'v'"):
        run("analyze", driver, "--columns", "vv")
    empty = TableDriver(new_table(tmp_path / "empty", COLUMNS[:1], ["k"]), tmp_path / "lookup")
    assert run("analyze", empty) == "the table has no snapshot yet, so there is nothing to analyze\n"


# ---------------------------------------------------------------- rescale


def test_rescale_says_what_it_did(tmp_path: Path) -> None:
    driver = table(tmp_path)
    printed = run("rescale", driver, "--buckets", "3")
    assert "rescaled to 3 buckets in 4 partitions: 80 rows, 8 files of " in printed
    assert "snapshot 2\n'bucket' is now 3; it was 2. " in printed
    assert run("rescale", driver, "--buckets", "3") == "nothing to do: the table already has 3 buckets\n"
    assert len(reopened(driver, tmp_path).content()) == 80


def test_one_partition_is_rescaled_and_the_others_are_named(tmp_path: Path) -> None:
    driver = table(tmp_path)
    printed = run("rescale", driver, "--buckets", "3", "--partition", "dt=2024-01-02,region='it''s'")
    assert "in 1 partition: 20 rows" in printed
    assert "3 partitions with another number refuse writes until you rescale them too: dt=19723/" in printed
    assert sorted(Table.open(driver.table.paths.root).state().total_buckets.values()) == [2, 2, 2, 3]


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    driver = table(tmp_path)
    printed = run("rescale", driver, "--buckets", "3", "--partition", "dt=2024-01-02", "--dry-run")
    assert printed.startswith("would rewrite into 3 buckets:\n  dt=19724/region=it%27s: 2 buckets, 20 stored rows in 2")
    assert (driver.table.snapshots.latest_id(), Table.open(driver.table.paths.root).options.bucket) == (1, 2)


@pytest.mark.slow
def test_buckets_become_dynamic_and_fixed_again(tmp_path: Path) -> None:
    driver = table(tmp_path)
    would = run("rescale", driver, "--buckets", "-1", "--dry-run")
    assert would.startswith("would rewrite into dynamic buckets:\n  dt=19723/")
    printed = run("rescale", driver, "--buckets", "-1")
    assert "rescaled to dynamic buckets in 4 partitions: 80 rows, 8 files of " in printed
    assert "snapshot 2\n'bucket' is now -1; it was 2. " in printed
    assert run("rescale", driver, "--buckets", "-1") == "nothing to do: the table already has dynamic buckets\n"
    would = run("rescale", driver, "--buckets", "3", "--dry-run")
    assert "would rewrite into 3 buckets:" in would
    assert ": dynamic buckets, 20 stored rows in " in would
    assert "'bucket' is now 3; it was -1" in run("rescale", driver, "--buckets", "3")
    assert len(reopened(driver, tmp_path).content()) == 80


def test_the_pipelines_of_the_table_are_named(tmp_path: Path) -> None:
    driver = table(tmp_path)
    write_mark(driver.table.io, driver.table.paths, "shop")
    assert "written by pipeline shop: it may keep running" in run("rescale", driver, "--buckets", "3")


def test_an_interrupted_rescale_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, advance = table(tmp_path), BarProgress.advance
    before = sorted(Path(driver.table.paths.root).rglob("*.parquet"))
    written = list[int]()

    def interrupted(progress: BarProgress, count: int) -> None:
        advance(progress, count)
        written.append(len(list(Path(driver.table.paths.root).rglob("*.parquet"))) - len(before))
        if written[-1]:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(BarProgress, "advance", interrupted)
    run("rescale", driver, "--buckets", "3", code=130)

    assert written[-1] and not any(written[:-1])
    assert sorted(Path(driver.table.paths.root).rglob("*.parquet")) == before
    assert reopened(driver, tmp_path).content() == driver.content()


# ---------------------------------------------------------------- drop-partition


@pytest.mark.slow
@pytest.mark.parametrize(
    ("specs", "left"),
    [
        (["dt=2024-01-01"], PLACES[2:]),
        (["dt=19723,region="], [PLACES[0], *PLACES[2:]]),
        (["region='a,b'"], PLACES[1:]),
        (["dt=19724/region=it%27s/"], [*PLACES[:2], PLACES[3]]),
        (["region=__DEFAULT_PARTITION__"], [PLACES[0], *PLACES[2:]]),
        (["region=x", "region='it''s', dt = 2024-01-02"], PLACES[:2]),
    ],
    ids=str,
)
def test_named_partitions_are_dropped(tmp_path: Path, specs: list[str], left: list[tuple[Plain, Plain]]) -> None:
    driver = table(tmp_path)
    arguments = [word for spec in specs for word in ("--partition", spec)]
    would = run("drop-partition", driver, *arguments, "--dry-run")
    assert would.startswith("would drop:\n  dt=1972")
    assert len(places(driver)) == 4
    printed = run("drop-partition", driver, *arguments, "--yes")
    assert places(driver) == sorted(left)
    count = 4 - len(left)
    assert f"dropped {count} partition{'s' if count > 1 else ''} with {count * 20} stored rows in " in printed


UNCLEAR = (None, "", " ", "__DEFAULT_PARTITION__", "NULL", "a/b", "a%2Fb", "c")
"""Values of a partition column whose directories do not tell them from each other."""


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("dt=__DEFAULT_PARTITION__", "dt=NULL or dt='' or dt=' ' or dt='__DEFAULT_PARTITION__'"),
        ("dt=a%2Fb", "dt='a/b' or dt='a%2Fb'"),
    ],
)
def test_a_partition_that_may_be_several_is_not_dropped(tmp_path: Path, spec: str, meant: str) -> None:
    driver = unclear_table(tmp_path)
    with pytest.raises(ConfigError) as refused:
        run("drop-partition", driver, "--partition", spec, "--yes")
    assert {*str(refused.value).partition(" is ambiguous: ")[2].partition(". Name")[0].split(" or ")} == {
        *meant.split(" or ")
    }
    assert driver.table.snapshots.latest_id() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("dt=NULL", None),
        ("dt=''", ""),
        ("dt=' '", " "),
        ("dt='__DEFAULT_PARTITION__'", "__DEFAULT_PARTITION__"),
        ("dt='NULL'", "NULL"),
        ("dt='a/b'", "a/b"),
        ("dt='a%2Fb'", "a%2Fb"),
        ("dt=a%252Fb", "a%2Fb"),
        ("dt=c", "c"),
    ],
)
def test_what_the_refusal_names_drops_that_partition_alone(tmp_path: Path, spec: str, value: str | None) -> None:
    driver = unclear_table(tmp_path)
    would = run("drop-partition", driver, "--partition", spec, "--dry-run").splitlines()
    assert len(would) == 2
    if value in (None, "", " ", "__DEFAULT_PARTITION__"):
        assert would[1].startswith(f"  dt=__DEFAULT_PARTITION__ ({spec}): ")
    run("drop-partition", driver, "--partition", spec, "--yes")
    assert {value for _, value in reopened(driver, tmp_path).content()} == {*UNCLEAR} - {value}


def unclear_table(directory: Path) -> TableDriver:
    columns = [("id", "INT NOT NULL"), ("dt", "STRING")]
    table = new_table(directory / "t", columns, [], ["dt"], options={"bucket": "-1"})
    driver = TableDriver(table, directory / "lookup")
    driver.commit([["+I", number, value] for number, value in enumerate(UNCLEAR)])
    return driver


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("day=1", "'day' is not a partition column; known: dt, region"),
        ("regoin=1", "'regoin' is not a partition column; did you mean 'region'?"),
        ("dt=2024-01-03", "there is no such partition; the table has dt=19723/region=__DEFAULT_PARTITION__, dt="),
        ("dt=2024-13-01", "'2024-13-01' is no DATE; there is no such partition"),
        ("dt=NULL", "there is no such partition"),
        ("dt", "expected COLUMN=VALUE"),
        ("dt=2024-01-01,", "a column is missing after the last comma"),
        ("dt=2024-01-01,dt=2024-01-02", "expected COLUMN=VALUE"),
        ("region='a", "expected COLUMN=VALUE"),
    ],
)
def test_partitions_that_are_not_there_are_refused(tmp_path: Path, spec: str, text: str) -> None:
    driver = table(tmp_path)
    with pytest.raises(ConfigError) as refused:
        run("drop-partition", driver, "--partition", spec, "--yes")
    assert text in str(refused.value)
    assert driver.table.snapshots.latest_id() == 1


def test_nothing_is_dropped_without_an_answer(tmp_path: Path) -> None:
    driver = table(tmp_path)
    with pytest.raises(ConfigError, match="add --yes"):
        run("drop-partition", driver, "--partition", "region=x")
    with pytest.raises(ConfigError, match="--partition is missing"):
        run("drop-partition", driver, "--yes")
    assert len(places(driver)) == 4


def test_values_of_all_types_name_their_partition(tmp_path: Path) -> None:
    types = {"k": "INT", "b": "BOOLEAN", "n": "BIGINT", "d": "DECIMAL(10, 2)", "t": "TIMESTAMP(3)", "c": "TIME(0)"}
    columns = list(types.items())
    keys = [name for name, _ in columns]
    made = new_table(tmp_path / "t", columns, keys, keys[1:])
    driver = TableDriver(made, tmp_path / "lookup")
    driver.commit([["+I", 1, True, 7, "1.50", "2024-01-02T03:04:05.678", "10:15:00"]])
    for spec in ("b=true", "n=7", "d=1.5", "t='2024-01-02 03:04:05.678'", "c=10:15:00"):
        assert "would drop:\n  b=true/n=7/d=1.50/" in run("drop-partition", driver, "--partition", spec, "--dry-run")


def test_a_table_without_partitions_has_none_to_drop(tmp_path: Path) -> None:
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS[:2], ["k"]), tmp_path / "lookup")
    with pytest.raises(ConfigError, match="has no partitions; leave it out"):
        run("drop-partition", driver, "--partition", "dt=1", "--yes")


# ---------------------------------------------------------------- truncate


def test_a_table_is_emptied_once_that_is_confirmed(tmp_path: Path) -> None:
    driver = table(tmp_path)
    content = driver.content()
    would = run("truncate", driver, "--dry-run")
    assert would.startswith("would empty:\n  dt=19723/region=")
    with pytest.raises(ConfigError, match="nothing was removed: add --yes"):
        run("truncate", driver)
    assert driver.content() == content

    printed = run("truncate", driver, "--yes")

    assert printed.startswith("emptying:\n  dt=19723/region=")
    assert "emptied the table of 80 stored rows in 8 files, snapshot 2; older snapshots still have them\n" in printed
    assert (driver.content(), driver.content(1)) == ([], content)
    assert run("truncate", driver, "--yes") == run("truncate", driver, "--dry-run") == "the table is already empty\n"
    assert driver.table.snapshots.latest_id() == 2


def test_a_table_without_partitions_is_emptied_and_its_pipelines_are_named(tmp_path: Path) -> None:
    driver = TableDriver(new_table(tmp_path / "t", COLUMNS[:2], ["k"]), tmp_path / "lookup")
    driver.commit([["+I", 1, 1]])
    write_mark(driver.table.io, driver.table.paths, "shop")
    printed = run("truncate", driver, "--yes")
    assert printed.startswith("emptying:\n  the table: 1 bucket, 1 stored row in 1 file of ")
    assert "written by pipeline shop: it does not reread the removed rows" in printed
    assert driver.content() == []


# ---------------------------------------------------------------- compact


@pytest.mark.slow
def test_compact_merges_everything_when_asked(tmp_path: Path) -> None:
    driver = table(tmp_path, {"write-only": "true"})
    for value in (2, 3):
        driver.commit([["+I", key, value, day, region] for key in range(20) for day, region in PLACES])
    content = driver.content()
    assert run("compact", driver) == run("compact", driver, "--dry-run") == "nothing to compact\n"
    would = run("compact", driver, "--full", "--partition", "region=x", "--dry-run")
    assert would.startswith("would compact 2 buckets:\n  dt=19724/region=x, bucket 0: 3 files of ")
    assert would.count(" bytes, 3 of them on level 0\n") == 2
    assert "compacted 2 buckets: 6 files of " in run("compact", driver, "--full", "--partition", "region=x")
    assert "compacted 6 buckets: 18 files of " in run("compact", driver, "--full")
    assert run("compact", driver, "--full") == "nothing to compact\n"
    left = reopened(driver, tmp_path)
    assert left.content() == content
    assert {file.level for files in left.state().files.values() for file in files} == {5}
