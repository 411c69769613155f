"""Tables whose rows move between partitions: Tidemark's are read by all, and Java and Tidemark write them in turns.

Java moves rows by its index in RocksDB; some rows of its commits come with their deletes all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_table.types import parse_type
from tests.interop.histories import Readers, create_by_java, create_by_tidemark, write_by_java, write_by_tidemark
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.interop.scenarios import Scenario, Step

COLUMNS = tuple((name, parse_type(text)) for name, text in (("dt", "STRING"), ("id", "INT"), ("v", "STRING")))


@pytest.fixture
def readers(java: JavaPaimon, python_readers: PythonReaders) -> Readers:
    return Readers(java, python_readers)


def scenario_of(steps: tuple[Step, ...], **options: str) -> Scenario:
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return Scenario("moving-rows", COLUMNS, ("id",), steps, ("dt",), {"bucket": "-1", **named})


OWN_STEPS = (
    Step(tuple(["+I", "a", key, "first"] for key in range(8))),
    Step((*(["+U", "b", key, "moved"] for key in range(4)), ["-D", "c", 5, "x"], ["+I", "c", 9, "new"])),
    Step((["+U", "a", 0, "back"], ["+U", "c", 1, "x"], ["+U", "b", 1, "y"]), compact=True),
)
THEIR_STEPS = (
    Step((["-D", "b", 2, "moved"], ["+I", "c", 2, "theirs"], ["+I", "d", 20, "theirs"])),
    Step((["-D", "a", 6, "first"],), compact=True),
)
LAST_STEPS = (Step(tuple(["+U", "e", key, "last"] for key in (2, 6, 7, 20))),)


@pytest.mark.parametrize("producer", ["none", "lookup", "input"])
def test_a_table_of_tidemark_reads_equal_after_every_commit(producer: str, tmp_path: Path, readers: Readers) -> None:
    scenario = scenario_of(OWN_STEPS, changelog_producer=producer)
    path = tmp_path / scenario.name
    create_by_tidemark(scenario, path)
    for position, step in enumerate(scenario.steps, start=1):
        write_by_tidemark(path, [step], first_identifier=position)
        rows = readers.assert_equal(path, scenario)
    assert sorted((row[1], row[0], row[2]) for row in rows) == [
        (0, "a", "back"), (1, "b", "y"), (2, "b", "moved"), (3, "b", "moved"),
        (4, "a", "first"), (6, "a", "first"), (7, "a", "first"), (9, "c", "new"),
    ]  # fmt: skip


@pytest.mark.parametrize("lanes", ["1", "3"])
@pytest.mark.parametrize("java_first", [True, False])
def test_java_and_tidemark_write_in_turns(lanes: str, java_first: bool, tmp_path: Path, readers: Readers) -> None:
    """Java fills the first bucket alone, which fits no number of lanes but 1: the others are noticed."""
    scenario = scenario_of(OWN_STEPS, changelog_producer="lookup", dynamic_bucket__initial_buckets=lanes)
    path = tmp_path / scenario.name
    (create_by_java if java_first else lambda _, *rest: create_by_tidemark(*rest))(readers.java, scenario, path)
    if java_first:
        write_by_java(readers.java, path, OWN_STEPS[:1])
    else:
        write_by_tidemark(path, OWN_STEPS[:1])
    write_by_tidemark(path, OWN_STEPS[1:], first_identifier=2)
    readers.assert_equal(path, scenario)

    if lanes == "1":
        write_by_java(readers.java, path, THEIR_STEPS, first_identifier=100)
        readers.assert_equal(path, scenario)
        write_by_tidemark(path, LAST_STEPS, first_identifier=10)
        rows = readers.assert_equal(path, scenario)
        assert sorted(row[1] for row in rows) == [0, 1, 2, 3, 4, 6, 7, 9, 20]
        assert sorted(row[1] for row in rows if row[0] == "e") == [2, 6, 7, 20]
