"""Which heavy modules a command loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "botocore", "obstore", "rich.console")
RUN = """
import sys
from tidemark.__main__ import main
sys.argv = ["tidemark", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def imported_by(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command, and the heavy modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    modules = set(done.stderr.split())
    assert "pipelines.cli" in modules, done.stderr
    return done.returncode, modules & {*HEAVY}
