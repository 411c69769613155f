"""Checks expressions, masks and filters of the rules, with their types, before any record is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paimon_table.types import DataType, sql
from pipelines.config.column_rules import KeyedHash, pattern_of
from pipelines.config.config import PipelineConfig
from pipelines.config.config_errors import problem_at
from pipelines.config.row_rules import row_problems
from pipelines.config.table_rules import TableRule, TargetRule
from pipelines.config.yaml_file import KeyPath, Problem, YamlFile
from sources.expressions.rule_words import METADATA


def expression_problems(config: PipelineConfig, file: YamlFile) -> Iterator[Problem]:
    """All faults in the rules about rows."""
    for i, rule in enumerate(config.tables):
        target = config.target_rule(rule)
        if not target.changes_rows:
            continue
        at: KeyPath = ("tables", i)
        wrong = {path: text for path, text in _wrong_expressions(rule) if text is not None}
        right = {path: text for path, text in _expressions(rule) if path not in wrong}
        wrong |= {**dict(_clashing_names(rule, right)), **dict(_untold_metadata(config, right))}
        for path, text in wrong.items():
            yield problem_at(file, (*at, *path), text)
        yield from _open_secrets(rule, file, at)
        if not wrong:
            yield from _wrong_rows(target, file, at)


def _wrong_expressions(rule: TableRule) -> Iterator[tuple[KeyPath, str | None]]:
    from sources.expressions.computed import problem_of

    types = declared_types(rule)
    for path, text in _expressions(rule):
        yield path, problem_of(text, columns=types, is_condition=path == ("where",))


def _expressions(rule: TableRule) -> Iterator[tuple[KeyPath, str]]:
    for block, texts in (("add", rule.columns.add), ("replace", rule.columns.replace)):
        for name, text in texts.items():
            yield ("columns", block, name), text
    if rule.where is not None:
        yield ("where",), rule.where


def _untold_metadata(config: PipelineConfig, texts: Mapping[KeyPath, str]) -> Iterator[tuple[KeyPath, str]]:
    """Expressions over metadata that would be NULL for every record of the format."""
    from sources.expressions.computed import metadata_of

    form = config.source.format
    for path, text in texts.items() if form.traits.untold else ():
        untold = [name for name in metadata_of(text) if name in form.traits.untold]
        if untold:
            told = ", ".join(f"${name}" for name in METADATA if name not in form.traits.untold)
            yield path, f"records of the format {form.name} do not have ${untold[0]}; they have {told}"


def _clashing_names(rule: TableRule, texts: Mapping[KeyPath, str]) -> Iterator[tuple[KeyPath, str]]:
    """Expressions over columns that cannot keep their names in the table."""
    from sources.expressions.computed import named

    for path, text in texts.items() if rule.columns.add or rule.columns.rename else ():
        for name in named(text):
            why = rule.columns.clash(name)
            if why is not None:
                yield path, f"expressions use names of the source. If it has a column {name!r} too: {why}"


def _open_secrets(rule: TableRule, file: YamlFile, at: KeyPath) -> Iterator[Problem]:
    """Keys of masks that the file contains in plain text."""
    for name, mask in rule.columns.mask.items():
        path = (*at, "columns", "mask", name, "key")
        if isinstance(mask, KeyedHash) and path in file.places and path not in file.environment:
            text = "the file contains the key, so everyone who can read the file can undo the mask: write `${env:NAME}`"
            yield Problem(file.place(path, of_key=True), text)


def _wrong_rows(rule: TargetRule, file: YamlFile, at: KeyPath) -> Iterator[Problem]:
    key = rule.primary_key or ("",) if rule.on_change is None else ()
    for path, text in row_problems(rule, key, rule.options if rule.on_change is None else {}):
        yield problem_at(file, (*at, *path), text)


def declared_types(rule: TableRule) -> Mapping[str, DataType]:
    """The columns of the source whose types the file states."""
    columns = rule.columns
    found: dict[str, DataType] = {}
    for name, t in columns.types.items():
        source = name if columns.leaves_out(name) else columns.source_of(name)
        if pattern_of(name) is None and source is not None:
            found[source] = t
    return found


def computed_lines(rule: TableRule) -> Iterator[str]:
    """Name, type and expression of each computed column, with a remark if only the records show the type."""
    if not rule.columns.computed and rule.where is None:
        return
    from sources.expressions.computed import lacking, mask_type, typed  # a file without expressions needs no engine

    types = declared_types(rule)
    for name, text in rule.columns.expressions.items():
        stated = rule.columns.named_types.get(name)
        waits = lacking(text, types)
        if stated is not None:
            told = sql(stated)
        elif waits:
            is_stated = any(rule.columns.rename.get(name, name) in rule.columns.named_types for name in waits)
            remedy = "" if is_stated else f", or once {', '.join(waits)} is declared under columns.types"
            told = f"(type known after the first records{remedy})"
        else:
            told = sql(typed(name, text, types))
        yield f"{name} {told} = {text}"
    for name, (column, mask) in rule.columns.masks.items():
        word = (
            mask if isinstance(mask, str) else "hash" if isinstance(mask, KeyedHash) else f"show_last {mask.show_last}"
        )
        t = rule.columns.named_types.get(name)
        of_mask = "STRING" if word != "redact" else "" if t is None else sql(mask_type(column, word, t))
        yield " ".join(part for part in (name, of_mask, "=", "mask", word) if part)
    if rule.where is not None:
        yield f"only rows where {rule.where}"
