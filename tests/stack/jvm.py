"""A JVM with Kafka's client library and no Spark, for what the driver does in Spark's JVM."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.stack.jars import class_path
from tests.stack.paths import SHORT_LIVED, java_command

JVM_OPTIONS = ["-Xmx128m", "-XX:+UseSerialGC", *SHORT_LIVED]


@contextmanager
def kafka_client_jvm() -> Iterator[Any]:
    """The classes of a JVM, as pyspark's ``spark._jvm`` gives them."""
    (py4j,) = Path(str(files("pyspark"))).glob("jars/py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j),
        classpath=class_path("kafka"),
        javaopts=JVM_OPTIONS,
        java_path=java_command(),
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    # A Spark session of this process, once started, asks its own JVM about the exceptions of any other.
    of_spark, java_gateway.get_return_value = java_gateway.get_return_value, protocol.get_return_value
    try:
        yield gateway.jvm
    finally:
        java_gateway.get_return_value = of_spark
        gateway.shutdown()
