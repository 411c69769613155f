"""Tables with dynamic buckets that Java and Tidemark write in turns, with the same and with other assigners."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from paimon_table.bucket_assignment.held_hashes import held_hashes
from paimon_table.metadata.hash_index import read_hashes
from paimon_table.table import Table
from tests.interop.histories import Readers, create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import DYNAMIC_BUCKETS


@pytest.fixture
def readers(java: JavaPaimon, python_readers: PythonReaders) -> Readers:
    return Readers(java, python_readers)


def assert_every_hash_has_one_bucket(path: Path) -> None:
    table = Table.open(str(path))
    hashes: dict[bytes, Counter[int]] = {}
    for entry in table.state().index:
        if entry.file.index_type == "HASH":
            found = read_hashes(table.io, table.paths, entry.file)
            assert len(found) == entry.file.row_count
            hashes.setdefault(entry.bucket.partition, Counter()).update(np.asarray(found).tolist())
    assert hashes
    assert all(set(counts.values()) == {1} for counts in hashes.values())


@pytest.mark.parametrize("java_first", [True, False])
@pytest.mark.parametrize(("of_java", "of_tidemark"), [("3", "2"), ("4", "2"), ("2", "2"), ("1", "4")])
def test_assigners_of_both_may_differ(
    java_first: bool, of_java: str, of_tidemark: str, tmp_path: Path, readers: Readers
) -> None:
    name = "dynamic-bucket.initial-buckets"
    scenario = DYNAMIC_BUCKETS.with_options("mixed", {name: of_tidemark})
    path = tmp_path / scenario.name
    create_by_java(readers.java, scenario, path) if java_first else create_by_tidemark(scenario, path)
    for position, step in enumerate(scenario.steps, start=1):
        if (position % 2 == 1) == java_first:
            readers.java.write(str(path), step.rows, "java", position, step.compact, {name: of_java})
        else:
            held_hashes.cache_clear()
            write_by_tidemark(path, [step], first_identifier=position)
        assert_every_hash_has_one_bucket(path)
    oracle = tmp_path / "oracle"
    create_by_java(readers.java, DYNAMIC_BUCKETS, oracle)
    write_by_java(readers.java, oracle, DYNAMIC_BUCKETS.steps)
    assert readers.assert_equal(path, scenario) == readers.assert_equal(oracle, DYNAMIC_BUCKETS)


def test_one_assigner_fills_the_same_buckets_as_java(tmp_path: Path, readers: Readers) -> None:
    theirs, ours = tmp_path / "java", tmp_path / "tidemark"
    create_by_java(readers.java, DYNAMIC_BUCKETS, theirs)
    create_by_tidemark(DYNAMIC_BUCKETS, ours)
    write_by_java(readers.java, theirs, DYNAMIC_BUCKETS.steps)
    write_by_tidemark(ours, DYNAMIC_BUCKETS.steps)

    def index(path: Path) -> dict[tuple[bytes, int], list[int]]:
        table = Table.open(str(path))
        return {
            (e.bucket.partition, e.bucket.bucket): read_hashes(table.io, table.paths, e.file).tolist()
            for e in table.state().index
        }

    assert index(ours) == index(theirs)
