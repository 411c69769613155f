"""What a JVM prints is kept, its newest lines only, and told when something went wrong."""

from __future__ import annotations

import logging
import os

import pytest

from pipelines.spark.jvm_output import KEPT_LINES, JvmOutput


def printed(lines: list[str]) -> JvmOutput:
    output = JvmOutput()
    read, write = os.pipe()
    with open(write, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    output._read(read)
    return output


def test_the_newest_lines_are_kept() -> None:
    output = printed([f"line {n}" for n in range(KEPT_LINES + 50)])
    assert output.tail(2) == f"\n  line {KEPT_LINES + 48}\n  line {KEPT_LINES + 49}"
    assert len(output.tail(10_000).splitlines()) == KEPT_LINES + 1


def test_the_announcements_of_a_start_are_no_trouble() -> None:
    output = printed(
        [
            "WARNING: Using incubator modules: jdk.incubator.vector",
            'Setting default log level to "WARN".',
            "java.lang.OutOfMemoryError: Java heap space",
            "",
        ]
    )
    assert output.troubles() == "\n  java.lang.OutOfMemoryError: Java heap space"


def test_errors_that_spark_logs_are_warnings_and_the_rest_is_for_verbose_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "pipelines.spark.jvm_output"):
        told = "spark ERROR TaskContextImpl: Error in TaskCompletionListener"
        printed([":: resolving dependencies ::", told, "spark ERROR Client: connection lost"])
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("DEBUG", ":: resolving dependencies ::"),
        ("DEBUG", told),  # of what the run tells itself, with the cause
        ("WARNING", "spark ERROR Client: connection lost"),
    ]


def test_the_reason_above_a_long_stack_is_told_without_the_stack() -> None:
    reason = "java.io.FileNotFoundException: /root/.ivy2/resolved.xml (Permission denied)"
    output = printed([reason, *(f"\tat org.apache.ivy.Ivy.resolve(Ivy.java:{n})" for n in range(30)), "\t... 3 more"])
    assert output.tail() == f"\n  {reason}"


def test_files_that_are_fetched_are_told_by_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pipelines.spark.jvm_output"):
        printed(
            [
                "downloading https://user:secret@repo.example/org/kafka-clients/3.9.1/kafka-clients.jar ...",
                "\t[SUCCESSFUL ] org.apache.kafka#kafka-clients;3.9.1!kafka-clients.jar (12ms)",
            ]
        )
    assert caplog.messages == ["fetching kafka-clients.jar"]
