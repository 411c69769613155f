"""A release: one version, a tag that names it, a section of the changelog; workflows that call what is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import tidemark
from tests.support.waiting import seconds

ROOT = Path(__file__).resolve().parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script reads before it builds anything."""
    for name in ("scripts/release.sh", "tidemark/__init__.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def release(checkout: Path, *tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(checkout / "scripts" / "release.sh"), *tag],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        timeout=seconds(60),
        check=False,
    )


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "tidemark.__version__"}
    folders = ("tidemark", "pipelines", "sources", "sinks", "paimon_table", "scripts", "deploy", ".github")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix not in (".pyc", "")]
    stated = [
        path for path in files if path.is_file() and f'"{tidemark.__version__}"' in path.read_text(errors="ignore")
    ]
    assert stated == [ROOT / "tidemark" / "__init__.py"]


def test_another_tag_is_refused(checkout: Path) -> None:
    done = release(checkout, "v99.0.0")
    assert done.returncode == 1
    assert f"tag v99.0.0 is not v{tidemark.__version__}: set __version__ in tidemark/__init__.py" in done.stderr


def test_a_version_that_the_changelog_calls_unreleased_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased: {tidemark.__version__}\n\n- All.\n")
    done = release(checkout, f"v{tidemark.__version__}")
    assert (done.returncode, "CHANGELOG.md still says Unreleased" in done.stderr) == (1, True)


def test_a_version_without_a_section_of_the_changelog_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## 0.0.1\n\n- Nothing.\n")
    done = release(checkout, f"v{tidemark.__version__}")
    assert (done.returncode, "CHANGELOG.md has no section for" in done.stderr) == (1, True)


def test_the_notes_are_the_section_of_the_version_alone(checkout: Path) -> None:
    sections = f"## {tidemark.__version__}, 2030-01-01\n\n### Added\n\n- Tables.\n\n## 0.0.1\n\n- Nothing.\n"
    (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n{sections}")
    release(checkout, f"v{tidemark.__version__}")
    assert (checkout / "dist" / "NOTES.md").read_text().strip() == "### Added\n\n- Tables."


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_workflows_call_targets_and_scripts_that_are_there(path: Path) -> None:
    runs = [step["run"] for job in read(path)["jobs"].values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {word for run in runs if run.startswith("make ") for word in run.split()[1:]}
    scripts = {word for run in runs for word in run.split() if word.startswith("scripts/")}
    assert called | scripts and called <= targets
    assert [script for script in scripts if not (ROOT / script).exists()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))
def test_jobs_end_and_may_do_no_more_than_they_need(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "timeout-minutes" not in job] == []
    needed = {
        job for described in workflow["jobs"].values() for job in [described.get("needs", [])] if isinstance(job, str)
    }
    assert needed <= set(workflow["jobs"])


def test_every_supported_python_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    assert read(FORGE / "workflows" / "check.yml")["jobs"]["fast"]["strategy"]["matrix"]["python"] == supported


def test_hooks_before_a_commit_call_tools_of_the_lock_file() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {hook["entry"].split()[0] for hook in hooks} == {
        ".venv/bin/ruff",
        ".venv/bin/mypy",
        ".venv/bin/lint-imports",
    }


def test_forms_ask_for_what_a_report_needs() -> None:
    fields = {field["id"] for field in read(FORGE / "ISSUE_TEMPLATE" / "bug.yml")["body"] if "id" in field}
    assert {"what", "file", "version", "around"} <= fields
