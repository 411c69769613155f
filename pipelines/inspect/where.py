"""The condition of `tidemark table scan --where` as an Arrow expression.

Comparisons of a column with a constant (``= != <> < <= > >=``), ``IS [NOT] NULL``, ``[NOT] IN (...)``, joined by AND,
OR, NOT and parentheses, with SQL's meaning of NULL. Constants take the type of their column, as in
``placed_at >= '2024-05-01'``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from paimon_table.errors import ConfigError
from paimon_table.nearest_name import did_you_mean
from pipelines.inspect.where_constants import Constant, Unfit, compared, is_among

_TOKEN = re.compile(
    r"\s*(?:(?P<bytes>[xX]'[^']*')|(?P<text>'(?:[^']|'')*')|(?P<quoted>`[^`]+`|\"[^\"]+\")|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<word>[^\W\d][\w.$]*)|(?P<sign><=|>=|!=|<>|==|[=<>(),]))"
)
_COMPARISONS = {"=", "==", "!=", "<>", "<", "<=", ">", ">="}
_LISTED = "= != <> < <= > >=, IS NULL, IS NOT NULL, IN (...), NOT IN (...)"
_DEEPEST = 100
"""The most levels of nested conditions, which is the depth of the recursion."""
_MOST = 1000
"""The most comparisons: Arrow processes a chain of them recursively, and overflows the stack of the process."""
_WORDS = {"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE"}


def parse_condition(text: str, schema: pa.Schema, types: Mapping[str, str] | None = None) -> pc.Expression:
    """The condition over the columns of ``schema``. Raises ConfigError with the place in the text.

    ``types`` are the names of the columns' types for people; without it, errors show Arrow's names.
    """
    return _Condition(text, schema, types or {}).parse()


class _Condition:
    """Recursive descent over the tokens: OR binds weakest, then AND, then NOT."""

    def __init__(self, text: str, schema: pa.Schema, types: Mapping[str, str]) -> None:
        self.text = text
        self.types = types
        self.schema = schema
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        self.depth = self.comparisons = 0
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
        parts = [self._all_of()]
        while self._take("OR"):
            parts.append(self._all_of())
        return functools.reduce(operator.or_, parts)

    def _all_of(self) -> pc.Expression:
        parts = [self._single()]
        while self._take("AND"):
            parts.append(self._single())
        return functools.reduce(operator.and_, parts)

    def _single(self) -> pc.Expression:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} conditions are nested; write a flatter condition")
        if self._take("NOT"):
            parsed = ~self._single()
        elif self._take("("):
            parsed = self._any_of()
            self._expect(")")
        else:
            parsed = self._comparison()
        self.depth -= 1
        return parsed

    def _comparison(self) -> pc.Expression:
        self.comparisons += 1
        if self.comparisons > _MOST:
            raise self._error(f"more than {_MOST:,} comparisons; write values of one column as COLUMN IN (...)")
        column = self._column()
        field = pc.field(column)
        if self._take("IS", "NOT", "NULL"):
            return field.is_valid()
        if self._take("IS", "NULL"):
            return field.is_null()
        if self._take("NOT", "IN"):
            return ~self._in(column)
        if self._take("IN"):
            return self._in(column)
        kind, sign, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", 0)
        if kind != "sign" or sign not in _COMPARISONS:
            raise self._error(f"expected a comparison after column {column}: {_LISTED}")
        self.at += 1
        place = self.at
        constant = self._constant(column)
        try:
            return compared(field, self._type(column), sign, constant)
        except Unfit as why:
            raise self._unfit(column, place, why) from None

    def _in(self, column: str) -> pc.Expression:
        self._expect("(")
        places = [self.at]
        constants = [self._constant(column)]
        while self._take(","):
            places.append(self.at)
            constants.append(self._constant(column))
        self._expect(")")
        field, target = pc.field(column), self._type(column)
        for place, constant in zip(places, constants, strict=True):
            try:
                is_among(field, target, [constant])
            except Unfit as why:
                raise self._unfit(column, place, why) from None
        return is_among(field, target, constants)

    def _unfit(self, column: str, place: int, why: Unfit) -> ConfigError:
        _, text, position = self.tokens[place]
        type_name = self.types.get(column, str(self._type(column)))
        reason = f": {why}" if str(why) else ""
        return self._error(f"{text} cannot be compared with column {column}, which is {type_name}{reason}", position)

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

    def _constant(self, column: str) -> Constant:
        kind, text, _ = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end", 0)
        if kind == "word" and text.upper() == "NULL":
            raise self._error(f"nothing equals NULL; write {column} IS NULL")
        if kind == "word" and text.upper() in ("TRUE", "FALSE"):
            constant = Constant("boolean", text.lower())
        elif kind == "text":
            constant = Constant(kind, text[1:-1].replace("''", "'"))
        elif kind == "bytes":
            constant = Constant(kind, text[2:-1])
        elif kind == "number":
            constant = Constant(kind, text.removeprefix("+"))
        else:
            raise self._error(f"expected a constant, found {text!r}; put texts in single quotes")
        self.at += 1
        return constant
