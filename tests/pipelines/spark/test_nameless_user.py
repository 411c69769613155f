"""What stands in for the name and the home of a user id that has none."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest

from pipelines.spark.nameless_user import NamelessUser, nameless_user

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", missing)


def test_a_user_that_the_system_knows_stays_what_it_is() -> None:
    assert nameless_user({}) is None


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, str(os.geteuid())),
        ({"USER": "shop"}, "shop"),
        ({"USER": "shop", "HADOOP_USER_NAME": "etl"}, "etl"),
        ({"USER": "two words"}, str(os.geteuid())),
    ],
)
def test_the_name_is_what_the_environment_says_else_the_number(variables: dict[str, str], expected: str) -> None:
    found = nameless_user(variables)
    assert found is not None and found.name == expected


@pytest.mark.usefixtures("unknown")
def test_the_home_is_one_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    homes = {given: nameless_user({"HOME": given}) for given in (str(tmp_path), f"{tmp_path}/missing", "", "relative")}
    private = f"{tmp_path}/tidemark-{os.geteuid()}"
    assert [user.home for user in homes.values() if user] == [str(tmp_path), private, private, private]


def test_java_options_of_the_file_win() -> None:
    properties = NamelessUser("12345", "/tmp/home").in_jvm({OPTIONS: "-Duser.home=/data", "spark.ui.enabled": "false"})
    assert properties[OPTIONS] == "-Duser.name=12345 -Duser.home=/tmp/home -Duser.home=/data"
    assert properties["spark.ui.enabled"] == "false"
