"""Requests of commands to the process that runs a pipeline, and their answers: small files in its checkpoint.

One process works on a checkpoint, and no other process changes its content. A command that asks for something leaves
``CHECKPOINT/tidemark/requests/ID.json``. The process takes the request when no batch runs and answers in
``ID.answer.json``. Requests outlive both processes: the next start takes a request without a final answer. Therefore
each request must be idempotent. Identifiers sort by the time at which requests were left.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import os
import re
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from paimon_table.errors import ConfigError, CorruptFile, UnsupportedFeature
from paimon_table.storage.file_io import FileIO, LocalFileIO
from paimon_table.surroundings import now_ms
from pipelines.checkpoint.checkpoint import NOT_AS_WRITTEN
from pipelines.checkpoint.document import check_format
from pipelines.config.config import PipelineConfig
from pipelines.config.row_rules import mask_digests
from pipelines.storage import storage_of

log = logging.getLogger(__name__)

DIRECTORY = "tidemark/requests"
KEPT_MS = 24 * 3600 * 1000
"""How long answered requests are kept."""

RULES = "rules"
"""Argument of a request: the digest of the rules that the command has read."""

_REQUEST = re.compile(r"([0-9T]+-[0-9a-f]{8})\.json")
_ANSWER_SUFFIX = ".answer.json"


class State(StrEnum):
    """The progress of a request."""

    WORKING = "working"
    """Taken; another answer follows."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing was done; the user must change the request."""
    FAILED = "failed"
    """It was tried."""

    @property
    def is_final(self) -> bool:
        return self is not State.WORKING


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a running pipeline."""

    id: str
    command: str
    arguments: Mapping[str, Any]
    left_at_ms: int
    left_by: str
    """User, process and host, for messages."""

    def text(self, name: str) -> str:
        """An argument that is a text; empty if it is absent."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The state of a request; ``text`` is for people, ``details`` are for programs, such as a progress."""

    state: State
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return json.dumps({**asdict(self), "state": self.state.value}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        document = json.loads(data)
        return cls(State(document["state"]), str(document["text"]), dict(document["details"]))


class Requests:
    """The requests to one pipeline, for the commands that leave them and the process that takes them."""

    def __init__(self, io: FileIO, checkpoint: str, now_ms: Callable[[], int] = now_ms) -> None:
        # The pipeline carries out requests with its own rights: no other user may write here.
        self._io = replace(io, closed_to_writers=True) if isinstance(io, LocalFileIO) else io
        self._directory = f"{checkpoint}/{DIRECTORY}"
        self._now_ms = now_ms
        self._last_left_us = 0
        """The time of the last request, from its identifier: no two have the same microsecond."""
        self._done: set[str] = set()
        """Requests with a final answer, which no longer changes."""
        self._denied: set[str] = set()
        """Paths whose foreign owner was already logged."""

    @staticmethod
    def of(config: PipelineConfig) -> Requests:
        return Requests(*storage_of(config, config.checkpoint))

    def leave(self, command: str, arguments: Mapping[str, Any]) -> Request:
        """Leave a request; it is durable and may be taken at once."""
        at_ms = self._now_ms()
        self._last_left_us = max(at_ms * 1000, self._last_left_us + 1)
        request = Request(
            f"{_moment(self._last_left_us)}-{uuid.uuid4().hex[:8]}", command, dict(arguments), at_ms, _me()
        )
        self._io.write(self._path(request.id), json.dumps(asdict(request), indent=1).encode())
        return request

    def waiting(self) -> list[Request]:
        """The requests without a final answer, oldest first; answers files that are not requests with a refusal.

        A file that this user may not read does not end a pipeline: another user left it, and the log says so.
        """
        try:
            names = self._io.list_names(self._directory)
        except PermissionError as error:
            self._warn_of_denied(self._directory, error)
            return []
        answered = {name.removesuffix(_ANSWER_SUFFIX) for name in names if name.endswith(_ANSWER_SUFFIX)}
        found: list[Request] = []
        for name in names:
            match = _REQUEST.fullmatch(name)
            if match is None or (match[1] in answered and self._is_answered(match[1])):
                continue
            request = self._read(match[1])
            if request is not None:
                found.append(request)
        return found

    def answer(self, request_id: str, answer: Answer) -> None:
        """Write the outcome of a request; a later answer replaces an earlier one."""
        try:
            self._io.write(self._answer_path(request_id), answer.to_bytes())
        except PermissionError as error:
            self._warn_of_denied(self._directory, error)

    def answer_to(self, request_id: str) -> Answer | None:
        """The state of a request; None if no process has taken it yet.

        Raises CorruptFile if the answer cannot be parsed, UnsupportedFeature if a newer version wrote it.
        """
        path = self._answer_path(request_id)
        try:
            data = self._io.read(path)
            check_format(data, path)
            return Answer.from_bytes(data)
        except FileNotFoundError:
            return None
        except NOT_AS_WRITTEN as error:
            raise CorruptFile(
                f"{path} is not an answer ({error!r}); find the result of the request in the log of the "
                "pipeline, then remove the file"
            ) from error

    def withdraw(self, request_id: str) -> None:
        """Withdraw a request; a process that has already taken it finishes it."""
        self._io.delete(self._path(request_id))

    def tidy(self) -> None:
        """Remove requests that were answered a day ago."""
        limit = _moment((self._now_ms() - KEPT_MS) * 1000)
        for name in self._io.list_names(self._directory):
            match = _REQUEST.fullmatch(name)
            if match is not None and match[1] < limit and self._is_answered(match[1]):
                self._io.delete(self._path(match[1]))
                self._io.delete(self._answer_path(match[1]))

    def _is_answered(self, request_id: str) -> bool:
        if request_id not in self._done:
            try:
                answer = self.answer_to(request_id)
            except (CorruptFile, UnsupportedFeature):
                return False
            if answer is not None and answer.state.is_final:
                self._done.add(request_id)
        return request_id in self._done

    def _read(self, request_id: str) -> Request | None:
        try:
            data = self._io.read(self._path(request_id))
            check_format(data, f"request {request_id}")
            document = json.loads(data)
            return Request(
                request_id,
                str(document["command"]),
                dict(document["arguments"]),
                int(document["left_at_ms"]),
                str(document["left_by"]),
            )
        except FileNotFoundError:  # withdrawn in the meantime
            return None
        except (PermissionError, IsADirectoryError) as error:
            self._warn_of_denied(self._path(request_id), error)
            return None
        except UnsupportedFeature as error:
            self.answer(request_id, Answer(State.REFUSED, str(error)))
            return None
        except NOT_AS_WRITTEN as error:
            self.answer(
                request_id, Answer(State.REFUSED, f"the file is not a request ({error!r}); run the command again")
            )
            return None

    def _warn_of_denied(self, path: str, error: OSError) -> None:
        """Once for each path."""
        if path not in self._denied:
            self._denied.add(path)
            log.warning(
                "cannot read requests in %s (%s): make the user of the pipeline its owner",
                path,
                error.strerror or error,
            )

    def _path(self, request_id: str) -> str:
        return f"{self._directory}/{request_id}.json"

    def _answer_path(self, request_id: str) -> str:
        return f"{self._directory}/{request_id}{_ANSWER_SUFFIX}"


def _moment(us: int) -> str:
    """An instant in microseconds since 1970 as text that sorts by time."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).strftime("%Y%m%dT%H%M%S%f")


def _me() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}, process {os.getpid()} on {socket.gethostname()}"


def digest_of_rules(config: PipelineConfig) -> str:
    """A digest of the rules by which records are read and written; processes with the same file have the same."""
    rules = (config.source.format, config.source.on_bad_record, config.defaults, config.tables, config.otherwise)
    masks = [mask_digests(rule.columns) for rule in config.tables]
    return hashlib.sha256(repr((rules, masks, config.quarantine, config.catalog.place)).encode()).hexdigest()


def check_rules(config: PipelineConfig, request: Request) -> None:
    """Refuse a request that was made under other rules."""
    if request.text(RULES) != digest_of_rules(config):
        raise ConfigError(
            f"the running pipeline {config.name} does not use the rules of the file: run `tidemark reload`, or "
            "restart it, then run this command again"
        )
