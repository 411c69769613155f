"""What users are told by the exit code, and which errors of ours the errors of others become."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from paimon_table.errors import Action, ConfigError, Outage, TidemarkError, error_classes
from paimon_table.storage.file_io import file_io_for
from pipelines import cli
from pipelines.config import config_file
from pipelines.report.run_log import naming
from pipelines.spark.spark_errors import batch_failure, second_run, task_failure
from sources.kafka.failures import causes_in, kafka_failure
from tests.support.s3_server import s3_server
from tests.support.table_driver import TableDriver, new_table

SERVERS = "kafka:9092"


def exit_code(raised: BaseException, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    def fail(*_arguments: object) -> None:
        raise raised

    monkeypatch.setattr(config_file, "load_pipelines", fail)
    with pytest.raises(SystemExit) as end:
        cli.main(["run", "shop.yaml"])
    return end.value.code


@pytest.mark.parametrize("name", sorted(error_classes()))
def test_only_wrong_requests_end_with_2(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = error_classes()[name]

    code = exit_code(kind("what, and what next"), monkeypatch)

    assert code == (2 if kind.action is Action.FIX_REQUEST else 1)
    assert capsys.readouterr().err == "what, and what next\n"


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            PermissionError("s3://lake/a: AccessDenied"),
            "storage does not answer as expected: s3://lake/a: AccessDenied",
        ),
        (KeyError("x"), "unexpected KeyError: 'x'"),
        (EOFError("no more"), "unexpected RuntimeError: EOFError: no more"),
        (KeyboardInterrupt(), "interrupted"),
    ],
    ids=["operating system", "anything", "end of input", "interrupt"],
)
def test_what_nobody_has_translated_ends_with_1(
    raised: BaseException, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(raised, monkeypatch) == 1
    assert capsys.readouterr().err.startswith(told)


def of_kafka(*causes: tuple[str, str]) -> TidemarkError:
    return kafka_failure(SERVERS, causes)


def of_a_task(raised: str) -> TidemarkError | None:
    return task_failure(f"Job aborted\nTraceback (most recent call last):\n  File\n{raised}\n")


def of_the_store(status: int | None, *, is_known: bool = True) -> TidemarkError | None:
    """The failed read of a task, as the driver gets it: the store answers with a status, or not at all."""
    keys = {"s3.access-key": "k", "s3.secret-key": "s"} if is_known else {}
    with s3_server() as store:
        store.answers_with, store.is_unreachable = status, status is None
        io, path = file_io_for("s3://lake/a", {"s3.endpoint": store.endpoint, **keys})
        with pytest.raises(OSError) as failure:
            io.read(path)
    return of_a_task(f"{type(failure.value).__name__}: {failure.value}")


def of_spark_about_kafka() -> TidemarkError:
    text = "Job aborted: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
    return kafka_failure(SERVERS, causes_in(text))


FOREIGN: dict[str, tuple[Callable[[], TidemarkError | None], Action]] = {
    "kafka: no answer": (lambda: of_kafka(("TimeoutException", "timed out")), Action.RETRY),
    "kafka: unknown host": (lambda: of_kafka(("UnknownHostException", "UnknownHostException: k")), Action.RETRY),
    "kafka: expired certificate": (lambda: of_kafka(("SSLException", "NotAfter: 2020")), Action.RETRY),
    "kafka: too old": (lambda: of_kafka(("UnsupportedVersionException", "no such version")), Action.RETRY),
    "kafka: login": (lambda: of_kafka(("SaslAuthenticationException", "wrong password")), Action.RETRY),
    "kafka: certificate": (lambda: of_kafka(("SSLException", "PKIX path building failed")), Action.FIX_REQUEST),
    "kafka: rights": (lambda: of_kafka(("TopicAuthorizationException", "no rights")), Action.RETRY),
    "kafka: store": (lambda: of_kafka(("NoSuchFileException", "/etc/trust.jks")), Action.FIX_REQUEST),
    "kafka: property": (lambda: of_kafka(("ConfigException", "no such property")), Action.FIX_REQUEST),
    "kafka: nothing known": (lambda: of_kafka(), Action.RETRY),
    "kafka: behind Spark": (of_spark_about_kafka, Action.RETRY),
    "spark: two runs": (lambda: second_run("CONCURRENT_STREAM_LOG_UPDATE", "/state"), Action.RETRY),
    "store: no rights": (lambda: of_the_store(403), Action.RETRY),
    "store: overloaded": (lambda: of_the_store(503), Action.RETRY),
    "store: not reached": (lambda: of_the_store(None), Action.RETRY),
    "system: full disk": (lambda: of_a_task("OSError: [Errno 28] No space left on device"), Action.RETRY),
    "system: not there": (lambda: of_a_task("FileNotFoundError: [Errno 2] No such file: '/lake'"), Action.RETRY),
    "arrow: wrong rows": (lambda: of_a_task("pyarrow.lib.ArrowInvalid: offset overflow"), Action.STOP),
    "python: no memory": (lambda: of_a_task("MemoryError"), Action.STOP),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_errors_of_others_say_what_to_do(name: str) -> None:
    become, action = FOREIGN[name]

    error = become()

    assert error is not None
    assert error.action is action
    assert str(error)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_file_that_no_library_reads_is_a_reason_to_stop(tmp_path: Path, file_format: str) -> None:
    driver = TableDriver(
        new_table(tmp_path / "t", [("k", "INT")], ["k"], options={"file.format": file_format}), tmp_path / "lookup"
    )
    driver.commit([["+I", 1]])
    (file,) = (tmp_path / "t").rglob(f"data-*.{file_format}")
    file.write_bytes(b"\0" * file.stat().st_size)

    with pytest.raises(TidemarkError, match=file.name) as refusal:
        driver.content()

    assert refusal.value.action is Action.STOP


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "passes"), [(503, True), (500, True), (429, True), (408, True), (None, True), (403, False), (400, False)]
)
def test_a_store_that_asks_for_patience_is_tried_again(status: int | None, passes: bool) -> None:
    assert isinstance(of_the_store(status), Outage) is passes


@pytest.mark.slow
def test_a_store_is_not_tried_again_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    error = of_the_store(200, is_known=False)

    assert error is not None and not isinstance(error, Outage)
    assert "no AWS credentials were found; set s3.access-key" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/lake/data-1"),
        OSError("When writing s3://lake/a: AWS Error SLOW_DOWN during PutObject operation"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        ConfigError("no such column"),
        KeyError("id"),
    ],
    ids=lambda error: str(error)[:30],
)
def test_a_batch_that_fails_here_ends_a_pipeline_as_in_tasks(error: Exception) -> None:
    """Also so that it ends no other pipeline of the process, and its text begins with its name."""
    here, in_task = batch_failure(error), of_a_task(f"{type(error).__name__}: {error}")
    assert (type(here), here.action) == (type(in_task), in_task and in_task.action)
    with pytest.raises(TidemarkError, match=r"^pipeline shop: "), naming("shop"):
        raise here
