"""The lock files install the same versions everywhere, from whatever index the user's pip knows."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock", "tests/interop/requirements-pypaimon.lock")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)


def pins(lock: str) -> set[tuple[str, str, str]]:
    return {(name, version, marker) for name, version, marker in PIN.findall((ROOT / lock).read_text())}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_requirement_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()

    requirements = re.split(r"\n(?=[A-Za-z])", text)[1:]
    assert requirements and all("--hash=sha256:" in requirement for requirement in requirements)
    assert not re.search(r"://|--(extra-)?index-url|--find-links", text)


def test_the_test_environment_has_the_run_time_versions() -> None:
    of_tests = pins("requirements-dev.lock")
    missing = {
        (name, version, marker)
        for name, version, marker in pins("requirements.lock")
        if not {(name, version, marker), (name, version, "")} & of_tests  # the tests may need it on more systems
    }
    assert missing == set()


def test_every_declared_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *(r for group in project["optional-dependencies"].values() for r in group)]
    names = {re.split(r"[\[<>=~ ;]", requirement)[0].lower().replace(".", "-") for requirement in declared}

    assert names <= {name.lower().replace(".", "-") for name, _, _ in pins("requirements-dev.lock")}
