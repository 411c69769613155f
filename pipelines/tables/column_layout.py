"""The columns of a table whose rule renames, drops or computes some, under their names in source and table.

A column that the rule passes on is decoded with the type of the table's column. A column that only expressions need is
not in the table; the table stores its type in the option ``SOURCE_COLUMNS``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from paimon_table import SetOption, Table, TableSchema
from paimon_table.errors import ConfigError, SchemaChangeRefused, UnsupportedFeature
from paimon_table.nearest_name import misspelt_column, nearest
from paimon_table.schema.type_widening import common_type
from paimon_table.types import DataType, parse_type, sql, type_json
from pipelines.config.column_rules import first_of
from pipelines.config.own_columns import check_inputs, check_means_source
from pipelines.config.table_rules import TargetRule
from pipelines.tables.column_changes import widened
from pipelines.tables.earlier_rows import words_of
from pipelines.tables.observed_columns import Seen
from sources.column_forms import OPTION, ColumnForms
from sources.column_sources import OPTION as COLUMN_SOURCES
from sources.column_sources import ColumnSources
from sources.position_kinds import POSITION

SOURCE_COLUMNS = "tidemark.source-columns"
"""The table option: a JSON object of the columns that only expressions need, with their types."""

_FOR_EXPRESSIONS = "source column "
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that a rule makes. ``types`` are the known types of source columns, by their source names."""

    rule: TargetRule
    types: Mapping[str, DataType]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Columns of the source that the table cannot have under their names, with the reason."""
    joins_parts: bool = False
    """Whether another source table may have the columns that expressions need (``TargetRule.joins_parts``)."""

    @property
    def computed(self) -> dict[str, DataType]:
        """The types of computed columns by their table names, if their inputs are known.

        Raises ConfigError for an expression that does not fit the types.
        """
        rule = self.rule
        if not rule.columns.computed:
            return {}
        declared = rule.declared(rule.columns.computed)
        found: dict[str, DataType] = {}
        for name in rule.columns.computed:
            if not self.lacking(name):
                given = self.given(name)
                found[name] = declared.get(name, given).with_nullable(True)
        return found

    def given(self, name: str) -> DataType:
        """The type of a computed column, from its expression or mask."""
        from sources.expressions.computed import mask_type, typed

        masks = self.rule.columns.masks
        if name in masks:
            column, mask = masks[name]
            return mask_type(column, mask if isinstance(mask, str) else type(mask).__name__, self.types[column])
        text = self.rule.columns.expressions[name]
        return typed(self.place_of(name), text, self.types)

    def place_of(self, name: str) -> str:
        """The expression of a computed column in the file, for errors."""
        return f"rule into {self.rule.into}: columns: {name}: {self.rule.columns.expressions[name]}"

    @property
    def where_place(self) -> str:
        return f"rule into {self.rule.into}: where: {self.rule.where}"

    def lacking(self, name: str) -> tuple[str, ...]:
        """Names in the expression of a computed column that are not known columns."""
        masks = self.rule.columns.masks
        if name in masks:
            return () if masks[name][0] in self.types else (masks[name][0],)
        return self._lacking(self.rule.columns.expressions[name])

    def _lacking(self, text: str) -> tuple[str, ...]:
        from sources.expressions.computed import lacking

        return lacking(text, self.types)

    @property
    def unfed(self) -> dict[str, str]:
        """Names in expressions of columns that are not known columns, with the expression that uses them.

        A masked column without a value so far counts as known: it is added with its first value.
        """
        expressions = self.rule.columns.expressions
        return {
            missing: f"columns: {name}: {text}" for name, text in expressions.items() for missing in self._lacking(text)
        }

    @property
    def unfed_texts(self) -> dict[str, str]:
        """Per such name a text with the expression, the name and what may be meant."""
        return {
            name: f"{place}: no record of its sources so far has column {self._with_hint(name, place)}"
            for name, place in self.unfed.items()
        }

    def _with_hint(self, missing: str, place: str) -> str:
        close = nearest(missing, self.types)
        hint = f" (did you mean {close!r}?)" if close else ""
        if f'"{missing}"' in place:
            hint += f"; if it is a text, write it in single quotes: '{missing}'"
        return f"{missing!r}{hint}"

    @property
    def all_lacking(self) -> dict[str, str]:
        """Names without which no row can be made, with the expression that uses them."""
        found = {} if self.joins_parts else self.unfed
        if self.rule.where is not None:
            found |= dict.fromkeys(self._lacking(self.rule.where), f"where: {self.rule.where}")
        return found

    @property
    def mentioned(self) -> frozenset[str]:
        """The column names in expressions and masks, in lower case."""
        from sources.expressions.computed import named

        texts = [*self.rule.columns.expressions.values(), *([self.rule.where] if self.rule.where else [])]
        in_place = {name.lower() for name in (*self.rule.columns.mask, *self.rule.columns.replace)}
        return frozenset(in_place | {name.lower() for text in texts for name in named(text)})

    def needed(self) -> set[str]:
        """The known columns of the source that expressions and masks need."""
        from sources.expressions.computed import inputs

        texts = [*self.rule.columns.expressions.values(), *([self.rule.where] if self.rule.where else [])]
        masked = {column for column, _ in self.rule.columns.masks.values() if column in self.types}
        return masked | {column for text in texts for column in inputs(text, self.types)}

    @property
    def hidden(self) -> dict[str, DataType]:
        """The columns that expressions need and the table does not store."""
        stored_as = self.rule.columns.stored_as
        needed = self.needed()
        return {name: t for name, t in self.types.items() if name in needed and stored_as(name) is None}

    def key_inputs(self, primary_key: Iterable[str]) -> tuple[str, ...]:
        """The columns of the source that form the key of a row."""
        from sources.expressions.computed import inputs

        columns, found = self.rule.columns, dict[str, None]()
        for name in primary_key:
            source = columns.source_of(name)
            if source is not None:
                found[source] = None
            elif name in columns.masks:
                found[columns.masks[name][0]] = None
            else:
                found |= dict.fromkeys(inputs(columns.expressions[name], self.types))
        return tuple(found)

    def nullable_key_inputs(self, primary_key: Iterable[str]) -> frozenset[str]:
        """Those of them that are no column of the key themselves."""
        columns = self.rule.columns
        sources = {columns.source_of(name) for name in primary_key}
        masked = {columns.masks[name][0] for name in primary_key if name in columns.masks}
        return frozenset(self.key_inputs(primary_key)) - sources - masked

    def check_lacking(self, source: str, shown: Collection[str]) -> None:
        """Raise ConfigError for a name that no column of the source has; ``shown`` are the names that records have.

        Raises SchemaChangeRefused, a failure of one table, for a column that has only NULL so far.
        """
        from sources.expressions.expression import of_the_moment

        known = {*self.types, *shown}
        check_inputs(self.rule, source, self.hidden)
        for block in ("mask", "replace", "rename"):
            for name in getattr(self.rule.columns, block):
                meant = None if name in known else misspelt_column(name, known)
                if meant is not None:
                    raise ConfigError(
                        f"rule into {self.rule.into}: columns.{block}: records of {source} have no column {name!r}; did"
                        f" you mean {meant!r}? They have: {', '.join(sorted(known))}"
                    )
        stops = self.all_lacking
        for missing, place in {**self.unfed, **stops}.items():
            is_null = next((name for name in shown if name.lower() == missing.lower()), None)
            if is_null is not None:
                columns, where = self.rule.columns, f"rule into {self.rule.into}: {place}"
                named = is_null if columns.leaves_out(is_null) else columns.rename.get(is_null, is_null)
                if is_null in (*columns.replace, *columns.mask) and self.rule.declared([named]):
                    raise SchemaChangeRefused(
                        f"{where}: column {is_null!r} has only NULL so far, so the type of its values is unknown: "
                        "columns.types states the type of the result. Name the column under columns.drop instead, "
                        "compute the result under another name in columns.add, and declare both types"
                    ).without_values()
                raise only_null(where, is_null, f"{named}: STRING")
            if missing not in stops:
                continue
            if (moment := of_the_moment(missing)) is not None:
                raise ConfigError(f"rule into {self.rule.into}: {place}: {moment}")
            raise ConfigError(
                f"rule into {self.rule.into}: {place}: records of {source} have no column"
                f" {self._with_hint(missing, place)};"
                f" if the column will appear later, declare its type under columns.types. They have:"
                f" {', '.join(self.types) or 'none'}"
            )


def only_null(place: str, column: str, declared: str) -> SchemaChangeRefused:
    """The failure of a table whose rule needs a column without a type so far; ``declared`` is a remedy."""
    return SchemaChangeRefused(
        f"{place}: column {column!r} has only NULL so far, so its type is unknown: declare it under columns.types, "
        f"such as `{declared}`"
    ).without_values()


def layout_of(rule: TargetRule, schema: TableSchema, seen: Mapping[str, DataType | None] | None = None) -> Layout:
    """The columns of an existing table, with further ones that records show.

    Raises ConfigError if a column that expressions need has changed to a type that its old values do not fit.
    """
    columns, declared = rule.columns, declared_hidden(rule)
    hidden = {name: t for name, t in _remembered(schema).items() if columns.stored_as(name) is None} | declared
    types, own = dict(hidden), dict(rule.own_columns)
    for f in schema.fields:
        source = None if f.name in own else columns.source_of(f.name)
        is_of_others = rule.merge_sources is not None and source is not None and columns.leaves_out(source)
        if source is not None and not is_of_others:
            types[source] = f.type
    for name, t in (seen or {}).items():
        if t is None or name in declared:
            continue
        if name in hidden:
            types[name] = _wider(rule, name, hidden[name], t)
            continue
        stored = columns.stored_as(name)
        stated = t if stored is None else rule.declared([stored]).get(stored, t)
        types[name] = (widened(types[name], stated) or types[name]) if name in types else stated.with_nullable(True)
    types |= _types_of_nulls(rule, seen or {}, types)
    return Layout(rule, types, joins_parts=rule.joins_parts(schema.options))


def _types_of_nulls(
    rule: TargetRule, seen: Mapping[str, DataType | None], types: Mapping[str, DataType]
) -> dict[str, DataType]:
    """The declared types of columns of the source that have only NULL so far; ``types`` are those of other columns.

    For a replaced or masked column `columns.types` states the type of the result. That is the type of its values too if
    the expression is ``coalesce`` of the column and a constant, or if only the mask reads them. Otherwise their type
    stays unknown. To ask whether a value is NULL needs no type.
    """
    columns, found = rule.columns, dict[str, DataType]()
    for name in (name for name, t in seen.items() if t is None and name not in types):
        if name in columns.replace:
            is_of_values = _is_coalesce(columns.replace[name], name)
        else:
            is_of_values = name not in columns.mask or not _is_read(rule, name)
        stored = (
            columns.rename.get(name, name) if name in (*columns.replace, *columns.mask) else columns.stored_as(name)
        )
        declared = None if stored is None else rule.declared([stored]).get(stored)
        if is_of_values and declared is not None:
            found[name] = declared.with_nullable(True)
    return found


def _is_coalesce(text: str, name: str) -> bool:
    constant = r"'(?:[^']|'')*'|-?[\d.]+|true|false"
    column = f'{re.escape(name)}|"{re.escape(name)}"'
    return re.fullmatch(rf"\s*coalesce\(\s*(?:{column})\s*,\s*(?:{constant})\s*\)\s*", text, re.IGNORECASE) is not None


def _is_read(rule: TargetRule, name: str) -> bool:
    """Whether an expression reads values of a column, and not only whether they are NULL."""
    from sources.expressions.computed import named

    asks = re.compile(rf'(?:\b{re.escape(name)}|"{re.escape(name)}") IS (?:NOT )?NULL\b', re.IGNORECASE)
    texts = [*rule.columns.expressions.values(), *([] if rule.where is None else [rule.where])]
    return name.lower() in {read.lower() for text in texts for read in named(asks.sub("true", text))}


def _wider(rule: TargetRule, name: str, known: DataType, observed: DataType) -> DataType:
    wider = common_type(known, observed)
    if wider is None:
        raise ConfigError(
            f"rule into {rule.into}: column {name!r}, which its expressions need, was {sql(known)} and is now"
            f" {sql(observed)}: values would be lost between the two. Write into a new table (another `into`, with"
            " `backfill: true`)"
        )
    return wider


def first_layout(rule: TargetRule, seen: Mapping[str, DataType | None]) -> Layout:
    """The columns of a table that does not exist yet."""
    columns = rule.columns
    types = declared_hidden(rule)
    for name in rule.column_types:
        source = columns.source_of(name)
        if source is not None and columns.stored_as(source) is not None:
            types[source] = rule.column_types[name]
    for name, t in seen.items():
        stored = columns.stored_as(name)
        declared = rule.declared([stored]).get(stored) if stored is not None else types.get(name)
        if declared is not None or t is not None:
            types[name] = (declared or t or types[name]).with_nullable(True)
    types |= _types_of_nulls(rule, seen, types)
    refused = {name: why for name in seen if (why := columns.clash(name)) is not None}
    return Layout(rule, types, refused, rule.joins_parts(rule.options))


def first_stored(layout: Layout, seen: Seen, source: str) -> tuple[Seen, TargetRule]:
    """The content of a new table: the observed columns under their table names, and the rule with its stored facts."""
    rule, columns = layout.rule, layout.rule.columns
    for name, why in layout.refused.items():
        raise ConfigError(f"rule into {rule.into}: column {name!r} of {source}: {why}")
    layout.check_lacking(source, seen.columns)
    if seen.has_rows:
        check_means_source(rule, source, seen.columns)
    computed = layout.computed
    in_place = {origin: name for name, origin in columns.computed.items() if origin is not None}
    found: dict[str, DataType | None] = {}
    for name, t in seen.columns.items():
        stored = columns.stored_as(name)
        if stored is not None:
            found[stored] = t
        elif in_place.get(name) in computed:
            found[in_place[name]] = computed[in_place[name]]
    found |= {name: t for name, t in computed.items() if name not in found}
    names = {name: _stored_key(rule, name) for name in (*(seen.key_columns or ()), *seen.key_only)}
    key = None if seen.key_columns is None else tuple(names[name] for name in seen.key_columns)
    looks = stored_looks(rule, seen).looks
    options = dict(rule.options)
    forms = ColumnForms().learnt(by_form_key(rule, seen.forms), by_form_key(rule, layout.types))
    if forms.by_column:
        options[OPTION] = forms.text
    if layout.hidden:
        options[SOURCE_COLUMNS] = _text(layout.hidden)
    unseen = columns.mask.keys() - layout.types.keys()
    left_out = [name for name in seen.columns if name in unseen or first_of(columns.drop, name)]
    words = words_of([rule])
    if left_out or words:
        sources = ColumnSources.parsed(options.get(COLUMN_SOURCES)).with_made_by(words)
        options[COLUMN_SOURCES] = sources.with_left_out(left_out).text
    key_only = {names[name]: t for name, t in seen.key_only.items()}
    return Seen(found, key, {}, looks, key_only), replace(rule, options=options)


def _stored_key(rule: TargetRule, name: str) -> str:
    columns = rule.columns
    stored = columns.stored_as(name)
    in_place = next((target for target, origin in columns.computed.items() if origin == name), None)
    found = stored or in_place
    if found is None:
        if rule.primary_key is not None or rule.on_change is not None:
            return name
        raise ConfigError(
            f"rule into {rule.into}: column {name!r} of the message key is left out of the table. Keep it, or "
            "set primary_key to the columns that identify a row"
        )
    return found


def form_key(rule: TargetRule, name: str) -> str:
    """The name under which a table stores the form of a column of one of its sources.

    It is the table's column, which may have another name in each source. Columns that only expressions need share a
    name if their sources do, as they share a type.
    """
    is_own = name == POSITION or not rule.changes_rows
    stored = name if is_own else rule.columns.stored_as(name)
    return f"{_FOR_EXPRESSIONS}{name}" if stored is None else stored


def forms_of_source(rule: TargetRule, forms: ColumnForms, names: Iterable[str]) -> ColumnForms:
    """The forms of columns of a source, by their names there.

    If a rule starts or stops to hide a column of its only source, the form is still where it was.
    """
    given = [*names]
    found = forms.under({name: form_key(rule, name) for name in given})
    if rule.merge_sources is not None:
        return found
    elsewhere = forms.under({n: n for n in given} | {n: f"{_FOR_EXPRESSIONS}{n}" for n in given if forms.of(n) is None})
    return ColumnForms({**elsewhere.by_column, **found.by_column})


def by_form_key(rule: TargetRule, by_name: Mapping[str, _T]) -> dict[str, _T]:
    return {form_key(rule, name): value for name, value in by_name.items()}


def form_columns(schema: TableSchema, layout: Layout | None) -> dict[str, DataType]:
    """The types of all columns that may have a form, by ``form_key``."""
    hidden = _remembered(schema) | ({} if layout is None else layout.hidden)
    return {f.name: f.type for f in schema.fields} | {f"{_FOR_EXPRESSIONS}{name}": t for name, t in hidden.items()}


def stored_columns(layout: Layout, seen: Seen) -> dict[str, DataType | None]:
    """Observed columns of an existing table under their table names, with the computed ones."""
    columns = layout.rule.columns
    found: dict[str, DataType | None] = {}
    for name, t in seen.columns.items():
        stored = columns.stored_as(name)
        if stored is not None:
            found[stored] = t or layout.types.get(name)
    return found | layout.computed


def stored_looks(rule: TargetRule, seen: Seen) -> Seen:
    """The observations by the names of the table's columns, with the forms of values that the table stores
    unchanged."""
    stored = ((rule.columns.stored_as(name), look) for name, look in seen.looks.items())
    return replace(seen, looks={name: look for name, look in stored if name is not None})


def hidden_changes(layout: Layout, schema: TableSchema) -> list[SetOption]:
    """The option that stores the columns which only expressions need, if it changes."""
    known, hidden = _remembered(schema), layout.hidden
    told = {**known, **hidden}
    return [] if told == known else [SetOption(SOURCE_COLUMNS, _text(told))]


def sources_decoded(rule: TargetRule, table: Table) -> dict[str, DataType]:
    """The columns of the source that are decoded, with their types."""
    if not rule.changes_rows:
        own = dict(rule.own_columns)
        return {f.name: f.type for f in table.schema.fields if f.name not in own}
    layout = layout_of(rule, table.schema)
    stored, needed = rule.columns.stored_as, layout.needed()
    passed = {f.name for f in table.schema.fields}
    return {name: t for name, t in layout.types.items() if name in needed or stored(name) in passed}


def names_decoded(rule: TargetRule, table: Table) -> Collection[str]:
    return sources_decoded(rule, table).keys()


def declared_hidden(rule: TargetRule) -> dict[str, DataType]:
    """Declared types of columns that the table lacks."""
    return {name: t for name, t in rule.columns.named_types.items() if rule.columns.leaves_out(name)}


def _remembered(schema: TableSchema) -> dict[str, DataType]:
    try:
        found = json.loads(schema.options.get(SOURCE_COLUMNS) or "{}")
        return {str(name): parse_type(t) for name, t in found.items()}
    except (ValueError, AttributeError, TypeError, KeyError, ConfigError, UnsupportedFeature):
        return {}


def _text(types: Mapping[str, DataType]) -> str:

    return json.dumps({name: type_json(t) for name, t in types.items()}, ensure_ascii=False, separators=(",", ":"))
