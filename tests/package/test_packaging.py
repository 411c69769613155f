"""What users install and import: the package `tidemark` in front of packages with general names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tidemark
from pipelines.spark.session import CODE_PACKAGES
from pipelines.version import DISTRIBUTION, version
from tests.support.small_table import SmallTable
from tests.support.waiting import seconds
from tidemark.own_packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = """\
version: 1
name: shop
source: { files: { path: dumps }, format: debezium-json }
checkpoint: state
catalog: { warehouse: lake }
otherwise: create
"""


def run_python(
    directory: Path, *arguments: str, entry: tuple[str, ...] = ("-m", "tidemark"), **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *entry, *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds(120),
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with packages of the same names as ours, and a pipeline file."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('somebody else')\n")
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "a.jsonl").touch()
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("python_path", [None, ".", "nowhere:."])
def test_the_command_runs_beside_packages_of_the_same_names(project: Path, python_path: str | None) -> None:
    variables: dict[str, Any] = {} if python_path is None else {"PYTHONPATH": python_path}
    done = run_python(project, "validate", "shop.yaml", **variables)
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_do_not_find_the_packages_of_the_project(project: Path) -> None:
    code = "import os; from tidemark.own_packages import set_others_aside as s; s(); print(os.environ)"
    site = {"PYTHONPATH": f"{ROOT}:."}
    told = run_python(project, code, entry=("-P", "-c"), **site).stdout
    assert f"'PYTHONPATH': '{ROOT}'" in told
    assert "'PYTHONSAFEPATH': '1'" in told


def test_entries_of_the_path_that_cannot_be_looked_at_are_passed_over(tmp_path: Path) -> None:
    code = "from tidemark.own_packages import set_others_aside as s; s(); print('fine')"
    endless = tmp_path / ("a" * 300)  # as a directory without rights, it cannot be looked at: its name is too long
    assert run_python(tmp_path, code, entry=("-P", "-c"), PYTHONPATH=f"{ROOT}:{endless}").stdout == "fine\n"


def test_imported_beside_them_the_error_names_the_other_package(project: Path) -> None:
    code = "import tidemark; tidemark.validate('shop.yaml')"
    done = run_python(project, code, entry=("-c",), PYTHONPATH=".")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: Python finds {project / 'paimon_table'} where Tidemark needs its own package")
    assert "python -m tidemark run FILE" in last


@pytest.mark.slow
def test_started_as_a_file_as_spark_submit_does(tmp_path: Path) -> None:
    file = ROOT / "tidemark" / "__main__.py"
    done = run_python(tmp_path, "--version", entry=(str(file),))
    assert (done.returncode, done.stdout.startswith("tidemark ")) == (0, True)


def test_one_version_and_name_everywhere() -> None:
    project_table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project_table["name"] == DISTRIBUTION
    assert version() == tidemark.__version__


def test_the_packages_of_the_wheel_are_those_that_travel_to_executors() -> None:
    assert set(CODE_PACKAGES) == {*PACKAGES, "tidemark"}


def test_a_file_is_validated_from_python(project: Path, tmp_path: Path) -> None:
    assert tidemark.validate(project / "shop.yaml") == []
    assert tidemark.load_pipeline(project / "shop.yaml").name == "shop"
    broken = tmp_path / "broken.yaml"
    broken.write_text(PIPELINE.replace("version: 1", "version: 3"))
    assert tidemark.validate(broken) == [f"{broken}:1:10: version: unknown version; this Tidemark reads version 1"]


def test_a_table_is_read_from_python(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "lake/shop.db/orders", tmp_path / "work")
    small.commit(0, [("+I", n, "x", None, None) for n in range(5)])
    rows = tidemark.read_table(tmp_path / "lake/shop.db/orders", columns=["id", "name"])
    assert sorted(rows.to_pandas()["id"]) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        checkout.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, checkout)
    for package in CODE_PACKAGES:
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_python(
        checkout,
        *("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), "."),
        entry=("-m", "pip"),
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("tidemark_cdc-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(CODE_PACKAGES)
    assert {f"{package}/py.typed" for package in CODE_PACKAGES} <= set(names)
    assert {"pipelines/spark/log4j2.properties", "pipelines/config/spark_names.txt"} <= set(names)
    assert {f"pipelines/http/page/page.{kind}" for kind in ("html", "css", "js")} <= set(names)
