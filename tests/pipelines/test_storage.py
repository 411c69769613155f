"""The catalog that a pipeline's file names."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from paimon_table.catalog.filesystem import FilesystemCatalog
from paimon_table.storage.file_io import LocalFileIO
from pipelines.config.catalog_config import Catalog
from pipelines.config.config import PipelineConfig
from pipelines.storage import CATALOGS, catalog_of


def config(directory: Path, **catalog: str) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"files": {"path": str(directory)}, "format": "debezium-json"},
            "checkpoint": str(directory / "checkpoint"),
            "catalog": {"warehouse": str(directory / "warehouse"), **catalog},
            "otherwise": "create",
        }
    )


@pytest.mark.parametrize("catalog", [{}, {"type": "filesystem"}])
def test_tables_are_directories_unless_the_file_says_otherwise(tmp_path: Path, catalog: dict[str, str]) -> None:
    assert catalog_of(config(tmp_path, **catalog)) == FilesystemCatalog(LocalFileIO(), str(tmp_path / "warehouse"))


def test_every_type_that_the_file_may_name_is_there() -> None:
    assert {*get_args(Catalog.model_fields["type"].annotation)} == CATALOGS.keys()


@pytest.mark.parametrize("kind", ["hive", "glue"])
def test_other_catalogs_of_paimon_are_refused_with_the_remedy(tmp_path: Path, kind: str) -> None:
    with pytest.raises(
        ValidationError, match=f"catalog type {kind} is not supported yet; use filesystem, jdbc or rest"
    ) as refused:
        config(tmp_path, type=kind)
    assert [error["loc"] for error in refused.value.errors()] == [("catalog", "type")]
