"""Whatever is done to a file of a table, reading names it or gives the same: no traceback, no silent difference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from paimon_table.data_files.key_value_file import read_key_value_file
from paimon_table.errors import CorruptFile, TidemarkError, UnsupportedFeature
from paimon_table.lookup.cache import shared_lookup_cache
from paimon_table.table import Table
from pipelines.report.table_report import all_snapshots, file_rows, snapshot_rows, table_facts
from tests.support.table_driver import TableDriver, new_table

OPTIONS = {"changelog-producer": "lookup", "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"}


@dataclass(frozen=True)
class Walk:
    """Everything that is read from a table."""

    path: Path
    lookup_dir: Path

    def all(self) -> list[Any]:
        driver = TableDriver(Table.open_for_reading(str(self.path)), self.lookup_dir)
        table = driver.table
        facts = {name: value for name, value in table_facts(table).items() if name != "options"}
        # The checksum under a damaged key looks like a property.
        facts["snapshot"].pop("properties")
        snapshots = snapshot_rows(all_snapshots(table)).to_pylist()
        files = file_rows(table, table.snapshots.latest()).to_pylist()
        return [facts, snapshots, files, driver.content(), [c.rows for c in driver.changes()]]


@pytest.fixture
def walk(tmp_path: Path) -> Walk:
    table = new_table(tmp_path / "t", [("id", "INT"), ("name", "STRING")], ["id"], options=OPTIONS)
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([["+I", i, f"name {i}"] for i in range(40)], full_compact=True)
    driver.commit([["+U", i, "new"] for i in range(0, 40, 4)])
    driver.commit([["-D", 3, "name 3"], ["+I", 50, None]])
    return Walk(tmp_path / "t", tmp_path / "lookup")


def files_of(walk: Walk, kind: str) -> list[Path]:
    """The newest first, which live."""
    return sorted((p for p in walk.path.rglob(kind) if p.is_file()), key=lambda p: (-p.stat().st_mtime_ns, p.name))


def damages(data: bytes, others: list[bytes], draw: random.Random) -> Iterator[bytes]:
    for _ in range(25):
        bit = draw.randrange(8 * len(data))
        yield data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]
    for end in (0, 1, len(data) // 2, len(data) - 1):
        yield data[:end]
    yield data + b"\0"
    yield draw.randbytes(len(data))
    yield bytes(len(data))
    yield from (other for other in others if other != data)


def outcomes(walk: Walk, kind: str, read: Callable[[], Any]) -> Counter[str]:
    """How reading ended for damaged files of a kind; asserts that errors name a file of the table."""
    expected = read()
    found: Counter[str] = Counter()
    paths = files_of(walk, kind)
    assert paths, kind
    whole = {path: path.read_bytes() for path in paths}
    draw = random.Random(11)
    for path in paths[:3]:
        for data in damages(whole[path], list(whole.values())[:3], draw):
            path.write_bytes(data)
            try:
                found["same" if read() == expected else "other"] += 1
            except TidemarkError as error:
                assert str(walk.path) in str(error), error
                found["refused"] += 1
        path.write_bytes(whole[path])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "snapshot-*",
        "manifest-????????-*",
        "manifest-list-*",
        "index-manifest-*",
        "data-*",
        "changelog-*",
        "index-????????-*",
    ],
)
def test_damage_is_told_with_its_file(walk: Walk, kind: str) -> None:
    found = outcomes(walk, kind, walk.all)

    print(f"{kind}: {dict(found)}")
    assert found["other"] == 0
    assert found["refused"] > 0


def test_a_damaged_schema_is_told_where_the_format_lets_it_be_noticed(walk: Walk) -> None:
    """Schema files are JSON of Java's own shape, without room for a checksum: a letter of an option may change."""
    found = outcomes(walk, "schema-*", lambda: walk.all()[3:])

    print(f"schema: {dict(found)}")
    assert found["refused"] > found["other"]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_damaged_column_name_is_told_with_the_schema_file_too(tmp_path: Path, file_format: str) -> None:
    columns = [("id", "INT"), ("amount", "INT")]
    table = new_table(tmp_path / "t", columns, ["id"], options={"bucket": "1", "file.format": file_format})
    TableDriver(table, tmp_path / "lookup").commit([["+I", 1, 5]])
    path = tmp_path / "t/schema/schema-0"
    path.write_text(path.read_text().replace('"amount"', '"amou.t"'))

    with pytest.raises(CorruptFile) as told:
        Table.open(str(tmp_path / "t")).to_arrow()
    assert str(path) in str(told.value) and f".{file_format}" in str(told.value), told.value


def test_a_compaction_of_a_damaged_file_stops_with_its_name(walk: Walk) -> None:
    (path,) = [
        p
        for p in files_of(walk, "data-*")
        if p.stat().st_size == max(f.stat().st_size for f in files_of(walk, "data-*"))
    ][:1]
    data = path.read_bytes()
    at = len(data) // 3
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    driver = TableDriver(Table.open(str(walk.path)), walk.lookup_dir.with_name("empty"), first_identifier=9)

    with pytest.raises(CorruptFile, match=path.name):
        driver.compact()


@pytest.mark.slow
def test_hints_that_name_no_snapshot_do_not_matter(walk: Walk) -> None:
    expected = walk.all()
    for hint in ("LATEST", "EARLIEST"):
        for text in ("999999", "0", "-1", "", "x", "\x00"):
            (walk.path / "snapshot" / hint).write_text(text)
            assert walk.all() == expected


def test_files_outside_of_the_table_are_read_by_their_uri(walk: Walk, tmp_path: Path) -> None:
    table = Table.open_for_reading(str(walk.path))
    rows = table.to_arrow()
    state = table.state()
    ((bucket, files),) = state.files.items()
    outside = tmp_path / "outside"
    outside.mkdir()

    def moved(uri: str) -> Any:

        return read_key_value_file(
            table.context, table.context.bucket_dir(bucket), replace(files[0], external_path=uri)
        )

    inside = Path(table.context.bucket_dir(bucket), files[0].file_name)
    (outside / files[0].file_name).write_bytes(inside.read_bytes())
    assert moved(f"file:{outside}/{files[0].file_name}").num_rows == files[0].row_count
    assert moved(f"file://{outside}/{files[0].file_name}").num_rows == files[0].row_count
    for uri in (f"hdfs://host/{files[0].file_name}", f"s3://bucket/{files[0].file_name}"):
        with pytest.raises(UnsupportedFeature, match=r"data-file.external-paths"):
            moved(uri)
    assert rows.num_rows > 0


@pytest.mark.slow
def test_damaged_lookup_files_are_built_again_and_give_no_wrong_rows(tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "3"}
    table = new_table(tmp_path / "t", [("name", "STRING"), ("n", "INT")], ["name"], options=options)
    driver = TableDriver(table, tmp_path / "lookup")
    driver.commit([["+I", f"key {i}", i] for i in range(60)], full_compact=True)

    for number in range(12):
        files = list((tmp_path / "lookup").rglob("*.lookup"))
        assert files
        for path in files:
            data = path.read_bytes()
            at = len(data) * (number + 1) // 14
            path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        shared_lookup_cache.cache_clear()
        driver.commit([["+U", f"key {number}", 1_000]])

        (changes,) = driver.changes(from_snapshot=driver.table.snapshots.latest_id())
        assert changes.rows == [["-U", f"key {number}", number], ["+U", f"key {number}", 1_000]]
