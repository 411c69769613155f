"""Which seeds to run, the process that holds Java Paimon, and what could not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.differential.journey_kinds import KINDS
from tests.differential.playing import Player
from tests.interop.environment import java_class_path, pypaimon_python
from tests.interop.java_paimon import JavaPaimon
from tests.interop.python_readers import PythonReaders
from tests.stack.paths import PROJECT_DIR

CI_SEEDS = 28
"""Two histories of each engine and changelog producer."""

CI_JOURNEYS = (0, 1, 4, 6, 12, 18)
"""Each bucket mode and each engine at least once."""

CI_KINDS: Mapping[str, int] = {
    "postponed": 72,
    "unaware": 76,
    "append-buckets": 24,
    "branches": 49,
    "places": 81,
    "partition-types": 32,
    "vectors": 3,
    "append-vectors": 164,
    "long-places": 269,
    "changelogs": 33,
    "schemas": 51,
    "retracts": 33,
    "groups": 103,
    "sequences": 38,
    "expiry": 261,
    "row-expiry": 5,
}
"""Each kind once, by seeds of few steps that hold what the kind is about."""

LISTED_SEEDS = (900223, 900311, 900629)
"""Histories that differ by ``force-lookup`` with producer full-compaction, which the first seeds do not draw."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("differential")
    group.addoption("--seeds", type=int, default=CI_SEEDS, help="how many random histories to play")
    group.addoption("--first-seed", type=int, default=0, help="the first seed")
    group.addoption("--history", default=None, help="file with one history as a failure prints it")
    group.addoption("--journeys", type=int, default=None, help="how many random journeys to play")
    group.addoption("--first-journey", type=int, default=0, help="the seed of the first journey")
    group.addoption("--journey-kind", default=None, help="play journeys of this kind alone, or of all kinds")
    group.addoption("--journey", default=None, help="file with one journey as a failure prints it")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("first_seed", default=0)
        count = metafunc.config.getoption("seeds", default=CI_SEEDS)
        listed = LISTED_SEEDS if (first, count) == (0, CI_SEEDS) else ()
        metafunc.parametrize("seed", [*range(first, first + count), *listed])
    if {"journey_seed", "kind_seed"} & set(metafunc.fixturenames):
        first = metafunc.config.getoption("first_journey", default=0)
        count = metafunc.config.getoption("journeys", default=None)
        kind = metafunc.config.getoption("journey_kind", default=None)
        seeds = range(first, first + (count or 1))
        if "journey_seed" in metafunc.fixturenames:
            chosen = seeds if count is not None else CI_JOURNEYS
            metafunc.parametrize("journey_seed", chosen if kind is None else ())
        elif kind is None:
            metafunc.parametrize("kind,kind_seed", [] if count is not None else [*CI_KINDS.items()])
        else:
            kinds = KINDS if kind == "all" else [kind]
            metafunc.parametrize("kind,kind_seed", [(one, seed) for seed in seeds for one in kinds])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/differential/" in item.nodeid and "java_process" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def java_process() -> Iterator[JavaPaimon]:
    client = JavaPaimon(java_class_path(), PROJECT_DIR)
    yield client
    client.close()


@pytest.fixture(scope="session")
def python_process() -> Iterator[PythonReaders]:
    client = PythonReaders(pypaimon_python(), PROJECT_DIR)
    yield client
    client.close()


@pytest.fixture
def player(java_process: JavaPaimon, tmp_path: Path) -> Player:
    return Player(java_process, tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for r in terminalreporter.stats.get("passed", []) if "tests/differential/" in r.nodeid]
    counts: Counter[str] = Counter()
    for report in reports:
        properties = dict(report.user_properties)
        if "commits" not in properties:
            continue
        counts["histories"] += 1
        counts["commits"] += int(properties["commits"])
        counts["compared commits"] += int(properties["compared"])
        if "difference" in properties:
            counts[f"listed difference: {properties['difference']}"] += 1
    if counts:
        terminalreporter.section("differential: histories played by Tidemark and by Java")
        for what, count in counts.items():
            terminalreporter.line(f"{count:5} {what}")
