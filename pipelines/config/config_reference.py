"""docs/CONFIGURATION.md, made from the models.

`python -m pipelines.config.config_reference > docs/CONFIGURATION.md` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.config.config import DEFAULT_TABLE_OPTIONS, PipelineConfig

_INTRODUCTION = """\
# Pipeline files

A pipeline file is one YAML document. Tidemark refuses an unknown key, and names its place and the nearest known key.
It also refuses an option that would have no effect, and a name that is one letter away from a known one. It warns of
options that it only stores for other programs (`write-buffer-size`), and of names that it cannot judge. A warning is
a line `file:line:column: warning: ...`, and the file is valid. `tidemark schema` prints this page as JSON Schema for
editors. `tidemark validate FILE...` checks files without starting anything.

```yaml
version: 1
name: shop
source:
  kafka:
    bootstrap_servers: "${env:KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}"
    topics: { include: ['shop\\.public\\..*'] }
  format: debezium-json
trigger: { interval: 60s }
checkpoint: file:///var/lib/tidemark/shop
catalog: { warehouse: file:///var/lib/tidemark/warehouse }
defaults:
  options: { bucket: 4, changelog-producer: lookup }
tables:
  - match: { schema: public, table: orders }
    into: lake.orders
    columns: { types: { total: 'DECIMAL(10, 2)' } }
otherwise: skip
```

## Values

- **References to the environment**: `${env:NAME}` in any value is replaced by the variable, which must be set.
  `${env:NAME:-text}` uses the text if the variable is unset or empty. Tidemark refuses `${NAME}`. It never prints
  contents of variables.
- **Paths** are relative to the directory of the YAML file; URIs (`file:///...`, `s3://...`) stay as they are.
- **Durations** have a unit: `500ms`, `60s`, `5m`, `1h`. Tidemark refuses table options without a unit, because Paimon
  takes them for milliseconds.
- **Patterns** are regular expressions that must match the whole name; a plain name matches itself.
- **Types** of columns are Paimon's as SQL text: `INT`, `DECIMAL(10, 2)`, `TIMESTAMP_LTZ(6)`, `ARRAY<STRING>`, ...
- **Options** of tables keep their Paimon names. Tidemark checks names and values when it reads the file. `null` in a
  table rule removes an option of `defaults`. By default, a new table gets {table_defaults}.
- **Properties of Kafka's client** are checked too, without Kafka: [KAFKA_SECURITY.md](KAFKA_SECURITY.md) has examples
  with TLS and logins.
- YAML anchors, aliases and `<<` merges work. Tidemark refuses a key given twice and files of more than 1 MiB. It also
  refuses more than 50 blocks within each other, and aliases that give more than 200 000 values.
"""

_BUCKET_MODES = """\
## Which bucket mode

A bucket is the unit that one task writes and compacts. The option `bucket` and the keys decide which bucket a row
goes to; `tidemark validate` prints the mode of each rule's tables. [PARITY.md](PARITY.md) has the details.

| mode | how to get it | use it when | limits |
|---|---|---|---|
| fixed buckets | `bucket: 4`, primary key with all partition columns | the size of the table or of its partitions \
is known; the fastest one with a key | another number, or dynamic buckets, need `tidemark table rescale` |
| dynamic buckets | `bucket: -1`, primary key with all partition columns | partitions grow, or differ much in size \
| only one job at a time may write a partition; it uses `dynamic-bucket.initial-buckets` (4) parallel tasks, however \
many cores it has; memory holds the hashes of the keys of the partitions in use |
| dynamic buckets, rows move | `bucket: -1`, primary key without all partition columns | the partition column of a \
row changes, and its key is unique in the whole table | one job writes the table; an index of all keys is on local \
disks; `deduplicate` moves a row, `partial-update` and `aggregation` leave it in its partition, `first-row` drops \
the new row |
| postponed buckets | `bucket: -2`, primary key with all partition columns | you load data in bulk | readers see \
nothing before `tidemark table compact` |
| append, no buckets | `mode: append` | logs of events | rows of different tasks have no order; no row is ever updated |
| append, fixed buckets | `mode: append`, `bucket: 4`, `bucket-key` | logs whose readers need the order of each key \
| as fixed buckets |

All merge engines and changelog producers work with every mode that has a primary key; `validate` names exceptions.
Aim for buckets of up to about 2 GB of files. A full compaction rewrites a bucket in one task, for which 1 GiB of
memory is enough (`python -m benchmarks.huge_bucket`). With a `local[N]` master a batch needs less than 1 GiB, however
many of its rows go to one bucket. A batch that touches thousands of partitions writes a file in each of them. If you
can choose, partition by days rather than by hours or names.

The table shows what each mode adds to a batch of 100,000 rows, measured on two cores. Decoding such a batch takes 0.2
to 0.3 s of one core. In `python -m benchmarks.dynamic_index` nine of ten rows are for keys that exist, spread over
all of them. In `python -m benchmarks.moving_rows` batches have 20,000 rows; half of them stay, a quarter moves.

| keys | dynamic buckets: a batch | memory with the index | rows that move: a batch | index of keys built in |
|---|---|---|---|---|
| 1,000,000 | 0.06 s | 0.2 GiB | 0.19 s | 0.2 s |
| 20,000,000 | 0.12 s | 0.3 GiB | 0.16 s | 6.3 s (3.2 million rows/s) |
| 100,000,000 | 0.13 s | 0.9 GiB | | |

Including decoding, a batch at 100,000,000 keys takes 1.2 to 1.3 times as long as at 1,000,000. One key in forty then
shares its 32-bit hash with another key. In Paimon's format both go to one bucket, so the
more keys there are, the more buckets a batch touches.
"""


def reference_page() -> str:
    """The whole page."""
    schema = PipelineConfig.model_json_schema()
    defaults = ", ".join(f"`{name} = {value}`" for name, value in DEFAULT_TABLE_OPTIONS.items())
    parts = [_INTRODUCTION.replace("{table_defaults}", defaults)]
    parts += [_BUCKET_MODES, *_sections("", schema, schema["$defs"])]
    return "\n".join(parts)


def _sections(
    path: str, schema: Mapping[str, Any], models: Mapping[str, Any], has_forms: bool = False
) -> Iterator[str]:
    """The section of one mapping, then the sections of the mappings inside it."""
    required = set(schema.get("required", ()))
    title = f"`{path}`" if path else "Top level"
    title += f" with `{min(required)}`" if has_forms else ""
    yield f"## {title}\n\n{_one_line(schema.get('description', ''))}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    for key, value in schema.get("properties", {}).items():
        default = "**required**" if key in required else _default_text(value)
        inside = (inner.get("description", "") for inner, _ in _mappings(value, models))
        meaning = _one_line(value.get("description") or next(inside, ""))
        cells = (f"`{key}`", _type_text(value, models), default, meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    for pattern in schema.get("patternProperties", {}):
        prefix = pattern.strip("^").replace("\\", "")
        yield f"| `{prefix}*` | text, number or boolean | | Any property of that name. |"
    yield ""
    for key, value in schema.get("properties", {}).items():
        forms = list(_mappings(value, models))
        for inner, suffix in forms:
            yield from _sections(f"{path}.{key}{suffix}".lstrip("."), inner, models, has_forms=len(forms) > 1)


def _mappings(schema: Mapping[str, Any], models: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """(mapping with known keys, the suffix of its key in a path) for every form that a value may have."""
    if "$ref" in schema:
        yield from _mappings(models[schema["$ref"].rpartition("/")[2]], models)
    elif "properties" in schema:
        yield schema, ""
    for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if "properties" not in schema:
            yield from _mappings(alternative, models)
    if "items" in schema:
        for inner, suffix in _mappings(schema["items"], models):
            yield inner, "[]" + suffix


def _type_text(schema: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _type_text(models[schema["$ref"].rpartition("/")[2]], models)
    if "properties" in schema:
        return "mapping"
    alternatives = (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
    if alternatives:
        texts = [_type_text(a, models) for a in alternatives if a.get("type") != "null"]
        return " or ".join(dict.fromkeys(texts))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{word}`" for word in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "array":
            inner = _type_text(schema.get("items", {}), models)
            return f"list of {inner}s" if inner in ("text", "mapping") else f"list of {inner}"
        case "object":
            return f"map of name to {_type_text(schema.get('additionalProperties', {}), models)}"
        case list() as kinds:
            *others, last = [_WORDS[kind] if kind != "boolean" else "boolean" for kind in kinds]
            return f"{', '.join(others)} or {last}"
        case kind:
            return _WORDS.get(str(kind), "any")


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "null": "`null`",
}


def _default_text(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, [], {}) else f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(reference_page())
