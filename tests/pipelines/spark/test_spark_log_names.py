"""The loggers that Tidemark silences are classes of the Spark that is installed."""

from __future__ import annotations

import re
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

import pipelines.spark

LOGGER = re.compile(r"^logger\.\w+\.name = (\S+)$", re.MULTILINE)


@pytest.mark.slow
def test_every_silenced_class_has_one_of_its_names_in_the_installed_spark() -> None:
    names = LOGGER.findall(Path(pipelines.spark.__path__[0], "log4j2.properties").read_text())
    found: set[str] = set()
    for jar in Path(str(files("pyspark"))).glob("jars/spark-*.jar"):
        with zipfile.ZipFile(jar) as content:
            found.update(content.namelist())
    known = {_class(name) for name in names if f"{name.replace('.', '/')}.class" in found}
    assert known == {_class(name) for name in names} != set()


def _class(name: str) -> str:
    return name.rpartition(".")[2]
