"""Pipeline files that nothing need run."""

from __future__ import annotations

import json
from pathlib import Path


def pipeline_file(
    directory: Path, name: str = "shop", checkpoint: str = "", warehouse: str = "", **blocks: object
) -> Path:
    """A pipeline over dumps below ``directory``, with further blocks."""
    file = directory / f"{name}.yaml"
    (directory / "dumps").mkdir(exist_ok=True)
    document = {
        "version": 1,
        "name": name,
        "source": {"files": {"path": str(directory / "dumps")}, "format": "debezium-json"},
        "checkpoint": checkpoint or str(directory / f"{name}-checkpoint"),
        "catalog": {"warehouse": warehouse or str(directory / "warehouse")},
        "otherwise": "create",
        **blocks,
    }
    file.write_text(json.dumps(document))
    return file
