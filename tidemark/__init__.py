"""Tidemark from Python: check and run pipeline files, read tables.

    import tidemark
    config = tidemark.load_pipeline("shop.yaml")
    tidemark.run("shop.yaml", once=True)
    orders = tidemark.read_table("/data/warehouse/lake.db/orders").to_pandas()

Names outside of ``__all__`` may change with every version. Nothing is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.config.config import PipelineConfig

__version__ = "0.1.0"
__all__ = ["__version__", "load_pipeline", "read_table", "run", "validate"]


def load_pipeline(path: str | Path) -> PipelineConfig:
    """One pipeline file as a frozen value. Raises ConfigError with a line ``file:line:column: ...`` per problem."""
    _own_packages_first()
    from pipelines.config.config_file import load_pipeline as load

    return load(path)


def validate(path: str | Path) -> list[str]:
    """The problems of a pipeline file, one line each; an empty list when it can run."""
    _own_packages_first()
    from paimon_table.errors import ConfigError
    from pipelines.config.config_file import load_pipeline as load

    try:
        load(path)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def run(*paths: str | Path, once: bool = False) -> None:
    """Run pipeline files in this process until SIGTERM or Ctrl-C, or with ``once`` until all records are read.

    Call it on the main thread: it handles SIGTERM and Ctrl-C, and ends Spark's session. Raises the TidemarkError that
    ended a pipeline.
    """
    _own_packages_first()
    from pipelines.config.config_file import load_pipelines
    from pipelines.run import run_pipelines
    from pipelines.spark.java import check_java

    configs = load_pipelines(paths)
    check_java()
    run_pipelines(configs, once)


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, options: Mapping[str, str] | None = None
) -> pa.Table:
    """The merged rows of the present state of a Paimon table, all in memory; without Spark.

    ``path`` is the directory of the table, or a ``file://`` or ``s3://`` URI; ``options`` give access to S3.
    """
    _own_packages_first()
    from paimon_table import Table

    return Table.open_for_reading(str(path), dict(options or {})).to_arrow(columns)


def _own_packages_first() -> None:
    from tidemark.own_packages import check_own_packages

    check_own_packages()
