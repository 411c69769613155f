"""Writer schemas with values, drawn by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Drawn = tuple[Any, st.SearchStrategy[Any]]
"""A schema and its values."""

_SCALARS: list[Drawn] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200))),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("bytes", st.binary(max_size=40)),
    ("string", st.one_of(st.text(max_size=20), st.sampled_from(["a", "bb"]))),
]


@st.composite
def schemas(draw: st.DrawFn, level: int = 0, names: list[int] | None = None) -> Drawn:
    """One schema: any type inside any other, unions with null on either side, and unions of several types."""
    names = [0] if names is None else names
    kinds = ["scalar"] * 4 + ["null", "enum", "fixed"]
    if level < 3:
        kinds += ["record", "record", "array", "map", "optional", "optional", "union"]
    match "record" if level == 0 else draw(st.sampled_from(kinds)):
        case "scalar":
            return draw(st.sampled_from(_SCALARS))
        case "null":
            return "null", st.none()
        case "enum":
            symbols = ["A", "B", "C"]
            return {"type": "enum", "name": _name(names), "symbols": symbols}, st.sampled_from(symbols)
        case "fixed":
            size = draw(st.integers(1, 9))
            return {"type": "fixed", "name": _name(names), "size": size}, st.binary(min_size=size, max_size=size)
        case "array":
            item, values = draw(schemas(level=level + 1, names=names))
            if _is_empty(item):
                item, values = "int", st.integers(-5, 5)
            return {"type": "array", "items": item}, st.lists(values, max_size=5)
        case "map":
            item, values = draw(schemas(level=level + 1, names=names))
            return {"type": "map", "values": item}, st.dictionaries(st.text(max_size=5), values, max_size=4)
        case "optional":
            inner, values = draw(schemas(level=level + 1, names=names))
            if inner == "null" or isinstance(inner, list):
                inner, values = "string", st.text(max_size=5)
            branches = [inner, "null"] if draw(st.booleans()) else ["null", inner]
            return branches, st.one_of(st.none(), values)
        case "union":
            return ["null", "string", "long"], st.one_of(st.none(), st.text(max_size=5), st.integers(-500, 500))
        case _:
            fields = [
                draw(schemas(level=level + 1, names=names)) for _ in range(draw(st.integers(0 if level else 1, 4)))
            ]
            schema = {"type": "record", "name": _name(names), "fields": [
                {"name": f"f{number}", "type": one} for number, (one, _) in enumerate(fields)
            ]}  # fmt: skip
            return schema, st.fixed_dictionaries({f"f{number}": values for number, (_, values) in enumerate(fields)})


def _name(names: list[int]) -> str:
    names[0] += 1
    return f"n{names[0]}"


def _is_empty(schema: Any) -> bool:
    """Whether values of the schema have no bytes: an array may not have more of them than its record has bytes."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(_is_empty(f["type"]) for f in schema["fields"])
    return bool(schema == "null")
