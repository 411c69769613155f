"""Misspelt Spark properties, sizes that the JVM does not read, and masters that do not exist.

Spark accepts any name silently. `spark_names.txt` lists the names of Spark 4.0 to 4.2. It lacks the names of connectors
and plugins, so an unknown name alone is only a warning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from paimon_table.nearest_name import SURE, nearest

_OPEN_PREFIXES = (
    "spark.hadoop.",
    "spark.executorEnv.",
    "spark.yarn.appMasterEnv.",
    "spark.kubernetes.",
    "spark.sql.catalog.",
    "spark.metrics.conf.",
    "spark.driver.resource.",
    "spark.executor.resource.",
    "spark.task.resource.",
    "spark.ssl.",
)
"""Prefixes of properties with any name."""

_HEAP_SIZES = ("spark.driver.memory", "spark.executor.memory")
_HEAP_SIZE = re.compile(r"\d+[kmgtKMGT]?")
_SIZE = re.compile(r"\d+([bkmgtp]|[kmgtp]b)?", re.IGNORECASE)
_SIZES = re.compile(r"\.(memory|memoryOverhead|maxResultSize)$")
_MASTER = re.compile(
    r"local(-cluster)?(\[[^\]]*\])?|yarn|(spark|k8s)://.+",
)


@functools.cache
def known_properties() -> frozenset[str]:
    return frozenset(Path(__file__).with_name("spark_names.txt").read_text().split())


def misspelt_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (property, problem) for names close to a known one and for sizes with an invalid unit."""
    for name, value in properties.items():
        meant = _meant(name)
        if meant is not None:
            yield name, f"unknown property '{name}'; did you mean '{meant}'?"
        elif name in _HEAP_SIZES and not _HEAP_SIZE.fullmatch(value):
            yield name, f"{name}: the JVM does not read this size; write a number with k, m, g or t, such as 2g or 512m"
        elif _SIZES.search(name) and not _SIZE.fullmatch(value):
            yield name, f"{name}: not a size; write a number with k, m, g or t, such as 2g or 512m"


def unknown_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (property, note) for names that are not properties of Spark itself."""
    for name in properties:
        if not _may_be_any(name) and _meant(name) is None:
            yield name, f"'{name}' is not a property of Spark; it is passed on as it is"


def master_problem(master: str | None) -> str | None:
    """The problem with a master URL; None if Spark may know it."""
    if master is None or _MASTER.fullmatch(master):
        return None
    return "unknown master; expected local[*], local[N], yarn, spark://HOST:PORT or k8s://URL"


def _meant(name: str) -> str | None:
    """The property that a name is a misspelling of."""
    return None if _may_be_any(name) else nearest(name, known_properties(), at_least=SURE)


def _may_be_any(name: str) -> bool:
    return name in known_properties() or name.startswith(_OPEN_PREFIXES)
