"""The examples of docs/KAFKA_SECURITY.md, with the addresses, files and topics of a test in place of the page's."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "KAFKA_SECURITY.md"
PIPELINE = """\
version: 1
name: {name}
source:
  kafka:
{kafka}
  format: debezium-json
checkpoint: {root}/{name}-checkpoint
catalog: {{ warehouse: {root}/{name} }}
spark: {{ master: 'local[2]', spark.driver.memory: 1g }}
otherwise: {{ create: {{ into: 'lake.{{topic}}' }} }}
"""


def kafka_blocks() -> list[str]:
    """The ``kafka:`` blocks of the page, in its order."""
    return re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def write_example(root: Path, name: str, block: str, replaced: Mapping[str, str]) -> Path:
    """A pipeline file around one block; every text of ``replaced`` that it has is put in place."""
    for text, other in replaced.items():
        block = block.replace(text, other)
    file = root / f"{name}.yaml"
    file.write_text(PIPELINE.format(name=name, root=root, kafka=textwrap.indent(block.rstrip(), "    ")))
    return file
