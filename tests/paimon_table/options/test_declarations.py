"""Every declared option is acted on, and what its declaration refers to exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import paimon_table
from paimon_table.file_index.index_options import BloomFilterColumn
from paimon_table.option_declaration import Declaration, declared_in
from paimon_table.options import names
from paimon_table.options.field_options import FieldOptions
from paimon_table.options.option_facts import ACTED_ON, TYPED_OPTIONS, known_names
from paimon_table.options.retention_options import RetentionOptions
from paimon_table.options.table_options import TableOptions
from paimon_table.schema import schema_options

ENGINE = Path(paimon_table.__file__).parent
DECLARING = {
    TableOptions: "options/table_options.py",
    FieldOptions: "options/field_options.py",
    RetentionOptions: "options/retention_options.py",
}
OPTION_CLASSES = [TableOptions, FieldOptions, BloomFilterColumn, RetentionOptions]

REFUSED_WITH_ANY_VALUE = {"target_file_row_count"}


def attributes_read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr


def names_read(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {*attributes_read(tree), *(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))}


def read_by_properties(path: Path, owner: str) -> dict[str, set[str]]:
    """What each property of a class reads of the others."""
    (body,) = (n.body for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef) and n.name == owner)
    return {node.name: set(attributes_read(node)) for node in body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
@pytest.mark.parametrize("owner", OPTION_CLASSES)
def test_every_declared_option_is_read_by_the_engine(owner: type) -> None:
    declaring = ENGINE / DECLARING.get(owner, "file_index/index_options.py")
    others = [path for path in ENGINE.rglob("*.py") if path != declaring or owner is BloomFilterColumn]
    read = {name for path in others for name in attributes_read(ast.parse(path.read_text()))}
    properties = {} if owner is BloomFilterColumn else read_by_properties(declaring, owner.__name__)
    if owner is FieldOptions:
        properties |= read_by_properties(declaring, "AllFieldOptions")
    for _ in properties:
        read |= {name for used in read & properties.keys() for name in properties[used]}

    unread = declared_in(owner).keys() - read

    assert unread <= REFUSED_WITH_ANY_VALUE


def test_every_option_of_a_schema_is_acted_on() -> None:
    outside = [path for path in ENGINE.rglob("*.py") if path.name not in ("schema_options.py", "option_facts.py")]
    unused = {name for name, value in vars(schema_options).items() if isinstance(value, Declaration)} - {"TYPE"}
    assert unused
    for path in outside:
        text = path.read_text()
        if any(name in text for name in unused):  # others need not be parsed
            unused -= names_read(path)

    assert unused == set()


def test_declarations_refer_to_declared_options() -> None:
    declared = {name for option in ACTED_ON for name in option.names}

    for option in TYPED_OPTIONS:
        assert option.needs is None or option.needs.option in declared
        assert option.follows is None or option.follows in declared
        for value in () if option.needs is None else option.needs.values:
            assert value == value.lower()


def test_no_name_is_declared_twice() -> None:
    declared = [name for option in ACTED_ON for name in option.names]

    assert len(declared) == len(set(declared))


def test_shared_names_are_those_of_options() -> None:
    settings = {option.name for option in declared_in(FieldOptions).values()} | {names.SEQUENCE_GROUP}
    shared = {value for name, value in vars(names).items() if name.isupper()}

    assert shared <= {*known_names(), *settings}


@pytest.mark.slow
def test_a_name_in_two_modules_is_a_constant() -> None:
    """Texts of messages are free; a name that stands alone is the one its declaration has."""
    words = {"bucket", "type"}  # also columns and keys of other things
    of_old_schema_files = {"file.format"}
    declared = {name for option in ACTED_ON for name in option.names} - words - of_old_schema_files
    stated = sorted(
        (node.value, str(path.relative_to(ENGINE.parent)))
        for package in ("paimon_table", "pipelines", "sinks", "sources")
        for path in (ENGINE.parent / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in declared
    )
    modules = {name: {path for other, path in stated if other == name} for name, _ in stated}

    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
