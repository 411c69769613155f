"""What a replay has done to the records of the quarantine, told once it is done."""

from __future__ import annotations

from paimon_table import TableName
from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.facts import evidence_of
from pipelines.bad_records.log import Applied, Switched, replay_owner
from pipelines.checkpoint.replay_state import ReplayState
from pipelines.config.config import PipelineConfig
from pipelines.storage import catalog_of


def note_end(config: PipelineConfig, state: ReplayState) -> int:
    """Let what a rebuild has met count, now that the table has its content; gives how many records left the quarantine.

    Those of a replay into place have left it slice by slice. Idempotent.
    """
    letters = DeadLetters(config)
    letters.log.refresh()
    if state.rebuild is None:
        entries = [e for e in letters.log.entries.values() if isinstance(e, Applied)]
        of_replay = [entry for entry in entries if entry.by.startswith(f"{replay_owner(state.id)}/")]
        return sum(len(stretch.offsets) for entry in of_replay for stretch in entry.places)
    before = {*letters.facts().places()}
    noted = any(isinstance(e, Switched) and e.rebuild == state.id for e in letters.log.entries.values())
    switch, table = state.rebuild.switch, catalog_of(config).find(TableName.of(state.table))
    if not noted and switch is not None and table is not None:
        snapshot = table.snapshots.newest_of_user(switch.user)
        if snapshot is not None:
            letters.log.append(Switched(rebuild=state.id, evidence=evidence_of(state.table, table, snapshot)))
    return len(before - {*letters.facts().places()})
