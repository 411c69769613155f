"""Where the process that runs a pipeline does slices of replays: one for each request, between two batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from paimon_table import Table, TableName
from paimon_table.errors import ConfigError
from pipelines.catchup.table_standings import missing_commits
from pipelines.checkpoint.book import Book
from pipelines.checkpoint.checkpoint import Checkpoint
from pipelines.checkpoint.replay_state import Replays, ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.control.request_desk import Tell
from pipelines.control.requests import Answer, Request, State
from pipelines.control.same_rules import check_rules
from pipelines.jobs.job_progress import new_job
from pipelines.replay.rebuild_requests import give_up
from pipelines.replay.rebuilding import Rebuilding
from pipelines.replay.replay_job import Destination, InPlace, Progress, ReplayJob, Step, Work
from pipelines.tables.known_routes import led_to
from pipelines.tables.merged_sources import told
from pipelines.tables.own_tables import OwnTables
from sources.wording import counted

COMMAND = "replay-slice"
GIVE_UP = "replay-give-up"


def giving_up(checkpoint: Checkpoint, own: OwnTables) -> Callable[[Request, Tell], Answer]:
    """Takes requests to give rebuilds up; called while no slice and no switch is under way that needs what is built."""

    def handle(request: Request, _tell: Tell) -> Answer:
        replays = Replays(checkpoint)
        state = replays.get(request.text("replay"))
        give_up(replays, state, own.catalog.load(TableName.of(state.table)))
        return Answer(State.DONE, f"rebuild {state.id} of {state.table}: given up")

    return handle


class ReplaySlices:
    """Does the next slice of a replay, for a request or for a command that holds the checkpoint."""

    def __init__(
        self,
        config: PipelineConfig,
        checkpoint: Checkpoint,
        own: OwnTables,
        work: Callable[[ReplayState], Work],
        commit_user: str,
    ) -> None:
        """``commit_user`` is that of the stream."""
        self._config = config
        self._checkpoint = checkpoint
        self._replays = Replays(checkpoint)
        self._own = own
        self._work = work
        self._commit_user = commit_user
        self._jobs: dict[str, ReplayJob] = {}

    def handle(self, request: Request, _tell: Tell) -> Answer:
        """Take a request; called while no batch runs and nothing of the last one is left to do."""
        check_rules(self._config, request)
        progress = self.do(request.text("replay"))
        left = "" if progress.records_left is None else f", about {progress.records_left:,} to go"
        text = f"replay {request.text('replay')}: {progress.record_count:,} records read{left}"
        return Answer(State.DONE, text, asdict(progress))

    def do(self, id_: str) -> Progress:
        """Do one slice."""
        state = self._replays.get(id_)
        table = self._own.catalog.load(TableName.of(state.table))
        check_in_stream(self._config, self._checkpoint, state.table, table)
        job = self._jobs.get(id_)
        if job is None or job.state != state:
            work = self._work(state)
            job = ReplayJob(self._replays, state, work, self._destination(state, work))
        self._jobs[id_] = job
        progress = job.step()
        if progress.step is Step.DONE:
            del self._jobs[id_]
        return progress

    def _destination(self, state: ReplayState, work: Work) -> Destination:
        if state.rebuild is None:
            return InPlace(self._config, self._own)
        ids = Book(self._checkpoint).topic_ids
        return Rebuilding(self._config, self._own, work, self._commit_user, new_job, topic_ids=ids)


def check_in_stream(config: PipelineConfig, checkpoint: Checkpoint, identifier: str, table: Table) -> None:
    """Refuse a table that is behind its stream: it reads again what it misses by itself.

    That would come on top of what a rebuild has read of it.
    """
    entry = Book(checkpoint).entry(identifier)
    if entry.pause is not None and not entry.pause.has_rule:
        raise ConfigError(
            f"table {identifier} lacks what the stream has read while no rule wrote it: start the pipeline with a rule"
            " for it, which catches it up, then replay"
        )
    if entry.pause is not None:
        raise ConfigError(
            f"table {identifier} is behind the stream ({entry.pause.reason}): resume it first, then replay"
        )
    back = [one.source for one in entry.ruleless if led_to(config, one.source)]
    if back:
        raise ConfigError(
            f"table {identifier} lacks records of {told(back[0])}, whose rule was away: start the pipeline, which reads"
            " them, then replay"
        )
    missing = missing_commits(config, entry, table)
    if missing:
        raise ConfigError(
            f"table {identifier} lacks the last {counted(missing, 'commit')} of the pipeline that its checkpoint has"
            " (was it restored from a backup, or rolled back?): restart the pipeline, which reads it again from"
            " where it stands, then replay"
        )
