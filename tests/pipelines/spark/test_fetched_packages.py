"""Processes that start at the same moment do not fetch Spark's packages into one cache at once."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from pipelines.spark.fetched_packages import fetching
from tests.support.pipeline_run import wait_until
from tests.support.waiting import seconds


def _properties(directory: Path, packages: str = "org.example:a:1") -> dict[str, str]:
    return {"spark.jars.packages": packages, "spark.jars.ivy": str(directory / "ivy")}


@pytest.mark.slow
def test_a_second_start_waits_until_the_first_has_fetched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    order = []

    def second() -> None:
        with fetching(_properties(tmp_path)):
            order.append("second")

    thread = threading.Thread(target=second)
    with fetching(_properties(tmp_path)):
        thread.start()
        wait_until(lambda: "waiting for another process" in caplog.text, 10, "a second one that waits")
        order.append("first")
    thread.join(seconds(10))

    assert order == ["first", "second"]
    assert "waiting for another process that downloads org.example:a:1" in caplog.text


def test_what_has_been_fetched_is_locked_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with fetching(_properties(tmp_path)):
        pass
    with fetching(_properties(tmp_path)), fetching(_properties(tmp_path), wait_s=0.3):
        pass
    assert "not waiting" not in caplog.text
    assert len(list((tmp_path / "ivy" / "cache").glob("*.fetched"))) == 1


def test_a_start_that_fails_has_fetched_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), fetching(_properties(tmp_path)):
        raise RuntimeError("no JVM")
    assert not list((tmp_path / "ivy" / "cache").glob("*.fetched"))


def test_other_packages_are_fetched_by_themselves(tmp_path: Path) -> None:
    for packages in ("org.example:a:1", "org.example:a:1,org.example:b:1"):
        with fetching(_properties(tmp_path, packages)):
            pass
    assert len(list((tmp_path / "ivy" / "cache").glob("*.fetched"))) == 2


def test_without_packages_nothing_is_made(tmp_path: Path) -> None:
    with fetching({"spark.jars.ivy": str(tmp_path / "ivy")}):
        pass
    assert not (tmp_path / "ivy").exists()


@pytest.mark.slow
def test_an_endless_download_does_not_hold_others_for_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with fetching(_properties(tmp_path)), fetching(_properties(tmp_path), wait_s=0.3):
        pass
    assert "not waiting any longer" in caplog.text


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "ivy").write_text("a file")
    entered = False
    with fetching(_properties(tmp_path)):
        entered = True
    assert entered
