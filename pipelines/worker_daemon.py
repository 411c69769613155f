"""Spark's Python worker daemon, started so that tasks begin quickly (``spark.python.daemon.module``).

Every Python task of Spark clears the import caches. The path of its workers holds pyspark as a zip file and Spark's own
jar, and clearing the caches reads the directories of such archives again: 40 ms per archive and task, more than many of
our tasks need. This daemon drops the archives from the path where the same packages are installed beside it, imports
the engine once before it forks, and then is Spark's own daemon.
"""

from __future__ import annotations

import importlib.util
import sys


def without_archives(path: list[str]) -> list[str]:
    """``path`` without zip files and jars, if pyspark and py4j are installed as ordinary directories."""
    kept = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()
    before, sys.path = sys.path, kept
    try:
        found = all(importlib.util.find_spec(name) is not None for name in ("pyspark", "py4j"))
    finally:
        sys.path = before
    return kept if found else path


def main() -> None:
    sys.path = without_archives(sys.path)
    sys.path_importer_cache.clear()
    import pyarrow.compute  # noqa: F401 - imported once, shared by all forked workers
    from pyspark import daemon

    import sinks.bucket_task  # noqa: F401

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
