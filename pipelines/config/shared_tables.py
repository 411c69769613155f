"""Rules that meet in one table, found before anything is read.

Rules of several pipeline files may route the same topic to it: the check of ``pipelines.tables.repeated_reads``, as far
as files show it. Rules of one file may route several source tables to it; a pattern usually does not show how many it
matches. A run checks the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paimon_table.options.names import BUCKET
from pipelines.config.config import PipelineConfig
from pipelines.config.table_match import PLAIN, Match
from pipelines.config.table_rules import TableRule, TargetRule
from sources.topics import TopicSelection, any_matches, name_matches

_ONE_JOB = (
    "its buckets are dynamic and allow one writer: when two pipelines commit at the same time, Tidemark refuses "
    "one batch and plans it again. A pipeline that always loses ends"
)


@dataclass(frozen=True, slots=True)
class SharedTable:
    """The numbers of a rule in each of two pipelines that name one table, and the effect on this table."""

    rule: int
    other: int
    text: str
    is_refused: bool
    remedy: str = "give one of them another `into`, other topics, or other tables to match"


def tables_shared(config: PipelineConfig, other: PipelineConfig) -> Iterator[SharedTable]:
    """The rules of ``config`` that write records into a table which a rule of ``other`` writes too."""
    if config.catalog.place != other.catalog.place:
        return
    for i, mine in enumerate(config.tables):
        for j, theirs in enumerate(other.tables):
            if mine.into != theirs.into:
                continue
            rules = config.target_rule(mine), other.target_rule(theirs)
            if mine.names_one_table and any(map(_places_keys, rules)):
                yield SharedTable(i, j, _ONE_JOB, False, "let one pipeline write it, or use a fixed number of buckets")
            if not _meet(mine.match, theirs.match):
                continue
            topic = _shared_topic(config, mine, other, theirs)
            if topic is None:
                continue
            if any(c.source.start_offsets is not None for c in (config, other)):
                continue  # the other one's position, at which this one continues, is known only when both run
            # Loads Arrow, which few files need.
            from pipelines.config.repeated_records import as_known, counted_again, replaces_newer

            known = [*map(as_known, rules)]
            counted = next((text for one in known if (text := counted_again(*one)) is not None), None)
            where = [replaces_newer(*one) for one in known]
            if counted is not None:
                is_sure = mine.match == theirs.match and _is_same_kind(config, other)
                is_sure = is_sure and not any(c.source.skips_records for c in (config, other))
                yield SharedTable(i, j, f"{topic}, and {counted}", is_sure)
            elif None not in where:
                text = f"older rows replace newer ones{where[0]} while one of them lags"
                yield SharedTable(i, j, f"{topic}: {text}", False)
            break


def _meet(mine: Match, theirs: Match) -> bool:
    """Whether a source table may be for both."""
    pairs = zip(mine.by_name.values(), theirs.by_name.values(), strict=True)
    return all(any(_may_be_same(a, b) for a in one for b in other) for one, other in pairs if one and other)


def _may_be_same(a: str, b: str) -> bool:
    """Whether a name may match both patterns; where both are more than names, that stays open."""
    if PLAIN.fullmatch(a):
        return name_matches(b, a)
    return name_matches(a, b) if PLAIN.fullmatch(b) else True


def _shared_topic(config: PipelineConfig, mine: TableRule, other: PipelineConfig, theirs: TableRule) -> str | None:
    """Words for the records that both rules certainly get, or may get if only one pipeline reads dumps; else None."""
    own, its = _choice(config), _choice(other)
    if own is None or its is None or (_is_same_kind(config, other) and not _is_same_place(config, other)):
        return None
    bring = "bring" if _is_same_kind(config, other) else "may bring"
    rules = (mine, theirs)
    said = (*_said_names(own), *_said_names(its))
    both = [t for t in said if own.selects(t) and its.selects(t) and all(rule.match.takes_topic(t) for rule in rules)]
    named = next((topic for topic in both if all(_is_told_by(rule, topic) for rule in rules)), None)
    if named is None and len({*both}) == 1:
        named = both[0]
    if named is not None:
        return f"both {bring} topic {named} into it"
    if both:
        return f"both {bring} the same records into it"
    return f"both {bring} the same topics into it" if _is_same_choice(own, its) else None


def _choice(config: PipelineConfig) -> TopicSelection | None:
    source = config.source.kafka or config.source.files
    return None if source is None else source.topics.selection


def _is_same_kind(config: PipelineConfig, other: PipelineConfig) -> bool:
    return (config.source.kafka is None) == (other.source.kafka is None)


def _is_same_place(config: PipelineConfig, other: PipelineConfig) -> bool:
    own, its = config.source, other.source
    if own.kafka is not None and its.kafka is not None:
        return own.kafka.bootstrap_servers == its.kafka.bootstrap_servers
    return own.files is not None and its.files is not None and own.files.path == its.files.path


def _said_names(choice: TopicSelection) -> tuple[str, ...]:
    """The names that are given, and the patterns that match only one name."""
    plain = (pattern.replace("\\.", ".") for pattern in choice.include)
    return (*choice.names, *filter(PLAIN.fullmatch, plain))


def _is_same_choice(own: TopicSelection, its: TopicSelection) -> bool:
    return own == its and not own.names


def _is_told_by(rule: TableRule, topic: str) -> bool:
    """Whether the name of a topic shows that its source table is for a rule."""
    parts = topic.split(".")
    return rule.match.table is None or any_matches(rule.match.table, parts[-1])


def _places_keys(rule: TargetRule) -> bool:
    """Whether a writer has to know where the keys of all others are."""
    return rule.on_change is None and rule.options.get(BUCKET, "").strip() == "-1"


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
