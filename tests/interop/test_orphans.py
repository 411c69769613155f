"""Java removes the same files that nothing references from a copy of a table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from paimon_table.maintenance.job import Job
from paimon_table.maintenance.orphans import find_orphans, remove_orphans
from paimon_table.surroundings import now_ms, random_uuid
from paimon_table.table import Table
from paimon_table.write.bucket_writer import WriterEnvironment
from tests.interop.java_paimon import JavaPaimon
from tests.support.table_driver import TableDriver, new_table

DAY_MS = 86_400_000
OPTIONS = {
    "bucket": "2",
    "changelog-producer": "lookup",
    "deletion-vectors.enabled": "true",
    "file-index.bloom-filter.columns": "v",
    "file-index.in-manifest-threshold": "1 b",
}
KEPT = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "4", "changelog.num-retained.max": "7"}


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def age(root: Path, young: Iterable[str] = ()) -> None:
    for path in root.rglob("*"):
        if str(path.relative_to(root)) not in young:
            os.utime(path, (now_ms() / 1000 - 2 * 86_400,) * 2)


def test_java_removes_the_same_files(java: JavaPaimon, tmp_path: Path) -> None:
    """Deletion vectors, changelogs that outlive their snapshots, a tag, a branch; what is left of killed writers."""
    root = tmp_path / "t"
    columns = [("k", "INT"), ("v", "STRING"), ("dt", "STRING")]
    driver = TableDriver(new_table(root, columns, ["dt", "k"], ["dt"], OPTIONS), tmp_path / "lookup")
    for commit in range(5):
        keys = range(commit, 4 * commit) if commit else range(200)
        driver.commit([["+I", key, f"v{commit}", dt] for key in keys for dt in ("a", "b")])
        if commit == 1:
            java.create_tag(str(root), "x", 3)
            java.create_branch(str(root), "b", "x")
    java.expire(str(root), KEPT)
    assert (root / "changelog/changelog-6").exists() and not (root / "snapshot/snapshot-3").exists()
    for bucket in ("dt=a/bucket-0", "dt=b/bucket-1"):
        for name in ("data-{}-0.parquet", "changelog-{}-1.parquet", "data-{}-0.parquet.index"):
            (root / bucket / name.format(random_uuid())).write_bytes(b"left")
    for name in ("manifest/manifest-{}-0", "manifest/manifest-list-{}-1", "index/index-{}-0", "statistics/stat-{}-0"):
        path = root / name.format(random_uuid())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    young = f"dt=a/bucket-0/data-{random_uuid()}-0.parquet"
    (root / young).write_bytes(b"at work")
    (root / "snapshot/snapshot-10").rename(tmp_path / "lost")  # a commit that was killed before it published
    (root / "snapshot/LATEST").write_text("9")
    age(root, [young])
    shutil.copytree(root, tmp_path / "java")

    table = Table.open(str(root))
    job = Job(WriterEnvironment(str(tmp_path / "lookup")))
    gone = remove_orphans(table, find_orphans(table, job, DAY_MS), job)
    by_java = java.remove_orphans(str(tmp_path / "java"), now_ms() - DAY_MS)

    assert sorted(orphan.path.removeprefix(f"{root}/") for orphan in gone) == by_java
    assert files_of(root) == files_of(tmp_path / "java")
    assert len(by_java) > 14 and young in files_of(root)
    assert java.read(str(root), {"scan.tag-name": "x"})
    assert len(java.read(str(root))) == 400
