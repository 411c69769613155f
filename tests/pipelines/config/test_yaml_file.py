"""Data, places and environment references of a YAML text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_table.errors import ConfigError
from pipelines.config.yaml_file import Place, parse_yaml, read_yaml


def test_every_key_and_value_has_its_place() -> None:
    file = parse_yaml("a: 1\nb:\n  - c: x\n    d: [1, 2]\n", {})
    assert file.data == {"a": 1, "b": [{"c": "x", "d": [1, 2]}]}
    assert file.place(("b", 0, "d"), of_key=True) == Place(4, 5)
    assert file.place(("b", 0, "d", 1)) == Place(4, 12)
    assert file.place(("b", 0, "nowhere", 3)) == Place(3, 5)


def test_words_that_look_like_booleans_in_old_yaml_stay_text() -> None:
    assert parse_yaml("a: yes\nb: off\nc: true\nd: ~\ne: 2024-05-01\nf: 1e3\n", {}).data == {
        "a": "yes",
        "b": "off",
        "c": True,
        "d": None,
        "e": "2024-05-01",
        "f": 1000.0,
    }


def test_references_are_resolved_inside_text() -> None:
    file = parse_yaml(
        "a: x${env:A}-${env:B:-b}-${env:C:-}\nb: '${env:EMPTY}'\nc: ${env:EMPTY:-full}\nd: $env ${a}\n",
        {"A": "1", "EMPTY": ""},
    )
    assert file.data == {"a": "x1-b-", "b": "", "c": "full", "d": "$env ${a}"}
    assert file.problems == ()
    assert file.environment[("a",)] == (("A", "1"),)


def test_a_problem_does_not_hide_the_next_one() -> None:
    file = parse_yaml("a: ${env:NO}\na: 2\nb: 'x ${env:NO}'\nc: ${env:}\n", {})
    assert [(p.place.line, p.place.column) for p in file.problems] == [(1, 4), (2, 1), (3, 7), (4, 4)]
    assert file.broken == {("a",), ("b",), ("c",)}


def test_keys_of_merges_are_those_that_the_mapping_does_not_have() -> None:
    file = parse_yaml("x: &x { a: 1, b: 2 }\ny: &y { b: 3, c: 4 }\nz: { a: 0, <<: [*x, *y] }\n", {})
    assert file.data["z"] == {"a": 0, "b": 2, "c": 4}
    assert file.problems == ()


def test_contents_of_variables_are_taken_out_of_texts() -> None:
    file = parse_yaml("a: { b: '${env:S}' }\nc: open\n", {"S": "top.secret"})
    text = "b is 'TOP.SECRET', piece 'secret', not 'open'"
    assert file.without_secrets(text, ("a", "b")) == "b is '${env:S}', piece '...', not 'open'"
    assert file.without_secrets(text, ("a",)) == file.without_secrets(text, ("a", "b"))
    assert file.without_secrets(text, ("c",)) == text


KEYS = st.text("abcdef", min_size=1, max_size=4)
TREES = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.text("xyz ", max_size=3).map(lambda t: t + "!"),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=12,
)


def _block(value: object, indent: int) -> list[str]:
    """Lines of block style YAML."""
    pad = " " * indent
    match value:
        case dict():
            pairs = ((f"{key}:", inner) for key, inner in value.items())
        case list():
            pairs = (("-", inner) for inner in value)
        case _:
            return [pad + repr(value).replace("True", "true").replace("False", "false")]
    lines: list[str] = []
    for head, inner in pairs:
        if isinstance(inner, dict | list):
            lines += [pad + head, *_block(inner, indent + 2)]
        else:
            lines.append(pad + head + " " + _block(inner, 0)[0])
    return lines


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=3))
def test_the_place_of_every_scalar_is_where_its_text_stands(tree: dict[str, object]) -> None:
    lines = _block(tree, 0)
    file = parse_yaml("\n".join(lines) + "\n", {})
    assert file.data == tree
    for path, place in file.places.items():
        value: Any = tree
        for part in path:
            value = value[part]
        if not isinstance(value, dict | list):
            assert lines[place.line - 1][place.column - 1 :] == _block(value, 0)[0]


def _problem(text: str) -> tuple[Place, str]:
    file = parse_yaml(text, {})
    (problem,) = file.problems
    return problem.place, problem.text


NOT_CLOSED = "the quote that begins here is not closed in its line; end the text with the same quote"
SECOND_COLON = "a second colon in a value; put "
SLIPS = {
    "source:\n\tkafka: a": ((2, 1), "YAML does not allow tabs here; replace the tab with blanks"),
    "name:\tshop\ntopics: [\ta\t]\nx: \ty: 1": ((1, 6), "YAML does not allow tabs here"),
    'name: "shop\nversion: 1\n': ((1, 7), NOT_CLOSED),
    "name: 'shop\nversion: '1'\n": ((1, 7), NOT_CLOSED),
    "topics: ['a, b]\nversion: 1\n": ((1, 10), NOT_CLOSED),
    "name: shop: eu": ((1, 11), f"{SECOND_COLON}the value of name in quotes"),
    "  - match: a: b": ((1, 13), f"{SECOND_COLON}the value of match in quotes"),
    "match: { table: a: b }": ((1, 18), f"{SECOND_COLON}texts with , : [ ] {{ }} or # in quotes"),
    "match: { table: a schema: b }": ((1, 25), SECOND_COLON),
    "match: { table: 'a' 'b' }": ((1, 21), "a comma is missing before this, or }; "),
    "topics: [a, b\nversion: 1": ((1, 9), "the [ that begins here is not closed; add ] at its end"),
    "name shop\nversion: 1": ((1, 1), "a colon and a blank are missing after the key; write KEY: VALUE"),
    "name:shop\nversion: 1": ((1, 1), "the blank after the colon is missing; write name: VALUE"),
    "tables:\n  -match: a\n    into: b": ((2, 3), "the blank after the dash is missing; write '- ' before an item"),
    "source:\n  kafka: a\n    format: b": ((3, 5), "this line is indented, but the line above "),
    "source:\n  kafka: a\n format: b": (
        (3, 2),
        "this line begins in column 2, but its block (from line 1 on) in",
    ),
    "tables:\n  - a: b\n     c: d": ((3, 6), "this line is indented, but the line above "),
    "tables:\n  - a: b\n   c: d": ((3, 4), "this line begins in column 4, but its block (from line 2 on) in"),
    "name: 'a' b": ((1, 11), "text follows the end of a value; put the whole value in quotes"),
    "name:\u00a0shop\nversion: 1": ((1, 6), "YAML does not allow this kind of space (U+00A0); type a plain one"),
    "tables:\n  - a: {}\n\u00a0\u00a0c: d\n    e:\n      f: g": (
        (3, 1),
        "YAML does not allow this kind of space (U+00A0); type a plain one",
    ),
    'topics: ["shop\\.a"]': ((1, 16), "a backslash begins an escape in double quotes; put this text in single quotes"),
    '{"a": 1}\n{"a": 2}\n': ((2, 1), "text follows the end of the document; the file must be one block"),
    "name: a\0b": ((1, 8), "the character U+0000 is not allowed here; remove it"),
    "name: @a": ((1, 7), "a value that begins with @ needs quotes"),
    "topics: [a, *b]": ((1, 13), "a value that begins with * needs quotes"),
}
"""Slips of newcomers, each with where it is and how what is said of it begins."""


@pytest.mark.parametrize(("text", "told"), SLIPS.items())
def test_a_slip_is_told_in_plain_words_at_its_place(text: str, told: tuple[tuple[int, int], str]) -> None:
    place, words = _problem(text)
    assert (place, words[: len(told[1]) + 16]) == (Place(*told[0]), f"not valid YAML: {told[1]}")
    assert not any(term in words for term in ("block end", "scalar", "mapping", "token", "stream"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: " + "[" * 20_000, Place(1, 53)),
        ("".join("  " * n + f"k{n}:\n" for n in range(3_000)), Place(50, 99)),
        ("- " * 3_000 + "x", Place(1, 101)),
    ],
)
def test_deep_nesting_has_a_place(text: str, place: Place) -> None:
    assert _problem(text) == (place, "not valid YAML: blocks are nested more than 50 levels deep")


@pytest.mark.slow
def test_depth_by_aliases_has_a_place() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3_000))
    assert _problem(text)[1] == "blocks are nested more than 50 levels deep, counting aliases"
    merged = "m0: &m0 {x: 1}\n" + "".join(f"m{n}: &m{n} {{<<: *m{n - 1}}}\n" for n in range(1, 3_000))
    assert _problem(merged)[1] == "blocks are nested more than 50 levels deep, counting aliases"


@pytest.mark.slow
@pytest.mark.parametrize("step", ["[{0},{0},{0},{0},{0},{0},{0},{0},{0}]", "{{<<: [{0},{0},{0},{0},{0},{0},{0},{0}]}}"])
def test_aliases_that_multiply_are_refused_soon(step: str) -> None:
    start = "[x]" if step.startswith("[") else "{x: 1}"
    text = f"a0: &a0 {start}\n" + "".join(f"a{n}: &a{n} {step.format(f'*a{n - 1}')}\n" for n in range(1, 20))
    place, problem = _problem(text)
    assert problem == "aliases and merges give more than 200000 values" and 1 < place.line <= 20


def test_a_large_file_and_an_endless_one_are_refused_unread(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("# much\n" * 200_000)
    for file in (large, Path("/dev/zero")):
        with pytest.raises(ConfigError, match=rf"{file}: is larger than 1 MiB; split"):
            read_yaml(file, {})


@pytest.mark.parametrize("value", ["\u201clake.orders\u201d", "\u2018lake.orders\u2019", "\u201elake.orders\u201c"])
def test_quotes_of_books_are_not_taken_into_the_text(value: str) -> None:
    assert _problem(f"into: {value}") == (Place(1, 7), f"{value[0]} is not a quote in YAML; write ' or \" in its place")
    assert parse_yaml(f"into: '{value}'", {}).data == {"into": value}


def test_text_in_another_encoding_has_its_line_and_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes("a: b\nname: caf\u00e9\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"p\.yaml:2: is not UTF-8 text; save the file in the encoding UTF-8$"):
        read_yaml(tmp_path / "p.yaml", {})


def test_a_file_that_is_missing_has_the_name_of_the_one_that_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").touch()
    with pytest.raises(ConfigError, match=r"shop\.yml: cannot be read: No such file .*; did you mean .*/shop\.yaml\?$"):
        read_yaml(tmp_path / "shop.yml", {})


def test_long_numbers_are_refused_with_their_place() -> None:
    assert _problem(f"a: {'9' * 5_000}") == (
        Place(1, 4),
        "a number of more than 100 characters; put it in quotes if it is a text",
    )
    assert parse_yaml(f"{'9' * 900}: a", {}).data == {"9" * 900: "a"}


def test_a_missing_variable_of_a_secret_is_told_without_a_default() -> None:
    """A default in the file would be the key or password of everybody who reads it."""
    missing = "environment variable {} is not set; set it"
    mask = "mask: { email: { hash: sha256, key: '${env:PEPPER}' } }"
    assert _problem(mask)[1] == missing.format("PEPPER")
    assert _problem("s3.secret-key: ${env:KEY_OF_S3}")[1] == missing.format("KEY_OF_S3")
    assert _problem("sasl: ${env:KAFKA_PASSWORD}")[1] == missing.format("KAFKA_PASSWORD")
    assert _problem("topic: ${env:TOPIC}")[1] == missing.format("TOPIC") + ", or write ${env:TOPIC:-default}"


def test_usual_anchors_and_merges_work() -> None:
    text = "base: &b {x: 1, y: [1, 2]}\nlist:\n" + "  - {<<: *b, z: *b}\n" * 500
    file = parse_yaml(text, {})
    assert file.problems == () and file.data["list"][499] == {"x": 1, "y": [1, 2], "z": {"x": 1, "y": [1, 2]}}
