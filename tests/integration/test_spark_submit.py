"""Spark's own launcher starts the command of the README with a Python that has the locked packages only."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

from paimon_table.table import Table
from tests.stack.class_archive import jvm_options
from tests.stack.paths import PROJECT_DIR
from tests.support.events import History, write_dump
from tests.support.pipeline_run import write_pipeline
from tests.support.waiting import seconds

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def _python_without_tidemark(directory: Path) -> Path:
    """A Python with our dependencies: the entry in its ``.pth`` file leaves out what is installed as editable."""
    venv.create(directory, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    (locked,) = Path(sys.prefix).glob("lib/python*/site-packages")
    (site / "locked.pth").write_text(f"{locked}\n")
    python = directory / "bin" / "python"
    found = "import importlib.util as u; print([u.find_spec(n) is not None for n in ('pyspark', 'paimon_table')])"
    done = subprocess.run([python, "-I", "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[True, False]"
    return python


def _installed_wheel(directory: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, str(PROJECT_DIR), "-w", str(directory)], check=True)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "site-packages")
    return directory / "site-packages"


@pytest.mark.parametrize(("origin", "master"), [("checkout", "local[2]"), ("wheel", "local-cluster[1,2,1024]")])
def test_spark_submit_runs_a_pipeline(tmp_path: Path, origin: str, master: str) -> None:
    history = History("orders", seed=5).extend(300)
    write_dump(tmp_path / "dumps", [history])
    file = write_pipeline(tmp_path, tmp_path / "dumps", max_records=200)
    file.write_text(file.read_text().replace("  master: local[2]\n", ""))
    packages = PROJECT_DIR if origin == "checkout" else _installed_wheel(tmp_path / "wheel")
    python = str(_python_without_tidemark(tmp_path / "venv"))
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}

    done = subprocess.run(
        [
            str(Path(str(files("pyspark"))) / "bin" / "spark-submit"),
            *("--master", master, "--driver-memory", "1g", "--conf", "spark.log.level=ERROR"),
            *("--conf", f"spark.executor.extraJavaOptions={jvm_options()}"),
            str(packages / "tidemark" / "__main__.py"),
            *("run", str(file), "--once"),
        ],
        env={**environment, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=seconds(240),
        check=False,
    )

    assert done.returncode == 0, done.stderr
    rows = Table.open(f"{tmp_path}/warehouse/lake.db/orders").to_arrow().to_pylist()
    assert {row["id"]: row for row in rows} == history.rows
