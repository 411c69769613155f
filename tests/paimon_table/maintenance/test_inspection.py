"""Damaged files of a table are found, with who needs them; hints are mended and nothing else is touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError, CorruptFile
from paimon_table.maintenance.damage import Inspection, WrongHint
from paimon_table.maintenance.inspection import inspect, mend_hints, open_despite_damage
from paimon_table.maintenance.job import Job
from paimon_table.metadata.manifest_store import ManifestReader
from paimon_table.storage.file_io import LocalFileIO
from paimon_table.table import Table
from paimon_table.types import parse_type
from paimon_table.validation.schema_evolution import AddColumn
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.support.job_steps import Steps
from tests.support.table_driver import TableDriver, new_table

COLUMNS = [("k", "INT"), ("v", "STRING"), ("dt", "STRING")]
OPTIONS = {
    "changelog-producer": "lookup",
    "deletion-vectors.enabled": "true",
    "file-index.bloom-filter.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
}
NEWEST = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four commits of an APPEND and a COMPACT snapshot each."""
    root = tmp_path_factory.mktemp("whole")
    driver = TableDriver(new_table(root / "t", COLUMNS, ["dt", "k"], ["dt"], OPTIONS), root / "lookup")
    for commit in range(4):
        keys = range(commit, 4 * commit) if commit else range(200)
        driver.commit([["+I", key, f"v{commit}", dt] for key in keys for dt in ("a", "b")])
    driver.evolve([AddColumn("x", parse_type("INT"))])
    assert driver.table.snapshots.latest_id() == NEWEST
    return root / "t"


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "t"))


def look(root: Path, tmp_path: Path, at: Callable[[int], None] = lambda _: None, *, deep: bool = False) -> Inspection:
    job = Job(WriterEnvironment(str(tmp_path / "lookup")), Steps(at))
    return inspect(open_despite_damage(LocalFileIO(), str(root)), job, reads_rows=deep)


def told(root: Path, found: Inspection) -> list[tuple[str, str, str]]:
    return [(d.path.removeprefix(f"{root}/"), d.what, str(d.needs)) for d in found.damages]


def manifests_of(root: Path, snapshot_id: int) -> list[str]:
    table = Table.open_for_reading(str(root))
    snapshot = table.snapshots.read(snapshot_id)
    lists = ManifestReader(table.io, table.paths).all_manifests(snapshot)
    return [manifest.file_name for manifest in lists]


def content(root: Path) -> set[tuple[str, bytes]]:
    return {(str(path.relative_to(root)), path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def test_a_whole_table_is_whole_and_stays_as_it_is(root: Path, tmp_path: Path) -> None:
    before = content(root)
    found = look(root, tmp_path, deep=True)
    assert (found.damages, found.hints, found.snapshot_ids) == ((), (), tuple(range(1, NEWEST + 1)))
    assert found.newest_is_whole and found.file_count > 20
    assert content(root) == before


def test_a_missing_data_file_is_told_with_all_that_need_it(root: Path, tmp_path: Path) -> None:
    """A file that later snapshots have replaced, and one that the newest one has."""
    table = Table.open(str(root))
    states = {number: table.state(table.snapshots.read(number)) for number in range(1, NEWEST + 1)}
    live = {
        number: {(bucket, file.file_name) for bucket, files in state.files.items() for file in files}
        for number, state in states.items()
    }
    for bucket, name in (min(live[3] - live[NEWEST], key=str), min(live[NEWEST], key=str)):
        have = [number for number, files in live.items() if (bucket, name) in files]
        path = Path(table.context.bucket_dir(bucket)) / name
        data = path.read_bytes()
        path.unlink()
        ((where, what, needs),) = told(root, look(root, tmp_path))
        assert (where, what) == (str(path.relative_to(root)), "is missing")
        assert needs == (f"snapshots {have[0]} to {have[-1]}" if len(have) > 1 else f"snapshot {have[0]}")
        path.write_bytes(data[:-3])
        found = look(root, tmp_path)
        (damage,) = found.damages
        assert damage.what == f"has {len(data) - 3:,} bytes instead of {len(data):,}"
        assert (damage.partition, damage.bucket) == (bucket.partition, bucket.bucket)
        assert found.newest_is_whole == (NEWEST not in have)
        path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "what"), [
    ("snapshot/snapshot-3", "is not readable"), ("manifest/manifest-list-*", "is not readable"),
    ("manifest/manifest-[0-9a-f]*", "is not readable"), ("manifest/index-manifest-*", "is not readable"),
    ("index/index-*", "bytes instead of"), ("dt=a/bucket-0/changelog-*", "bytes instead of"),
    ("dt=a/bucket-0/*.parquet", "bytes instead of"),
])  # fmt: skip
def test_every_damaged_file_of_a_kind_is_found(root: Path, tmp_path: Path, pattern: str, what: str) -> None:
    paths = sorted(root.glob(pattern))
    assert paths
    for path in paths:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
        damages = told(root, look(root, tmp_path))
        path.write_bytes(data)
        assert [where for where, _, _ in damages] == [str(path.relative_to(root))], path
        assert what in damages[0][1] and damages[0][2].startswith("snapshot"), damages
        path.unlink()
        damages = told(root, look(root, tmp_path))
        path.write_bytes(data)
        assert [(where, how) for where, how, _ in damages] == [(str(path.relative_to(root)), "is missing")], path


def test_missing_sidecars_and_schemas_are_found(root: Path, tmp_path: Path) -> None:
    sidecar = min(root.rglob("*.index"))
    sidecar.unlink()
    (root / "schema/schema-0").unlink()
    damages = told(root, look(root, tmp_path))
    assert [(where, what) for where, what, _ in damages] == [
        ("schema/schema-0", "is missing"),
        (str(sidecar.relative_to(root)), "is missing"),
    ]


def test_a_damaged_newest_schema_does_not_keep_from_looking(root: Path, tmp_path: Path) -> None:
    (root / "schema/schema-1").write_text("{")
    damages = told(root, look(root, tmp_path))
    assert damages[0][:1] == ("schema/schema-1",) and "is not readable" in damages[0][1]
    (root / "schema/schema-0").write_text("{")
    with pytest.raises(CorruptFile, match=r"no schema of .* can be read"):
        look(root, tmp_path)
    with pytest.raises(ConfigError, match="no table"):
        look(root / "nothing", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["snapshot/snapshot", "schema/schema"])
def test_a_file_of_an_immense_number_does_not_make_the_look_endless(root: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(root / f"{name}-1", root / f"{name}-99999999999999999")
    damages = told(root, look(root, tmp_path))
    (own,) = [what for where, what, _ in damages if where == f"{name}-99999999999999999"]
    assert "has the content of s" in own
    assert len(damages) == 1001, "the first thousand of the gap"


def test_the_newest_whole_snapshot_is_the_one_to_go_back_to(root: Path, tmp_path: Path) -> None:
    (name,) = set(manifests_of(root, 6)) - set(manifests_of(root, 5))
    (root / "manifest" / name).unlink()
    found = look(root, tmp_path)
    assert told(root, found)[0] == (f"manifest/{name}", "is missing", f"snapshots 6 to {NEWEST}")
    assert (found.newest_id, found.newest_whole_id) == (NEWEST, 5)


def test_bits_that_fell_over_are_found_by_checksums(root: Path, tmp_path: Path) -> None:
    """Sizes stay; index files are always read, rows on demand."""
    table = Table.open(str(root))
    live = [entry.file.file_name for entry in table.state().index]
    index = root / "index" / live[0]
    flip(index, index.stat().st_size - 6)
    assert [where for where, _, _ in told(root, look(root, tmp_path))] == [f"index/{live[0]}"]
    flip(index, index.stat().st_size - 6)
    bucket, files = next(iter(table.state().files.items()))
    path = Path(table.context.bucket_dir(bucket)) / files[0].file_name
    flip(path, path.stat().st_size // 2)
    assert look(root, tmp_path).damages == ()
    (damage,) = look(root, tmp_path, deep=True).damages
    assert (damage.path, str(damage.needs)) == (str(path), f"snapshot {NEWEST}")


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("text", ["3", "99", "", "x", None])
def test_wrong_hints_are_mended(root: Path, tmp_path: Path, text: str | None) -> None:
    latest = root / "snapshot/LATEST"
    latest.unlink()
    if text is not None:
        latest.write_text(text)
    found = look(root, tmp_path)
    assert found.hints == (WrongHint(str(latest), text, NEWEST),)
    mend_hints(LocalFileIO(), found.hints)
    assert latest.read_text() == str(NEWEST)
    assert look(root, tmp_path).hints == ()


def test_hints_of_expired_snapshots_changelogs_and_branches(root: Path, tmp_path: Path) -> None:
    (root / "snapshot/snapshot-1").unlink()
    (root / "snapshot/EARLIEST").write_text("1")
    (root / "changelog").mkdir()
    shutil.copy(root / "snapshot/snapshot-2", root / "changelog/changelog-2")
    (root / "changelog/LATEST").write_text("1")
    found = look(root, tmp_path)
    assert [(hint.path.removeprefix(f"{root}/"), hint.right) for hint in found.hints] == [
        ("snapshot/EARLIEST", 2),
        ("changelog/LATEST", 2),
    ]


def test_files_of_tags_and_branches_are_looked_for(root: Path, tmp_path: Path) -> None:
    """Held by nothing else any more."""
    for directory in ("tag", "branch/branch-b/snapshot", "branch/branch-b/schema"):
        (root / directory).mkdir(parents=True)
    shutil.copy(root / "schema/schema-0", root / "branch/branch-b/schema/schema-0")
    shutil.copy(root / "snapshot/snapshot-1", root / "tag/tag-x")
    shutil.copy(root / "snapshot/snapshot-1", root / "branch/branch-b/snapshot/snapshot-1")
    table = Table.open(str(root))
    only = {file.file_name for files in table.state(table.snapshots.read(1)).files.values() for file in files}
    for number in range(1, 7):
        (root / f"snapshot/snapshot-{number}").unlink()
    assert look(root, tmp_path).damages == ()
    path = next(path for path in root.rglob("*.parquet") if path.name in only)
    path.unlink()
    damages = told(root, look(root, tmp_path))
    assert (str(path.relative_to(root)), "is missing", "snapshot 1 of branch b, tag x") in damages


def test_what_expires_meanwhile_is_no_damage(root: Path, tmp_path: Path) -> None:
    """The oldest snapshot goes with its manifests and files while others are looked at."""
    table = Table.open(str(root))
    states = [table.state(table.snapshots.read(number)) for number in range(1, NEWEST)]
    kept = {file.file_name for files in states[-1].files.values() for file in files}
    every = {table.context.data_file(b, f): f.file_name for s in states for b, files in s.files.items() for f in files}
    data = [path for path, name in every.items() if name not in kept]
    lists = [table.snapshots.read(number).delta_manifest_list for number in range(1, NEWEST - 1)]

    def expire(step: int) -> None:
        if step == 3:
            for number in range(1, NEWEST - 1):
                (root / f"snapshot/snapshot-{number}").unlink()
            for path in [*data, *(f"{root}/manifest/{name}" for name in lists)]:
                Path(path).unlink()

    assert data
    assert look(root, tmp_path, expire).damages == ()
