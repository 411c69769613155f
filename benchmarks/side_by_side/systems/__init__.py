"""The systems that are compared, each an adapter behind ``System``."""

from __future__ import annotations

from benchmarks.side_by_side.systems.paimon_flink import PaimonFlink
from benchmarks.side_by_side.systems.spark_merge import DELTA, ICEBERG
from benchmarks.side_by_side.systems.system import System
from benchmarks.side_by_side.systems.tidemark_pipeline import TidemarkPipeline

SYSTEMS: dict[str, System] = {system.name: system for system in (TidemarkPipeline(), PaimonFlink(), ICEBERG, DELTA)}
"""In the order of the report; the others are compared with the first."""
