"""More bad records in a batch of a table than its rule allows stop the table instead of filling the quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paimon_table.errors import Action, TidemarkError
from pipelines.batch.decode_task import DecodeReport
from pipelines.config.error_budget import ErrorBudget
from pipelines.tables.tables import PipelineTables

REASONS_TOLD = 3


class TooManyBadRecords(TidemarkError):
    """A table has more bad records in one batch than ``max_bad_records``; nothing of the batch went into it.

    ``table`` is its identifier, which may be that of a table that is not made yet.
    """

    action = Action.QUARANTINE
    is_public = True  # it names kinds of reasons, which hold no values

    def __init__(self, text: str, *, table: str = "") -> None:
        super().__init__(text)
        self.table = table


@dataclass(slots=True)
class _Share:
    """What became of the records of one table in one batch."""

    budget: ErrorBudget
    taken: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    first: tuple[str, int, int] | None = None
    """Topic, partition and offset of a bad record, the first one of its partition."""

    @property
    def bad(self) -> int:
        return self.reasons.total()

    @property
    def is_exceeded(self) -> bool:
        return self.budget.is_exceeded(self.bad, self.bad + self.taken)


def exceeded_budgets(
    batch_id: int, reports: Sequence[DecodeReport], tables: PipelineTables
) -> Mapping[str, TooManyBadRecords]:
    """By table the refusal of those with more bad records than their rules allow.

    A record that names no source table, because it cannot be read, counts for every table that its topic feeds.
    """
    shares: dict[str, _Share] = {}
    for report in reports:
        for (topic, source, reason), count in report.bad_kinds.items():
            for identifier, budget in tables.budgets(topic, source).items():
                share = shares.setdefault(identifier, _Share(budget))
                share.reasons[reason] += count
                share.first = share.first or (topic, *report.bad_places[topic, source])
    if not shares:
        return {}
    for report in reports:
        for fed_by, count in report.taken.items():
            target = tables.routes.get(fed_by)
            if target in shares:
                shares[target].taken += count
    where = "a slice of what it catches up" if tables.is_catch_up else f"batch {batch_id}"
    return {name: _refusal(where, name, share) for name, share in sorted(shares.items()) if share.is_exceeded}


def _refusal(where: str, identifier: str, share: _Share) -> TooManyBadRecords:
    kinds = share.reasons.most_common(REASONS_TOLD)
    told = [f"{count:,} {reason}" for reason, count in kinds]
    if len(kinds) < len(share.reasons):
        told.append(f"{share.bad - sum(count for _, count in kinds):,} for other reasons")
    place = "" if share.first is None else "topic {} partition {} offset {}".format(*share.first)
    return TooManyBadRecords(
        f"{identifier}: {where} has {share.bad:,} bad records among {share.bad + share.taken:,} of the table,"
        f" and max_bad_records allows {share.budget}: {'; '.join(told)}; the first is at {place}. Nothing of it"
        " went into the table or the quarantine: mend the records or the rule, or raise max_bad_records",
        table=identifier,
    )
