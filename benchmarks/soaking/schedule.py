"""When the soak does what to its pipeline: a pure function of the number of batches and the seed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from random import Random

from benchmarks.soaking.service import Victim


class Change(StrEnum):
    """What happens to source, file and tables on the way."""

    NEW_COLUMN = "a new column in orders"
    WIDER_TYPE = "larger numbers in orders"
    REFUSED_COLUMN = "a column that the rule of visits refuses"
    MENDED_RULE = "the rule of visits takes it: reload, resume"
    PAUSE = "pause profiles"
    RESUME = "resume profiles"
    NEW_TABLE = "a rule for returns: reload, backfill"


REMEDIES = (Change.MENDED_RULE, Change.RESUME, Change.NEW_TABLE)
"""Without them tables miss rows: they happen also where the load ends early."""

_PLACES = {
    Change.NEW_COLUMN: 0.10,
    Change.REFUSED_COLUMN: 0.15,
    Change.WIDER_TYPE: 0.20,
    Change.MENDED_RULE: 0.25,
    Change.PAUSE: 0.28,
    Change.RESUME: 0.33,
    Change.NEW_TABLE: 0.36,
}
_KILLS = (0.05, 0.5)
"""In which part of the run processes are killed: the rest is one long life, whose memory is judged."""
_BAD_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class Step:
    """Due when that many batches are closed; kills come ``after_s`` later, at any step of a batch."""

    batch: int
    what: Change | Victim
    after_s: float = 0.0


def schedule(batches: int, kills: int, random: Random) -> list[Step]:
    """All steps in the order of their batches."""
    steps = [Step(round(place * batches), change) for change, place in _PLACES.items()]
    for _, victim in zip(range(kills), cycle(Victim), strict=False):
        steps.append(Step(round(random.uniform(*_KILLS) * batches), victim, random.uniform(0.0, 1.0)))
    return sorted(steps, key=lambda step: step.batch)


def is_bad(random: Random) -> bool:
    """Whether a bad record goes along with the next change of a table."""
    return random.random() < _BAD_SHARE
