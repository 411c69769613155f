"""A YAML file as plain data with the place of every key and value, and with references to the environment resolved.

Reading continues after a mistake, so that one run reports all mistakes. ``${env:NAME}`` is a variable that must be set;
``${env:NAME:-text}`` uses the text if it is unset or empty. References are resolved in values, not in keys, and give
text. Anchors, aliases and ``<<`` merges work as usual, up to bounds that no pipeline reaches. So a file cannot take
more memory or time than its reader expects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from paimon_table.errors import BrokenInvariant, ConfigError
from paimon_table.nearest_name import nearest
from pipelines.config.config_values import WrittenFloat, WrittenInt
from pipelines.config.yaml_hints import is_secret, quote_problem, reference_problem
from pipelines.config.yaml_syntax import syntax_problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 50
"""Blocks and lists within each other, by writing or by aliases."""
MAX_VALUES = 200_000
"""Values of the whole file, each counted as often as aliases repeat it."""

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the root of the document to a value."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in the file, both parts counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong with a file."""

    place: Place
    text: str


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The content of a file. ``environment`` holds, per value, the (variable, content) pairs that went into it."""

    data: Any
    places: Mapping[KeyPath, Place]
    key_places: Mapping[KeyPath, Place]
    environment: Mapping[KeyPath, tuple[tuple[str, str], ...]]
    problems: tuple[Problem, ...]
    broken: frozenset[KeyPath] = frozenset()
    """Values that are None because of a problem."""

    def place(self, path: KeyPath, of_key: bool = False) -> Place:
        """The place of the value (or its key); for a path that is not in the file, that of its nearest ancestor."""
        if of_key and path in self.key_places:
            return self.key_places[path]
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))

    def without_secrets(self, text: str, path: KeyPath) -> str:
        """The text with the contents of variables that went into values at, above or below ``path`` taken out.

        Quoted pieces of such contents go too: a message may be about a part of the value.
        """
        secrets = [
            pair
            for at, pairs in self.environment.items()
            if at[: len(path)] == path or path[: len(at)] == at
            for pair in pairs
            if pair[1]
        ]
        for name, content in secrets:
            text = re.sub(re.escape(content), _literally(f"${{env:{name}}}"), text, flags=re.IGNORECASE)
        for _, content in secrets:
            text = _without_pieces(text, content.lower())
        return text


def _literally(replacement: str) -> Callable[[re.Match[str]], str]:
    return lambda _: replacement


def _without_pieces(text: str, content: str) -> str:
    """The text without its quoted parts that are a part of ``content`` (in lower case)."""
    return _QUOTED.sub(lambda match: "'...'" if match[1].lower() in content else match[0], text)


def read_yaml(path: Path, environment: Mapping[str, str]) -> YamlFile:
    """Read one file. Raises ConfigError when it cannot be opened; mistakes in it become ``problems``."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        alike = sorted(other.name for other in path.parent.glob("*.y*ml")) if error.errno == ENOENT else []
        close = nearest(path.name, alike)
        hint = f"; did you mean {path.with_name(close)}?" if close else ""
        raise ConfigError(f"{path}: cannot be read: {error.strerror}{hint}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES >> 20} MiB; split the pipeline into several files")
    try:
        return parse_yaml(content.decode("utf-8"), environment)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text; save the file in the encoding UTF-8") from None


def parse_yaml(text: str, environment: Mapping[str, str]) -> YamlFile:
    """Read YAML from text; see `read_yaml`."""
    reader = _Reader(environment)
    data: Any = None
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.Composer = _BoundedComposer
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        if "another document" in f"{error.problem} {error.context}":
            reader.problems.append(Problem(place, "a second document begins; one file is one pipeline, without ---"))
            return reader.file(None)
        begun = error.context_mark and (error.context_mark.line + 1, error.context_mark.column + 1)
        spot = (place.line, place.column)
        found, words = syntax_problem(str(error.problem or error.context), spot, begun, text.splitlines())
        is_bound = error.problem == _TOO_DEEP
        reader.problems.append(Problem(Place(*found), f"not valid YAML: {error.problem if is_bound else words}"))
    except ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, error.position - before.rfind("\n"))
        problem = f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed here; remove it"
        reader.problems.append(Problem(place, problem))
    except YAMLError as error:
        reader.problems.append(Problem(Place(1, 1), f"not valid YAML: {str(error).splitlines()[0]}"))
    else:
        if root is None:
            reader.problems.append(Problem(Place(1, 1), "the file is empty"))
        else:
            try:
                data = reader.value(root, ())
            except _TooLarge as error:
                reader.problems = [error.problem]
    return reader.file(data)


class _TooLarge(Exception):
    """The file asks for more than the bounds allow; nothing else about it is worth saying."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


class _BoundedComposer(Composer):
    """Refuses deep nesting, with its place, before Python's stack is full."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.parser.peek_event().start_mark
            raise MarkedYAMLError(problem=_TOO_DEEP, problem_mark=mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_TOO_DEEP = f"blocks are nested more than {MAX_DEPTH} levels deep"
_TAG = "tag:yaml.org,2002:"
_MAX_DIGITS = 100
_QUOTED = re.compile(r"'([^']+)'")
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_REFERENCE_START = "${env:"


def _place_of(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


@dataclass(slots=True)
class _Reader:
    """Turns the node tree into data, and collects places and problems."""

    variables: Mapping[str, str]
    places: dict[KeyPath, Place] = field(default_factory=dict)
    key_places: dict[KeyPath, Place] = field(default_factory=dict)
    environment_of: dict[KeyPath, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: set[KeyPath] = field(default_factory=set)
    open_nodes: list[Node] = field(default_factory=list)
    count: int = 0

    def file(self, data: Any) -> YamlFile:
        """The content read so far."""
        return YamlFile(
            data, self.places, self.key_places, self.environment_of, tuple(self.problems), frozenset(self.broken)
        )

    def value(self, node: Node, path: KeyPath) -> Any:
        self._count(node, len(self.open_nodes))
        self.places[path] = _place_of(node)
        if isinstance(node, ScalarNode):
            if not node.value and node.style is None:
                self.places[path] = self.key_places.get(path, self.places[path])
            return self._scalar(node, path)
        if any(node is outer for outer in self.open_nodes):
            self._problem(node, "the alias refers to a block that contains it")
            return None
        self.open_nodes.append(node)
        try:
            if isinstance(node, SequenceNode):
                return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            raise BrokenInvariant(f"YAML node of unknown kind {type(node).__name__}; please report")
        finally:
            self.open_nodes.pop()

    def _count(self, node: Node, depth: int) -> None:
        self.count += 1
        if depth > MAX_DEPTH:
            raise _TooLarge(Problem(_place_of(node), f"{_TOO_DEEP}, counting aliases"))
        if self.count > MAX_VALUES:
            outermost = [*self.open_nodes[1:2], node][0]
            raise _TooLarge(Problem(_place_of(outermost), f"aliases and merges give more than {MAX_VALUES} values"))

    def _problem(self, node: Node, text: str) -> None:
        self.problems.append(Problem(_place_of(node), text))

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str | int, Any]:
        data: dict[str | int, Any] = {}
        for key_node, value_node in self._pairs(node):
            key = self._key(key_node)
            if key is None:
                continue
            if key in data:
                first = self.key_places[(*path, key)]
                self._problem(key_node, f"key '{key}' is given twice; first in line {first.line}; remove one of them")
                continue
            self.key_places[(*path, key)] = _place_of(key_node)
            data[key] = self.value(value_node, (*path, key))
        return data

    def _pairs(self, node: MappingNode, depth: int = 0) -> list[tuple[Node, Node]]:
        """Keys and values of a mapping: its own first, then keys of ``<<`` mappings that it does not have itself."""
        self._count(node, depth)
        pairs = [pair for pair in node.value if pair[0].tag != _TAG + "merge"]
        names = {key.value for key, _ in pairs if isinstance(key, ScalarNode)}
        for key, merged in node.value:
            if key.tag != _TAG + "merge":
                continue
            for source in merged.value if isinstance(merged, SequenceNode) else [merged]:
                if not isinstance(source, MappingNode) or any(source is outer for outer in self.open_nodes):
                    self._problem(key, "`<<` needs a mapping, or a list of mappings, from outside this block")
                    continue
                inherited = [pair for pair in self._pairs(source, depth + 1) if pair[0].value not in names]
                names.update(inherited_key.value for inherited_key, _ in inherited)
                pairs += inherited
        return pairs

    def _key(self, node: Node) -> str | int | None:
        if not isinstance(node, ScalarNode):
            self._problem(node, "a key must be plain text")
            return None
        if _REFERENCE_START in node.value:
            self._problem(node, "references to the environment are resolved in values, not in keys")
            return None
        if node.tag == _TAG + "int" and len(node.value) <= _MAX_DIGITS:
            return int(_integer(node.value))
        return str(node.value)

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        text: str = node.value
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) > _MAX_DIGITS:
                self._problem(node, f"a number of more than {_MAX_DIGITS} characters; put it in quotes if it is a text")
                self.broken.add(path)
                return None
            case "int":
                return _integer(text)
            case "float":
                return _number(text)
            case "str" if node.style is None and (quote := quote_problem(text)) is not None:
                self._problem(node, quote)
                self.broken.add(path)
                return None
            case "str" | "timestamp" | "value":
                wrong = reference_problem(text)
                if wrong is not None:
                    self._environment_problem(node, text.index("${"), wrong)
                    self.broken.add(path)
                    return None
                return self._resolved(node, path) if _REFERENCE_START in text else text
            case _:
                self._problem(node, f"the tag {node.tag} has no meaning here")
                self.broken.add(path)
                return None

    def _resolved(self, node: ScalarNode, path: KeyPath) -> str | None:
        """The text with its references replaced; None after a problem."""
        used: list[tuple[str, str]] = []
        failed = False

        def content_of(reference: re.Match[str]) -> str:
            nonlocal failed
            name, fallback = reference[1], reference[2]
            content = self.variables.get(name)
            if fallback is not None and not content:
                return str(fallback)
            if content is None:
                failed = True
                missing = f"environment variable {name} is not set; set it"
                if not is_secret(name) and not (path and is_secret(str(path[-1]))):
                    missing += f", or write ${{env:{name}:-default}}"
                self._environment_problem(node, reference.start(), missing)
                return ""
            used.append((name, content))
            return content

        text = node.value
        resolved = _REFERENCE.sub(content_of, text)
        broken = _REFERENCE.sub(lambda m: " " * len(m[0]), text).find(_REFERENCE_START)
        if broken >= 0:
            failed = True
            self._environment_problem(node, broken, "expected ${env:NAME} or ${env:NAME:-default}")
        if used:
            self.environment_of[path] = tuple(used)
        if failed:
            self.broken.add(path)
            return None
        return resolved

    def _environment_problem(self, node: ScalarNode, at: int, text: str) -> None:
        """A problem inside a scalar; exact for a scalar of one line without escapes."""
        place = _place_of(node)
        if node.start_mark.line == node.end_mark.line:
            place = Place(place.line, place.column + at + (1 if node.style in ("'", '"') else 0))
        self.problems.append(Problem(place, text))


def _integer(text: str) -> WrittenInt:
    digits = text.replace("_", "")
    prefixed = re.match(r"[-+]?0[xob]", digits) is not None
    number = WrittenInt(int(digits, 0 if prefixed else 10))
    number.written = text
    return number


def _number(text: str) -> WrittenFloat:
    number = WrittenFloat(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
    number.written = text
    return number
