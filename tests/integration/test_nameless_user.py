"""A user id that the system has no name for, as OpenShift and `docker run --user` give it to containers."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from paimon_table.table import Table
from tests.support.events import History, write_dump
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NAMELESS = 54321
# The Python that runs the tests may lie in a home that others cannot enter.
AS_NAMELESS = (
    *("setpriv", f"--reuid={NAMELESS}", "--regid=0", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)


@pytest.fixture
def own_directory() -> Iterator[Path]:
    """A directory of this user; below ``tmp_path`` it could enter none."""
    with tempfile.TemporaryDirectory(prefix="nameless-") as made:
        os.chown(made, NAMELESS, 0)
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv")
def test_a_user_id_without_a_name_runs_a_pipeline_where_it_cannot_write(own_directory: Path) -> None:
    with pytest.raises(KeyError):
        pwd.getpwuid(NAMELESS)
    history = History("orders", seed=14).extend(300)
    write_dump(own_directory / "dumps", [history])
    file = write_pipeline(own_directory, own_directory / "dumps")
    jar = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    file.write_text(file.read_text().replace("spark:\n", f"spark:\n  spark.jars: {jar}\n"))
    (own_directory / "tmp").mkdir()
    os.chown(own_directory / "tmp", NAMELESS, 0)

    done = subprocess.run(
        [*AS_NAMELESS, str(Path(sys.executable).with_name("tidemark")), "run", str(file), "--once"],
        env={**os.environ, "HOME": "/", "TMPDIR": str(own_directory / "tmp")},
        cwd="/proc",  # where not even root makes a file
        capture_output=True,
        text=True,
        timeout=seconds(240),
        start_new_session=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    table = Table.open(f"{own_directory}/warehouse/lake.db/orders")
    assert {row["id"]: row for row in table.to_arrow().to_pylist()} == history.rows
    assert {path.stat().st_uid for path in (own_directory / "warehouse").rglob("*")} == {NAMELESS}
