"""One SQL expression over the columns of a row: its allowed content, the columns that it needs, and its type.

Tidemark resolves names of columns itself, because the engine ignores case. A name means the column with exactly this
name, or else the only one that differs just in case. The engine gets neutral names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from paimon_table.nearest_name import nearest
from paimon_table.types import BINARIES, CHARACTERS, MAX_LENGTH, DataType, Root, arrow_type, sql
from sources.expressions import engine, paimon_functions
from sources.expressions.result_types import NoType, data_type, duck_type, quoted
from sources.expressions.rule_words import METADATA


class BadExpression(ValueError):
    """An expression that cannot be used; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression with a valid form; ``columns`` are the names in it, as written."""

    text: str
    columns: tuple[str, ...]
    metadata: tuple[str, ...]
    """Names of metadata, without the dollar."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression over columns of a source."""

    text: str
    sql: str
    """With the neutral names of ``column_name`` and ``metadata_name``."""
    inputs: tuple[str, ...]
    """The columns that it needs."""
    metadata: tuple[str, ...]
    cuts: tuple[bool, ...] = ()
    """Whether each ``truncate`` cuts a text: for a number it has another meaning."""


def column_name(column: str) -> str:
    """The neutral name of a column: two that differ in case are two for the engine."""
    return "column " + column.encode().hex()


def metadata_name(name: str) -> str:
    return "metadata " + name


_FORBIDDEN = {
    "SUBQUERY": "subqueries are not allowed here: an expression sees one row",
    "WINDOW": "window functions are not allowed here: an expression sees one row",
    "STAR": "`*` and COLUMNS are not allowed here: name one column",
    "DEFAULT": "DEFAULT is not allowed here",
    "POSITIONAL_REFERENCE": "positions of columns are not allowed here: name the column",
}
_OF_THE_MOMENT = frozenset(
    (
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_time",
        "current_timestamp",
        "get_current_time",
        "get_current_timestamp",
        "localtime",
        "localtimestamp",
        "now",
        "today",
        "transaction_timestamp",
    )
)
_MOMENT = "gives a different value each time Tidemark reads a record: use $ingested_at, or $source_time"
_ELSEWHERE = {
    "from_unixtime": "to_timestamp(c)",
    "nvl": "coalesce",
    "to_date": "CAST(c AS DATE)",
    "get_json_object": "c ->> '$.field'",
    "sha2": "sha256",
}
"""Functions of other engines, each with its equivalent in this engine."""
_CLAUSES = (
    ("from_table", "FROM"),
    ("where_clause", "WHERE"),
    ("group_expressions", "GROUP BY"),
    ("having", "HAVING"),
    ("qualify", "QUALIFY"),
    ("sample", "SAMPLE"),
    ("modifiers", "ORDER BY or LIMIT"),
)


@contextmanager
def _refusing(columns: Sequence[str] = ()) -> Iterator[None]:
    """Turns errors of the engine into a BadExpression with the names that the user knows."""
    try:
        yield
    except engine.EngineError as error:
        raise BadExpression(plain(error, columns)) from error
    except (NoType, paimon_functions.Unusable) as error:
        raise BadExpression(str(error)) from error
    except RecursionError as error:
        raise BadExpression("it is nested too deeply: write it as several columns") from error


@cache
def parsed(text: str) -> Expression:
    """Parse an expression. Raises BadExpression if the text is not one, or needs more than one row."""
    with _refusing():
        return _parsed(text)


def _parsed(text: str) -> Expression:
    root = _expression_of(_tree(text))
    columns: dict[str, None] = {}
    metadata: dict[str, None] = {}
    for node, local in _nodes(root, frozenset()):
        kind = node.get("class")
        if kind in _FORBIDDEN:
            raise BadExpression(_FORBIDDEN[kind])
        if kind == "FUNCTION":
            _check_function(node)
        elif kind == "PARAMETER":
            metadata[_metadata_of(node)] = None
        elif kind == "COLUMN_REF" and node["column_names"][0].lower() not in local:
            columns[node["column_names"][0]] = None
    return Expression(text, tuple(columns), tuple(metadata))


def resolved(name: str, columns: Collection[str]) -> str | None:
    """The column of a name; None if there is none. Raises BadExpression if several could be meant."""
    if name in columns:
        return name
    alike = [column for column in columns if column.lower() == name.lower()]
    if len(alike) > 1:
        raise BadExpression(f"{name!r} may mean {' or '.join(map(repr, alike))}: write the name as one of them")
    return alike[0] if alike else None


def missing_columns(expression: Expression, columns: Collection[str]) -> tuple[str, ...]:
    """The names that are not columns."""
    return tuple(name for name in expression.columns if resolved(name, columns) is None)


def of_the_moment(name: str) -> str | None:
    """The remedy for a name that is not a column but the time of reading; None for other names."""
    return f"{name} {_MOMENT}" if name.lower() in _OF_THE_MOMENT else None


def unknown_column(name: str, columns: Collection[str]) -> str:
    """The message for a name that is not a column."""
    if (moment := of_the_moment(name)) is not None:
        return moment
    close = nearest(name, columns)
    hint = f"; did you mean {close!r}?" if close else ""
    return f"there is no column {name!r}{hint} The source has: {', '.join(columns) or 'none'}"


def bound(expression: Expression, columns: Mapping[str, DataType]) -> Bound:
    """The expression over ``columns``. Raises BadExpression for a name that matches no column."""
    actual: dict[str, str] = {}
    for name in expression.columns:
        column = resolved(name, columns)
        if column is None:
            raise BadExpression(unknown_column(name, columns))
        actual[name] = column
    inputs = tuple(dict.fromkeys(actual.values()))
    with _refusing(inputs):
        sql_, cuts = _bound_sql(expression, actual, columns, inputs)
        return Bound(expression.text, sql_, inputs, expression.metadata, cuts)


def _bound_sql(
    expression: Expression, actual: Mapping[str, str], columns: Mapping[str, DataType], inputs: Sequence[str]
) -> tuple[str, tuple[bool, ...]]:
    """The expression with neutral names, ``actual`` columns for its own names; and ``Bound.cuts``."""
    tree = copy.deepcopy(_tree(expression.text))
    for node, local in _nodes(_expression_of(tree), frozenset()):
        if node.get("class") == "PARAMETER":
            name = metadata_name(_metadata_of(node))
            del node["identifier"]
            node.update({"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [name]})
        elif node.get("class") == "COLUMN_REF" and node["column_names"][0].lower() not in local:
            node["column_names"][0] = column_name(actual[node["column_names"][0]])
    cuts = _replace_functions(tree, rows_schema({name: columns[name] for name in inputs}))
    return engine.text_of(tree), cuts


def _replace_functions(tree: Mapping[str, Any], schema: pa.Schema) -> tuple[bool, ...]:
    """Write functions of ``paimon_functions`` in terms of the engine, inner ones first; returns ``Bound.cuts``."""
    root = _expression_of(tree)
    cuts: list[bool] = []
    for node in reversed(list(engine.walk(root))):
        name = str(node.get("function_name", "")).lower()
        if node.get("class") != "FUNCTION" or name not in paimon_functions.USAGE:
            continue
        arguments = [argument["expression"] for argument in node["arguments"]]
        literal = arguments[1].get("literal") if len(arguments) == 2 else None
        if literal is None:
            raise paimon_functions.Unusable(paimon_functions.USAGE[name])
        value = _text_of(tree, arguments[0])
        t = data_type(engine.described([value], schema)[0])
        sql_ = paimon_functions.sql_of(name, f"({value})", t, str(literal["text"]))
        written = _expression_of(engine.syntax_tree(sql_))
        node.clear()
        node.update(written)
        if name == "truncate":
            cuts.append(t.root in CHARACTERS)
    return tuple(cuts)


def _text_of(tree: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """A part of a tree as SQL."""
    one = copy.deepcopy(tree)
    one["statements"][0]["node"]["select_list"] = [node]
    return engine.text_of(one)


def rows_schema(types: Mapping[str, DataType]) -> pa.Schema:
    """The columns of the rows that bound expressions are evaluated over."""
    own = [pa.field(column_name(name), arrow_type(t)) for name, t in types.items()]
    return pa.schema(own + [pa.field(metadata_name(name), arrow_type(t)) for name, t in METADATA.items()])


def result_type(expression: Bound, types: Mapping[str, DataType]) -> DataType:
    """The type of the expression over columns of ``types``. Raises BadExpression if it has none."""
    schema = rows_schema({name: types[name] for name in expression.inputs})
    with _refusing(expression.inputs):
        (found,) = engine.described([f"({expression.sql})"], schema)
        result = data_type(found)
        _check_divisions(expression, schema)
        return result


def check_parts(expression: Expression) -> None:
    """Refuse unknown types, and arguments that a function never takes, before the types of columns are known.

    Each cast and call is looked at alone. The arguments are NULL, which has every type, except for constants.
    """
    tree = _tree(expression.text)
    null = _expression_of(engine.syntax_tree("NULL"))
    for node in engine.walk(_expression_of(tree)):
        kind, name = node.get("class"), str(node.get("function_name", "")).lower()
        if kind == "CAST":
            part = {**node, "child": null}
        elif kind == "FUNCTION" and name not in paimon_functions.USAGE:
            part = {**node, "arguments": [_of_any_type(argument, null) for argument in node["arguments"]]}
        else:
            continue
        with _refusing():
            try:
                engine.described([_text_of(tree, part)], _NO_COLUMNS)
            except engine.EngineError as error:
                if kind == "CAST" or "Deprecated lambda" in str(error):
                    raise
                if (forms := _FORMS.search(str(error))) is not None:
                    known = "; ".join(forms[1].split("\n\t"))
                    raise BadExpression(f"{name} takes other arguments: {known}") from error


_FORMS = re.compile(r"^Binder Error: No function matches.*\n\tCandidate functions:\n\t(.+(?:\n\t.+)*)")


_NO_COLUMNS = pa.schema([pa.field("none", pa.null())])
"""The engine takes no rows without any column."""


def _of_any_type(argument: Mapping[str, Any], null: Mapping[str, Any]) -> Mapping[str, Any]:
    is_kept = argument["expression"].get("class") in ("CONSTANT", "LAMBDA")
    return argument if is_kept else {**argument, "expression": null}


def plain(error: engine.EngineError, columns: Sequence[str] = ()) -> str:
    """The first line of the engine's error, with the user's names."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    text = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text).split(" when casting from source column")[0].strip()
    for column in columns:
        text = text.replace(quoted(column_name(column)), column).replace(column_name(column), column)
    text = re.sub(r'"metadata (\w+)"', r"$\1", text)
    if (cast := _NO_CAST.search(text)) is not None:
        return f"{text}; if it is a column of the source, declare it as {cast[1]} under columns.types"
    unknown = _UNKNOWN_TYPE.fullmatch(text)
    return text.split(" Use TRY(...)")[0].removesuffix(".") if unknown is None else _no_type(unknown[1])


_NO_CAST = re.compile(r"Unimplemented type for cast \(\w+ -> (DATE|TIMESTAMP)\)")
_UNKNOWN_TYPE = re.compile(r"Type with name (.+) does not exist!")
_TYPES_ELSEWHERE = {"timestamp_ltz": "TIMESTAMPTZ", "bytes": "BLOB", "number": "DECIMAL(38, 0)"}
"""Types of other engines, each with its equivalent in this engine."""


def _no_type(name: str) -> str:
    close = _TYPES_ELSEWHERE.get(name.lower()) or nearest(name, engine.type_names())
    hint = f"did you mean {close}?" if close else "there are BIGINT, DECIMAL(10, 2), DOUBLE, VARCHAR, DATE, TIMESTAMP"
    return f"there is no type {name}; {hint}"


def converted(value: str, given: DataType, wanted: DataType) -> tuple[str, str | None]:
    """SQL for a value as the type of its column, and SQL that checks for loss; None if there never is one."""
    duck, checks = duck_type(wanted), []
    cast = value if given.with_nullable(True) == wanted.with_nullable(True) else f"CAST({value} AS {duck})"
    if cast != value and given.root not in CHARACTERS and not _is_held(given, wanted):
        checks.append(f"CAST({cast} AS {duck_type(given)}) IS NOT DISTINCT FROM {value}")
    if wanted.root in CHARACTERS and wanted.length not in (None, MAX_LENGTH):
        checks.append(f"coalesce(length({cast}) <= {wanted.length}, true)")
    if wanted.root in BINARIES and wanted.length not in (None, MAX_LENGTH):
        checks.append(f"coalesce(octet_length({cast}) <= {wanted.length}, true)")
    return cast, " AND ".join(checks) or None


def misfit(wanted: DataType) -> str:
    return f"its value does not fit into {sql(wanted)} without loss"


def _is_held(given: DataType, wanted: DataType) -> bool:
    """Whether every value of a type is one of another type; the engine itself reports numbers that overflow."""
    integers = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
    if given.root in integers and wanted.root in (*integers, Root.DECIMAL):
        return True
    if given.root is Root.DECIMAL and wanted.root is Root.DECIMAL:
        return (wanted.scale or 0) >= (given.scale or 0)
    return wanted.root in CHARACTERS


def _tree(text: str) -> Mapping[str, Any]:
    tree = _parsed_tree(text)
    if tree.get("error"):
        message = str(tree.get("error_message", "it is not SQL")).splitlines()[0]
        raise BadExpression(
            f"it is not an SQL expression: {message} (put names that are SQL keywords in double quotes)"
        )
    return tree


@cache
def _parsed_tree(text: str) -> Mapping[str, Any]:
    return engine.syntax_tree(text)


def _expression_of(tree: Mapping[str, Any]) -> dict[str, Any]:
    statements = tree["statements"]
    node = statements[0]["node"] if len(statements) == 1 else {}
    if node.get("type") != "SELECT_NODE" or node["cte_map"]["map"]:
        raise BadExpression("expected one SQL expression over the columns of a row")
    for key, word in _CLAUSES:
        value = node.get(key)
        if value and not (key == "from_table" and value.get("type") == "EMPTY"):
            raise BadExpression(f"{word} is not allowed here: an expression sees one row")
    if len(node["select_list"]) != 1:
        raise BadExpression("expected one expression; a comma separates two")
    root: dict[str, Any] = node["select_list"][0]
    if root.get("alias"):
        raise BadExpression(f"expected an expression alone; {root['alias']!r} names its result")
    return root


def _nodes(node: Any, local: frozenset[str]) -> Any:
    """All nodes of a tree, each with the names that are parameters of lambdas there."""
    if isinstance(node, list):
        for part in node:
            yield from _nodes(part, local)
        return
    if not isinstance(node, dict):
        return
    if node.get("class") == "LAMBDA":
        names = {n["column_names"][0].lower() for n in engine.walk(node.get("lhs")) if n.get("class") == "COLUMN_REF"}
        yield from _nodes(node.get("expr"), local | names)
        return
    yield node, local
    for part in list(node.values()):
        yield from _nodes(part, local)


def _check_function(node: Mapping[str, Any]) -> None:
    name, known = str(node["function_name"]), engine.functions()
    for word, part in (("FILTER", node.get("filter")), ("DISTINCT", node.get("distinct")), ("ORDER BY", _order(node))):
        if part:
            raise BadExpression(f"{name}: {word} is not allowed here: an expression sees one row")
    if node.get("catalog") or node.get("schema") not in (None, "", "main"):
        before = ".".join(str(node[part]) for part in ("catalog", "schema") if node.get(part))
        raise BadExpression(f"{before}.{name}: a function has no name and dot before it, write {name}({before}, ...)")
    kinds = known.get(name.lower(), frozenset())
    if node.get("is_operator") or name.lower() in paimon_functions.USAGE:
        return
    if not kinds:
        close = _ELSEWHERE.get(name.lower()) or nearest(name, known)
        raise BadExpression(f"there is no function {name}" + (f"; did you mean {close}?" if close else ""))
    if name.lower() in _OF_THE_MOMENT:
        raise BadExpression(f"{name}() {_MOMENT}")
    if "volatile" in kinds:
        raise BadExpression(
            f"{name}() may give a different value each time, but a record that Tidemark rereads must give the same"
        )
    if not kinds & {"scalar", "macro"}:
        kind = "an aggregate function" if "aggregate" in kinds else "no function of one row"
        raise BadExpression(f"{name} is {kind}: an expression sees one row")


def _order(node: Mapping[str, Any]) -> Any:
    return (node.get("order_bys") or {}).get("orders")


def _metadata_of(node: Mapping[str, Any]) -> str:
    name = str(node["identifier"]).lower()
    if name not in METADATA:
        close = nearest(name, METADATA)
        hint = f"; did you mean ${close}?" if close else ""
        raise BadExpression(f"there is no ${name}{hint} There are: {', '.join('$' + known for known in METADATA)}")
    return name


def _check_divisions(expression: Bound, schema: pa.Schema) -> None:
    """Refuse divisions of decimals, whose results would silently be rounded to DOUBLE."""
    tree = engine.syntax_tree(expression.sql)
    statement = tree["statements"][0]
    for node in engine.walk(statement["node"]["select_list"]):
        if node.get("class") != "FUNCTION" or node.get("function_name") not in ("/", "//"):
            continue
        sides = []
        for argument in node["arguments"]:
            try:
                sides += engine.described([_text_of(tree, argument["expression"])], schema)
            except engine.EngineError:
                sides.append("")  # a parameter of a lambda
        if any(side.startswith("DECIMAL") for side in sides) and not {"DOUBLE", "FLOAT"} & set(sides):
            raise BadExpression(
                "a division of decimals gives a DOUBLE, which is not exact: if that is enough, add CAST(... AS DOUBLE) "
                "on one side; for a DECIMAL result multiply by a decimal instead, such as amount * 0.01"
            )
