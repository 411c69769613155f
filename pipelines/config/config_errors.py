"""What is wrong with a pipeline file, as lines ``file:line:column: what; did you mean X?``.

Translates pydantic's errors: their place comes from the positions that `yaml_file` kept, their words from here. Values
that came from the environment are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from paimon_table.nearest_name import did_you_mean, nearest
from paimon_table.options.option_facts import known_names
from pipelines.config.config_values import REFUSED, ConfigModel
from pipelines.config.yaml_file import KeyPath, Place, Problem, YamlFile
from pipelines.config.yaml_hints import MAPPINGS, is_unquoted_placeholder, list_words, missing_blank

_GENERAL_KEYS = frozenset(
    (
        "create",
        "exclude",
        "format",
        "include",
        "names",
        "options",
        "path",
        "schema",
        "table",
        "timestamp",
        "topic",
        "type",
    )
)
"""Keys with common names: the same name in another block of the file is probably not what the user meant."""


def problem_lines(file_name: str, problems: Iterable[Problem], kind: str = "") -> str:
    """The text of all problems of one file, in the order of their places."""
    return "\n".join(f"{file_name}:{p.place.line}:{p.place.column}: {kind}{p.text}" for p in sorted(set(problems)))


def validation_problems(model: type[ConfigModel], error: ValidationError, file: YamlFile) -> list[Problem]:
    """The problems behind one pydantic error, each at its place in the file."""
    problems = []
    errors = error.errors()
    misspelt = set(_meant_keys(model, errors, file))
    for details in errors:
        path = _key_path(details["loc"])
        if any(path[: len(broken)] == broken for broken in file.broken):
            continue
        if details["type"] == REFUSED and _holds_broken(path, details, file):
            continue
        if details["type"] == "missing" and path in misspelt:
            continue
        at = path + tuple(details.get("ctx", {}).get("at", ()))
        place, text = _place_and_text(model, details, at, file)
        problems.append(Problem(place, file.without_secrets(text, at)))
    return problems


def _holds_broken(path: KeyPath, details: ErrorDetails, file: YamlFile) -> bool:
    """Whether a check of a whole mapping found a value missing that could not be read."""
    at = tuple(details.get("ctx", {}).get("at", ()))
    checked = path + at[:-1]
    return any(broken[:-1] in (checked, path + at) for broken in file.broken)


def problem_at(file: YamlFile, path: KeyPath, text: str, said_of: KeyPath | None = None) -> Problem:
    """A problem found by a check of Tidemark's own; the text begins with the path ``said_of``, or with ``path``."""
    subject = path if said_of is None else said_of
    return Problem(file.place(path, of_key=True), file.without_secrets(f"{_prefix(subject)}{text}", path))


def dotted(path: KeyPath) -> str:
    """A path as text: ``tables[0].into``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _key_path(location: tuple[int | str, ...]) -> KeyPath:
    """The path in the file: without the names that pydantic adds for members of a union and for keys of a mapping."""
    return tuple(p for p in location if not (isinstance(p, str) and (p.startswith("<") or p == "[key]")))


def _place_and_text(
    model: type[ConfigModel], details: ErrorDetails, path: KeyPath, file: YamlFile
) -> tuple[Place, str]:
    parent, last = path[:-1], path[-1] if path else ""
    match details["type"]:
        case "extra_forbidden":
            return file.place(path, of_key=True), _unknown_key(model, parent, str(last), file)
        case "missing":
            return file.place(parent, of_key=True), f"{_prefix(parent)}key '{last}' is missing"
        case kind:
            words = _with_meant(details) if kind == REFUSED else _words(kind, details)
            below = len(details.get("ctx", {}).get("at", ()))
            return file.place(path, of_key=below > 0), f"{_prefix(path[: len(path) - below])}{words}"


def _prefix(path: KeyPath) -> str:
    return f"{dotted(path)}: " if path else ""


def _unknown_key(model: type[ConfigModel], parent: KeyPath, key: str, file: YamlFile) -> str:
    owner = _model_at(model, parent)
    if owner is None:
        return f"{_prefix(parent)}unknown key '{key}'"
    if key in owner.NOT_YET:
        return f"{_prefix(parent)}'{key}' is not supported yet; {owner.NOT_YET[key]}"
    joined = missing_blank(key, yaml_keys(owner))
    if joined is not None:
        return f"{_prefix(parent)}{joined}"
    open_keys = _open_keys(owner, parent, file)
    known = open_keys if nearest(key, open_keys) else yaml_keys(owner)
    homes = [] if nearest(key, known) else sorted(set(_homes_of(model, key, "")))
    if key in _GENERAL_KEYS and parent:
        homes = [home for home in homes if home.startswith(f"under {parent[0]}")]
    if not homes and "options" in yaml_keys(owner) and ("." in key or key in known_names()):
        homes = [f"under {dotted((*parent, 'options'))}"]
    advice = f"it belongs {' or '.join(homes)}" if homes else did_you_mean(key, known)
    return f"{_prefix(parent)}unknown key '{key}'; {advice}"


def _homes_of(model: type[ConfigModel], key: str, path: str) -> Iterator[str]:
    """Paths of the mappings below ``path`` that have this very key."""
    for name, info in model.model_fields.items():
        inner_key = info.alias or name
        if inner_key == key:
            yield f"under {path}" if path else "at the top level"
        for annotation in members(info.annotation):
            below = f"{path}.{inner_key}".lstrip(".")
            if get_origin(annotation) is tuple:
                annotation, below = get_args(annotation)[0], f"{below}[]"
            if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
                yield from _homes_of(annotation, key, below)


def _open_keys(owner: type[ConfigModel], parent: KeyPath, file: YamlFile) -> set[str]:
    """The keys of a mapping that the file does not use yet; all keys if it uses them all."""
    keys = yaml_keys(owner)
    return keys - {path[-1] for path in file.key_places if path[:-1] == parent} or keys


def _meant_keys(model: type[ConfigModel], errors: Iterable[ErrorDetails], file: YamlFile) -> Iterator[KeyPath]:
    """The known keys that unknown ones probably mean: reporting them as missing would name one mistake twice."""
    for details in errors:
        *parent, key = _key_path(details["loc"]) or ("",)
        owner = _model_at(model, tuple(parent)) if details["type"] == "extra_forbidden" else None
        close = nearest(str(key), _open_keys(owner, tuple(parent), file)) if owner else None
        if close is not None:
            yield (*parent, close)


def yaml_keys(model: type[BaseModel]) -> set[str]:
    """The keys of a model as the file writes them."""
    return {info.alias or name for name, info in model.model_fields.items()}


def _with_meant(details: ErrorDetails) -> str:
    """The text of a check; if it lists the valid words, with the nearest one."""
    text, given = str(details["msg"]), details["input"]
    if not isinstance(given, str) or not text.startswith("expected ") or "did you mean" in text:
        return text
    listed = re.sub(r"\{.*?\}+('\})?", "", text.removeprefix("expected ")).partition(", or a ")[0]
    words = [word for word in re.split(r", | or ", listed) if word.strip()]
    close = nearest(given, words) if all(re.fullmatch("[a-z0-9_]+", word) for word in words) else None
    return f"{text}; did you mean '{close}'?" if close else text


def _words(kind: str, details: ErrorDetails) -> str:
    context: Mapping[str, Any] = details.get("ctx", {})
    found = _kind_of(details["input"])
    match kind:
        case "literal_error":
            words = re.findall(r"'([^']*)'", str(context["expected"]))
            close = nearest(str(details["input"]), words)
            return f"expected {_listed(words)}" + (f"; did you mean '{close}'?" if close else "")
        case "int_type" | "int_parsing" | "int_from_float" | "int_parsing_size":
            return f"expected a whole number, found {found}"
        case "greater_than_equal":
            return f"must be at least {context['ge']}"
        case "less_than_equal":
            return f"must be at most {context['le']}"
        case "too_short":
            return f"must have at least {context['min_length']} characters"
        case "string_type":
            return _text_words(details["input"], found)
        case "bool_type" | "bool_parsing":
            return f"expected true or false, found {found}"
        case "tuple_type" | "list_type":
            match found:
                case "nothing":
                    return "expected a list, found nothing"
                case "a mapping":
                    return "expected a list, found a mapping; begin each item with '- '"
            return list_words(details["input"])
        case "model_type" | "model_attributes_type" | "dict_type" | "mapping_type":
            example = MAPPINGS.get(str(details["loc"][-1])) if details["loc"] else None
            return f"expected a mapping, found {found}" + (f"; write {example}" if example else "")
        case "string_pattern_mismatch":
            return "expected letters, digits and . _ - only, beginning with a letter or digit"
        case _:
            return f"expected another value than {found}"


def _text_words(value: Any, found: str) -> str:
    if is_unquoted_placeholder(value):
        return f"expected text; a value that begins with a brace needs quotes: '{{{next(iter(value))}}}'"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"expected text, found a number; put it in quotes: '{getattr(value, 'written', value)}'"
    return f"expected text, found {found}"


def _listed(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case dict():
            return "a mapping"
        case _:
            return "a list"


def _model_at(model: type[ConfigModel], path: KeyPath) -> type[ConfigModel] | None:
    """The model of the mapping at a path, found along the annotations of the fields."""
    candidates: list[Any] = [model]
    for part in path:
        candidates = [inner for candidate in candidates for inner in _inside(candidate, part)]
    models = [c for c in candidates if isinstance(c, type) and issubclass(c, ConfigModel)]
    return models[0] if models else None


def _inside(annotation: Any, part: str | int) -> list[Any]:
    """Annotations that the value under one key or position can have."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, info in annotation.model_fields.items():
            if (info.alias or name) == part:
                return members(info.annotation)
        return []
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple or isinstance(part, int):
        return members(arguments[0]) if arguments else []
    return members(arguments[1]) if len(arguments) == 2 else []


def members(annotation: Any) -> list[Any]:
    """The members of a union, without None and without what Annotated adds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [inner for member in get_args(annotation) for inner in members(member)]
    return [] if annotation is NoneType else [annotation]
