"""Properties of a session: ports on loopback, private local files, nothing secret on a command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paimon_table.errors import ConfigError
from pipelines.config.config import PipelineConfig
from pipelines.spark.session_properties import (
    merged_properties,
    session_properties,
    with_kafka_connector,
    without_sensitive,
)


def config(tmp_path: Path, reader: str | None = None, /, **spark: str) -> PipelineConfig:
    """Of dumps, or of Kafka with this reader."""
    kafka = {"kafka": {"bootstrap_servers": "k:9092", "topics": ["t"], "reader": reader}}
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "name": "shop",
            "source": {"format": "debezium-json", **(kafka if reader else {"files": {"path": str(tmp_path)}})},
            "checkpoint": str(tmp_path / "checkpoint"),
            "catalog": {"warehouse": str(tmp_path / "warehouse")},
            "spark": spark,
            "otherwise": "create",
        }
    )


def properties(tmp_path: Path, master: str, is_joined: bool = False, /, **spark: str) -> dict[str, str]:
    return session_properties([config(tmp_path, **spark)], master, is_joined, [str(tmp_path)])


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_local_master_listens_on_loopback_with_authentication_in_private_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_joined: bool
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    found = properties(tmp_path, "local[2]", is_joined)
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert found["spark.authenticate"] == "true"
    assert re.fullmatch(rf"{tmp_path}/tidemark-\d+/\d+-\d+/spark", found["spark.local.dir"])
    assert ("spark.python.daemon.module" in found) is not is_joined, "its workers need not have our packages"


def test_the_values_of_the_file_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    given = {"spark.driver.host": "10.1.1.1", "spark.authenticate": "false", "spark.ui.enabled": "true"}
    found = properties(tmp_path, "local[*]", **given)
    assert given.items() <= found.items() and "spark.driver.bindAddress" not in found
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.1.2")
    assert "spark.driver.host" not in properties(tmp_path, "local[*]")


@pytest.mark.parametrize(
    ("master", "authenticates"),
    [("yarn", None), ("spark://m:7077", None), ("k8s://https://c", "true"), ("local-cluster[1,1,1024]", None)],
)
def test_masters_elsewhere_are_reached_as_the_cluster_says(
    tmp_path: Path, master: str, authenticates: str | None
) -> None:
    found = properties(tmp_path, master)
    assert found.get("spark.authenticate") == authenticates
    assert ("spark.driver.host" in found) is master.startswith("local-cluster")


@pytest.mark.parametrize("is_joined", [False, True])
def test_executors_have_our_daemon_of_workers_which_they_get_with_our_code(tmp_path: Path, is_joined: bool) -> None:
    for master in ("spark://m:7077", "local-cluster[1,1,1024]"):
        found = properties(tmp_path, master, is_joined)
        assert found["spark.python.daemon.module"] == "pipelines.worker_daemon", master
    own = properties(tmp_path, "yarn", is_joined, **{"spark.python.daemon.module": "pyspark.daemon"})
    assert own["spark.python.daemon.module"] == "pyspark.daemon"


def test_command_lines_hold_no_secrets(tmp_path: Path) -> None:
    found = properties(
        tmp_path,
        "yarn",
        **{
            "spark.hadoop.fs.s3a.secret.key": "s1",
            "spark.hadoop.fs.s3a.access.key": "s2",
            "spark.executorEnv.TOKENS": "s3",
            "spark.ssl.keyPassword": "s4",
            "spark.driver.memory": "3g",
        },
    )
    shown = without_sensitive(found)
    assert not {"s1", "s2", "s3", "s4"} & set(shown.values()) and shown["spark.driver.memory"] == "3g"
    masked = re.compile(found["spark.redaction.regex"])
    assert all(masked.search(name) for name in found if found[name] in {"s1", "s2", "s3", "s4"})


def test_the_kafka_connector_is_fetched_unless_somebody_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    fetched = with_kafka_connector(None)["spark.jars.packages"]
    assert re.fullmatch(r"org\.apache\.spark:spark-sql-kafka-0-10_2\.13:[\d.]+", fetched)
    assert with_kafka_connector("a:b:1") == {"spark.jars.packages": f"a:b:1,{fetched}"}
    assert with_kafka_connector("x:spark-sql-kafka:1") == {"spark.jars.packages": "x:spark-sql-kafka:1"}
    assert with_kafka_connector("") == {}
    assert with_kafka_connector(None, "/jars/spark-sql-kafka-0-10_2.13-4.0.0.jar") == {}
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    assert with_kafka_connector(None) == {} and with_kafka_connector("a:b:1") == {"spark.jars.packages": "a:b:1"}


def test_a_jvm_without_records_compiles_once_and_the_file_has_the_last_word(tmp_path: Path) -> None:
    def java_options(*readers: str | None, **spark: str) -> str:
        configs = [config(tmp_path, reader, **spark) for reader in readers]
        return session_properties(configs, "local[2]", False, [str(tmp_path)])["spark.driver.extraJavaOptions"]

    assert "TieredStopAtLevel" not in java_options("direct", "spark")
    assert "-XX:TieredStopAtLevel=1" in java_options(None)
    assert "-XX:TieredStopAtLevel=1" in java_options("direct")
    given = java_options("direct", **{"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"})
    assert re.findall(r"-XX:TieredStopAtLevel=\d", given)[-1] == "-XX:TieredStopAtLevel=4"


def test_what_a_query_has_fetched_and_not_read_goes_soon_after_it(tmp_path: Path) -> None:
    def of_kafka(**spark: str) -> dict[str, str]:
        return session_properties([config(tmp_path, "spark", **spark)], "local[2]", False, [str(tmp_path)])

    timeout = "spark.kafka.consumer.fetchedData.cache.timeout"
    assert of_kafka()[timeout] == "30s"
    assert of_kafka(**{timeout: "1h"})[timeout] == "1h"
    assert timeout not in properties(tmp_path, "local[2]")


def test_pipelines_of_one_process_agree_on_their_properties(tmp_path: Path) -> None:
    first = config(tmp_path, **{"spark.driver.memory": "1g", "spark.local.dir": "/a"})
    second = config(tmp_path, **{"spark.driver.memory": "2g"}).model_copy(update={"name": "crm"})

    with pytest.raises(ConfigError, match=r"^pipelines shop and crm of one process give spark\.driver\.memory differ"):
        merged_properties([first, second])
    assert merged_properties([first, second.model_copy(update={"spark": first.spark})]) == first.spark.properties
