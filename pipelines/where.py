"""The condition of `tidemark table scan --where` as an Arrow expression.

Comparisons of a column with a constant (``= != <> < <= > >=``), ``IS [NOT] NULL``, ``[NOT] IN (...)``, joined by AND,
OR, NOT and parentheses, with SQL's meaning of NULL. Constants take the type of their column, as in
``placed_at >= '2024-05-01'``.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import ConfigError
from pipelines.nearest_name import did_you_mean

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>`[^`]+`|\"[^\"]+\")|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<word>[^\W\d][\w.$]*)|(?P<sign><=|>=|!=|<>|==|[=<>(),]))"
)
_COMPARISONS = {"=", "==", "!=", "<>", "<", "<=", ">", ">="}
_WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE"}


def parse_condition(text: str, schema: pa.Schema) -> pc.Expression:
    """The condition over the columns of ``schema``. Raises ConfigError that names the place in the text."""
    return _Condition(text, schema).parse()


class _Condition:
    """Recursive descent over the tokens: OR binds weakest, then AND, then NOT."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.text = text
        self.schema = schema
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error(f"unexpected {text[position:].strip()[:1]!r}", position)
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()

    def parse(self) -> pc.Expression:
        parsed = self._any_of()
        if self.at < len(self.tokens):
            raise self._error(f"unexpected {self.tokens[self.at][1]!r}; join conditions with AND or OR")
        return parsed

    def _error(self, what: str, position: int | None = None) -> ConfigError:
        if position is None:
            position = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        return ConfigError(f"--where, character {position + 1}: {what}")

    def _take(self, *words: str) -> bool:
        ahead = self.tokens[self.at : self.at + len(words)]
        if [t.upper() if kind == "word" else t for kind, t, _ in ahead if kind in ("word", "sign")] != list(words):
            return False
        self.at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            found = repr(self.tokens[self.at][1]) if self.at < len(self.tokens) else "the end"
            raise self._error(f"expected {word!r}, found {found}")

    def _any_of(self) -> pc.Expression:
        parsed = self._all_of()
        while self._take("OR"):
            parsed = parsed | self._all_of()
        return parsed

    def _all_of(self) -> pc.Expression:
        parsed = self._single()
        while self._take("AND"):
            parsed = parsed & self._single()
        return parsed

    def _single(self) -> pc.Expression:
        if self._take("NOT"):
            return ~self._single()
        if self._take("("):
            parsed = self._any_of()
            self._expect(")")
            return parsed
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        column = self._column()
        field = pc.field(column)
        if self._take("IS", "NOT", "NULL"):
            return field.is_valid()
        if self._take("IS", "NULL"):
            return field.is_null()
        if self._take("NOT", "IN"):
            return ~self._in(column) & field.is_valid()
        if self._take("IN"):
            return self._in(column)
        kind, sign, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", 0)
        if kind != "sign" or sign not in _COMPARISONS:
            raise self._error(f"expected a comparison after column {column}: = != < <= > >= IS NULL, IN (...)")
        self.at += 1
        return _compared(field, sign, self._constant(column))

    def _in(self, column: str) -> pc.Expression:
        self._expect("(")
        constants = [self._constant(column)]
        while self._take(","):
            constants.append(self._constant(column))
        self._expect(")")
        return pc.field(column).isin(pa.array([c.as_py() for c in constants], self._type(column)))

    def _column(self) -> str:
        kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end", 0)
        if kind == "quoted":
            name = text[1:-1]
        elif kind == "word" and text.upper() not in _WORDS:
            name = text
        else:
            raise self._error(
                f"expected a column, found {text!r}" if kind != "end" else "expected a column, found the end"
            )
        if name not in self.schema.names:
            raise self._error(f"there is no column {name!r}; {did_you_mean(name, self.schema.names)}")
        self.at += 1
        return name

    def _type(self, column: str) -> pa.DataType:
        return self.schema.field(column).type

    def _constant(self, column: str) -> pa.Scalar[Any]:
        kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end", 0)
        if kind == "word" and text.upper() == "NULL":
            raise self._error(f"nothing equals NULL; write {column} IS NULL")
        if kind == "word" and text.upper() in ("TRUE", "FALSE"):
            plain = text.lower()
        elif kind == "text":
            plain = text[1:-1].replace("''", "'")
        elif kind == "number":
            plain = text.removeprefix("+")
        else:
            raise self._error(f"expected a constant, found {text!r}; texts stand in single quotes")
        target = self._type(column)
        try:
            constant = _typed(plain, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            raise self._error(f"{text} cannot be compared with column {column}, which is {target}") from None
        self.at += 1
        return constant


def _typed(text: str, target: pa.DataType) -> pa.Scalar[Any]:
    """The constant as the column's type; a number with more digits than the column's keeps them where it can."""
    if pa.types.is_boolean(target) and text not in ("true", "false"):
        raise ValueError(text)
    if pa.types.is_integer(target) and re.fullmatch(r"[-+]?\d+", text) is None:
        return pa.scalar(float(text), pa.float64())
    if pa.types.is_binary(target):
        return pa.scalar(text.encode(), target)
    if pa.types.is_timestamp(target) and target.tz is not None and re.search(r"(?:Z|[-+]\d\d:?\d\d)$", text) is None:
        text += "Z"
    return pa.scalar(text, pa.string()).cast(target)


def _compared(field: pc.Expression, sign: str, constant: pa.Scalar[Any]) -> pc.Expression:
    value = pc.scalar(constant)
    match sign:
        case "=" | "==":
            return field == value
        case "!=" | "<>":
            return field != value
        case "<":
            return field < value
        case "<=":
            return field <= value
        case ">":
            return field > value
        case _:
            return field >= value
