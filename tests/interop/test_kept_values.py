"""Values of options that are only stored: what is refused is what Java fails with."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config.kept_values import unreadable_values
from tests.interop.java_paimon import JavaPaimon
from tests.interop.worker import WorkerError


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("parquet.block.size", "4kb", "4096"),
        ("parquet.page.size", "5", "64"),
        ("parquet.writer.version", "V2", "v2"),
        ("parquet.compression", "fast", "ZSTD"),
        ("orc.stripe.size", "64 mb", "67108864"),
        ("orc.row.index.stride", "5", "1000"),
        ("orc.compression.zstd.windowlog", "5", "0"),
        ("orc.write.batch-size", "0", "1"),
        ("write-buffer-size", "much", "64 mb"),
        ("write-buffer-spillable", "maybe", "TRUE"),
        ("sort-spill-threshold", "1.5", "10"),
        ("sort-engine", "fast", "Loser-Tree"),
    ],
)
def test_java_writes_and_reads_with_what_is_accepted_alone(
    java: JavaPaimon, tmp_path: Path, name: str, wrong: str, right: str
) -> None:
    def played(value: str) -> list[list[object]]:
        path = str(tmp_path / str(value == right))
        options = {"bucket": "1", "file.format": "orc" if name.startswith("orc.") else "parquet", name: value}
        java.create_table(path, [("k", "INT"), ("v", "STRING")], ["k"], (), options)
        java.write(path, [["+I", 1, "a"], ["+I", 2, "b"]], compact=True)
        return [row[1:] for row in java.read(path)]

    assert list(unreadable_values({name: right})) == []
    assert played(right) == [[1, "a"], [2, "b"]]
    assert [option for option, _ in unreadable_values({name: wrong})] == [name]
    with pytest.raises(WorkerError):
        played(wrong)
