"""The rules that made the rows of a table: a changed mask, filter or expression applies only to later rows.

The table remembers the rules in the option ``tidemark.column-sources``, so Tidemark reports each change once. The
option has digests of expressions, because expressions may hold secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from paimon_table import SetOption, Table, write_traits
from paimon_table.errors import ConfigError
from pipelines.config.column_rules import ColumnMask, KeyedHash
from pipelines.config.table_rules import TargetRule
from pipelines.tables.rule_plan import RulePlan
from sinks.commit.positions import newest_position
from sources.column_sources import OPTION, ColumnSources

Words = Mapping[str, tuple[str, ...]]
"""Per column of the table the digests of its rules, each once; the filter has no name."""

_FILTER = ""


def words_of(rules: Iterable[TargetRule]) -> Words:
    """The rules of a table about its rows."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        texts = {**rule.columns.expressions, **({} if rule.where is None else {_FILTER: rule.where})}
        words = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
        for name, word in (words | {name: _word(mask) for name, (_, mask) in rule.columns.masks.items()}).items():
            found.setdefault(name, set()).add(word)
    return {name: tuple(sorted(words)) for name, words in sorted(found.items())}


def plan_words(rules: Sequence[TargetRule], plan: RulePlan) -> None:
    """Plan the digests of the rules of a table from now on; warns of stored rows that they would change.

    ``rules`` are all rules that may write the table; the one that writes it now is first. Raises ConfigError if a
    changed rule determines the keys of stored rows.
    """
    table, identifier = plan.table, plan.identifier
    sources = ColumnSources.parsed(table.schema.options.get(OPTION))
    known, wanted = sources.made_by, words_of(rules)
    if known == wanted:
        return
    replaced = [name for name, words in known.items() if not {*words} <= {*wanted.get(name, ())}]
    begun = [name for name in wanted if name not in known and all(name in words_of([rule]) for rule in rules)]
    _check_key(replaced, begun, plan)
    rebuild = f"`tidemark replay FILE --table {identifier} --rebuild`"
    open_columns = sorted({*_open(rules[0], table, known)})
    if open_columns:
        plan.warn(
            f"table {identifier}: columns.mask hides column {', '.join(open_columns)} from now on. Existing rows"
            " keep their values. To mask them too, rebuild the table from its topics"
            f" ({rebuild}). Older snapshots, tags and branches show them"
            " until they expire or are deleted"
        )
    traits = write_traits(table.context)
    if _FILTER in (*replaced, *begun):
        effect = (
            "Tidemark also judges the old row of each change by the new condition. So existing rows that do not match"
            " it stay, even if the source deletes them, and aggregates of rows that only now match are wrong"
            if traits.wants_update_before
            else "The new condition applies to each row when it next changes"
        )
        plan.warn(
            f"table {identifier}: `where` has changed. {effect}. To apply it to all rows, rebuild the"
            f" table from its topics ({rebuild})"
        )
    mixed = [name for name in traits.accumulating if name in (*replaced, *begun)]
    if mixed:
        plan.warn(
            f"table {identifier}: the rule computes {', '.join(mixed)} in another way from now on. If an existing row"
            " changes, the new expression also takes back its old value, so the aggregate is wrong. Rebuild the table"
            f" from its topics ({rebuild})"
        )
    order = [name for name in table.context.options.sequence_fields if name in (*replaced, *begun)]
    if order:
        plan.warn(
            f"table {identifier}: the rule computes {', '.join(order)} of `sequence.field` in another way from now on."
            " Existing rows keep their old order, so they may win over newer records. To"
            f" give all rows the new order, rebuild the table from its topics ({rebuild})"
        )
    plan.add([SetOption(OPTION, sources.with_made_by(wanted).text)])


def _check_key(replaced: Collection[str], begun: Collection[str], plan: RulePlan) -> None:
    """Raise ConfigError for another mask or expression of a key column: the table would keep both old and new rows.

    The same holds for rows from before a mask or an expression ``begun``.
    """
    keys = plan.table.schema.primary_keys
    name = next((name for name in replaced if name in keys), None)
    if name is None:
        name = next((name for name in begun if name in keys), None)
        if name is None or newest_position(plan.table.snapshots, plan.pipeline) is None:
            return
    raise ConfigError(
        f"table {plan.identifier} exists, and the rule computes {name} of its primary key differently from its"
        " existing rows, which would stay as duplicates. Undo the change in the rule, or write into a new table"
        " (another `into`, with `backfill: true`)"
    )


def _open(rule: TargetRule, table: Table, known: Words) -> Iterable[str]:
    """Columns whose older rows were written without the mask of today; also under their source names."""
    for stored, (source, mask) in rule.columns.masks.items():
        if _word(mask) not in known.get(stored, ()):
            yield from (name for name in dict.fromkeys((stored, source)) if table.schema.has_column(name))


def _word(mask: ColumnMask) -> str:
    if isinstance(mask, str):
        return mask
    return "hash" if isinstance(mask, KeyedHash) else f"show_last {mask.show_last}"
