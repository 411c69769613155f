"""Spark's exceptions in the words of a user: one line in place of two stack traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from paimon_table.errors import BrokenInvariant, SinkUnavailable, TidemarkError, error_classes
from paimon_table.storage.outages import storage_failure, told_failure


def task_failure(text: str) -> TidemarkError | None:
    """The error that ended a task, from the worker's traceback in the text of Spark's error; None if there is none.

    Spark passes on only that text, so Tidemark's own errors are recognised by the name of their class.
    """
    _, mark, trace = text.rpartition("Traceback (most recent call last):")
    raised = re.search(r"^(?:\w+\.)*(\w+)(?:: (.*))?$", trace, re.MULTILINE)
    if not mark or raised is None:
        return None
    kind, message = raised[1], raised[2] or ""
    own = error_classes().get(kind)
    if own is not None:
        return own(message)
    return told_failure(kind, message) or _bug("task", kind, message)


def batch_failure(error: Exception) -> TidemarkError:
    """The error that ended a batch in this process, as ``task_failure`` gives it for a task."""
    if isinstance(error, TidemarkError):
        return error
    return storage_failure(error) if isinstance(error, OSError) else _bug("batch", type(error).__name__, error)


def _bug(what: str, kind: str, message: object) -> BrokenInvariant:
    return BrokenInvariant(f"a {what} ended with {kind}: {message}; TIDEMARK_DEBUG=1 shows where, please report it")


@contextmanager
def told_by_spark(what: str, explained: Callable[[str], TidemarkError | None]) -> Iterator[None]:
    """Turn the failure of a Spark job in this block into an error of Tidemark's.

    ``explained`` turns failures of the source.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        raise (
            explained(text) or task_failure(text) or SinkUnavailable(f"{what}: {first_cause(error)}; call again")
        ) from error


_SECOND_RUN = re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY|SparkConcurrentModificationException")


def second_run(text: str, checkpoint: str) -> SinkUnavailable | None:
    """The error if Spark found that another process writes to the checkpoint; None for other errors."""
    if _SECOND_RUN.search(text) is None:
        return None
    return SinkUnavailable(
        f"another run uses checkpoint {checkpoint}: it planned a batch that this run was about to plan. Only one "
        "run at a time can use the checkpoint: stop the other run, then start this one again; it continues from "
        "the checkpoint"
    )


_OVERLOAD = "a Python process did not start within 10 s: the machine is overloaded, or short of memory"


_NO_PROGRAM = re.compile(r"Cannot run program \"([^\"\n]+)\".*?error=\d+, ([^\n]+)")
"""How Java reports that a process, such as a Python worker, did not start."""


_LOCAL_FILES = re.compile(r"NoSuchFileException: (\S.*?/blockmgr-[^/\s]+)")
"""How Java reports that Spark's own local files are no longer there."""


def first_cause(error: object) -> str:
    """The innermost message of a Spark exception, one line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    cause = (causes[-1].removeprefix("Caused by:").strip() if causes else lines[0]) if lines else type(error).__name__
    if "because SparkContext was shut down" in text:
        return (
            "Spark ended unexpectedly, possibly because it ran out of memory (spark.driver.memory); start again: "
            "the pipeline continues where it stopped"
        )
    if cause.startswith("An error occurred while calling") and len(lines) > 1:  # py4j's own words come first
        cause = lines[1].removeprefix(":").strip()
    if _is_overload(text):
        return f"{_OVERLOAD}; run fewer pipelines on it or give it more cores, and start again"
    program = _NO_PROGRAM.search(text)
    if program is not None:
        return (
            f"{program[1]} cannot be started ({program[2]}): the user of the pipeline must be allowed to execute"
            " it, and it must be on each machine of Spark. Install Tidemark where this user may read and execute all of"
            " it"
        )
    local = _LOCAL_FILES.search(text)
    if local is not None:
        return (
            f"{local[1]} no longer exists; a cleaner of temporary files may have removed it. Exclude it from the "
            "cleaner, or give pipelines another directory (spark.local.dir), and start again; it continues where "
            "it stopped"
        )
    if cause == "null" or "Python worker exited unexpectedly" in text:
        # Spark sees only the end of a socket.
        return (
            "a Python process of Spark has ended, possibly because it ran out of memory; start again: the "
            "pipeline continues where it stopped"
        )
    return cause.removesuffix(".")


def _is_overload(error: object) -> bool:
    """Whether a process that Spark started did not answer in time."""
    return "Python worker failed to connect back" in str(error)
