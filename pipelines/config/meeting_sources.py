"""Rules of a pipeline file that are sure to bring several source tables into one table, found before any event is seen.

Most rules leave it open: how many source tables a pattern matches shows only while the pipeline runs.
"""

from __future__ import annotations

from pipelines.config.config import PipelineConfig
from pipelines.config.table_match import PLAIN
from pipelines.config.table_rules import TableRule


def sources_that_meet(config: PipelineConfig) -> dict[int, int | str]:
    """Per rule that needs ``merge_sources`` and lacks it: the number of the rule that it meets, or what it matches."""
    found: dict[int, int | str] = {}
    for i, rule in enumerate(config.tables):
        if not rule.names_one_table or rule.mode == "append":
            continue
        met = [j for j in range(i) if config.tables[j].into == rule.into and _are_apart(config.tables[j], rule)]
        topics = _named_topics(config, rule)
        if met and None in (rule.merge_sources, config.tables[met[0]].merge_sources):
            found[i] = met[0]
        elif len(topics) > 1 and rule.merge_sources is None:
            found[i] = f"the topics {topics[0]} and {topics[1]} both go into it"
    return found


def _are_apart(one: TableRule, other: TableRule) -> bool:
    """Whether no source table is for both rules: they want different plain names in one place."""
    pairs = zip(one.match.by_name.values(), other.match.by_name.values(), strict=True)
    return any(not {*a} & {*b} and all(map(PLAIN.fullmatch, (*a, *b))) for a, b in pairs if a and b)


def _named_topics(config: PipelineConfig, rule: TableRule) -> list[str]:
    """The topics that the file names and that this rule takes; none where the rule looks at other names as well."""
    source = config.source.kafka or config.source.files
    names = source.topics.names if source is not None and source.topics is not None else ()
    match = rule.match
    if match.topic is None or match.database or match.schema_ or match.table or match.exclude:
        return []
    earlier = config.tables[: config.tables.index(rule)]
    return [n for n in names if match.takes_topic(n) and not any(r.match.takes_topic(n) for r in earlier)]
