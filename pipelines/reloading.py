"""Changed pipeline files in a running process: SIGHUP reloads all files, a request (``tidemark reload``) one file.

The main thread reads files and changes pipelines; requests arrive on the threads of their pipelines.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.config.config_file import check_together, load_pipeline, load_pipelines
from pipelines.control.request_desk import Handler
from pipelines.control.request_desk import Tell as TellAnswer
from pipelines.control.requests import Answer, Request, State
from pipelines.supervised import SupervisedPipeline, Tell

log = logging.getLogger(__name__)

COMMAND = "reload"


class Reloading:
    """``files`` are the files that the pipelines ``names`` were started from, in the same order."""

    def __init__(self, files: Sequence[Path], names: Sequence[str], once: bool) -> None:
        self._files = [file.resolve() for file in files]
        self._names = names
        self._once = once
        self._taken: set[str] = set()
        self._asked: queue.SimpleQueue[tuple[str | None, Tell]] = queue.SimpleQueue()

    def ask_all(self) -> None:
        """Request a reload of all files; safe in a signal handler."""
        self._asked.put((None, _log_answer))

    def handlers(self, name: str) -> Mapping[str, Handler]:
        """The handler of the pipeline ``name`` for requests to reload its file."""
        return {COMMAND: partial(self._request, name)}

    def work(self, runs: Sequence[SupervisedPipeline]) -> None:
        """Handle a request. A problem is reported and leaves all pipelines unchanged."""
        while not self._asked.empty():
            name, tell = self._asked.get()
            try:
                self._check()
                for run, config in self._read(runs, name):
                    _reload(run, config, tell)
            except ConfigError as error:
                tell(False, f"the pipelines continue unchanged: {error}")

    def _read(
        self, runs: Sequence[SupervisedPipeline], name: str | None
    ) -> list[tuple[SupervisedPipeline, PipelineConfig]]:
        """The pipelines to change, with their present files. Mistakes in the files of other pipelines do not matter."""
        if name is None:
            return list(zip(runs, load_pipelines(self._files), strict=True))
        configs = [run.config for run in runs]
        at = [config.name for config in configs].index(name)
        configs[at] = load_pipeline(self._files[at])
        check_together(self._files, configs)
        return [(runs[at], configs[at])]

    def _check(self) -> None:
        if self._once or not self._files:
            raise ConfigError("this run accepts no changed files, because it ends by itself")

    def _request(self, name: str, request: Request, answer: TellAnswer) -> Answer | None:
        asked, own = request.text("file"), dict(zip(self._names, self._files, strict=True)).get(name)
        if asked and own is not None and asked != str(own):
            raise ConfigError(f"pipeline {name} was started from {own}, not from {asked}: change that file")

        if request.id in self._taken:  # the query that runs the changed file finds the request again
            return None
        self._taken.add(request.id)
        answer(Answer(State.WORKING, "the pipeline applies the file after the running batch"))

        def tell(is_taken: bool, text: str) -> None:
            answer(Answer(State.DONE if is_taken else State.REFUSED, text))

        self._asked.put((name, tell))
        return None


def _reload(run: SupervisedPipeline, config: PipelineConfig, tell: Tell) -> None:
    try:
        run.reload(config, tell)
    except ConfigError as error:
        name = run.config.name
        log.warning("%s: %s", name, error, extra={"event": "reload-refused", "pipeline": name})
        if tell is not _log_answer:
            tell(False, str(error))


def _log_answer(is_taken: bool, text: str) -> None:
    if not is_taken:
        log.warning("%s", text, extra={"event": "reload-refused"})
