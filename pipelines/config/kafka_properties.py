"""Properties of Kafka's client (consumer and admin client of 3.9, which Spark 4.0 includes) and their values."""

from __future__ import annotations

from collections.abc import Mapping

_ANY = """
client.id client.rack config.providers group.instance.id metric.reporters partition.assignment.strategy
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.service.name
sasl.login.callback.handler.class sasl.login.class sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url security.providers ssl.cipher.suites ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.protocol ssl.provider
ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
ssl.truststore.password
"""
_BOOLEANS = """
allow.auto.create.topics auto.include.jmx.reporter check.crcs enable.metrics.push exclude.internal.topics
sasl.oauthbearer.header.urlencode
"""
_NUMBERS = """
connections.max.idle.ms default.api.timeout.ms fetch.max.bytes fetch.max.wait.ms fetch.min.bytes heartbeat.interval.ms
max.partition.fetch.bytes max.poll.interval.ms metadata.max.age.ms metrics.num.samples metrics.sample.window.ms
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms
retry.backoff.ms sasl.kerberos.min.time.before.relogin sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.retry.backoff.max.ms
sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms send.buffer.bytes
session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
"""
_FRACTIONS = """
sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter
"""

BOOLEANS = frozenset(_BOOLEANS.split())
NUMBERS = frozenset(_NUMBERS.split())
"""Whole numbers; -1 lets the system choose a buffer."""
FRACTIONS = frozenset(_FRACTIONS.split())

SECURITY_PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
WORDS: Mapping[str, tuple[str, ...]] = {
    SECURITY_PROTOCOL: ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "metadata.recovery.strategy": ("rebootstrap", "none"),
    "metrics.recording.level": ("INFO", "DEBUG", "TRACE"),
}
"""Properties that take one of these words and nothing else."""
ANY_CASE = frozenset({SECURITY_PROTOCOL, "metadata.recovery.strategy"})

PLUGGABLE_WORDS: Mapping[str, tuple[str, ...]] = {
    MECHANISM: ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
    "ssl.truststore.type": ("JKS", "PKCS12", "PEM"),
    "ssl.keystore.type": ("JKS", "PKCS12", "PEM"),
}
"""Properties to whose words a plug-in can add some."""

KNOWN = frozenset(_ANY.split()) | BOOLEANS | NUMBERS | FRACTIONS | WORDS.keys() | PLUGGABLE_WORDS.keys()

OF_TIDEMARK: Mapping[str, str] = {
    "bootstrap.servers": "use `bootstrap_servers`",
    "bootstrap.controllers": "use `bootstrap_servers`: controllers hold no records",
    "subscribe": "use `topics`",
    "subscribePattern": "use `topics`",
    "assign": "use `topics`",
    "startingOffsets": "use `start`",
    "startingOffsetsByTimestamp": "use `start`",
    "startingOffsetsByTimestampStrategy": "use `start`",
    "startingTimestamp": "use `start`",
    "endingOffsets": "a pipeline reads to the end",
    "endingOffsetsByTimestamp": "a pipeline reads to the end",
    "endingTimestamp": "a pipeline reads to the end",
    "auto.offset.reset": "use `start`",
    "maxOffsetsPerTrigger": "use `max_records_per_batch`",
    "minOffsetsPerTrigger": "use `trigger.interval`",
    "maxTriggerDelay": "use `trigger.interval`",
    "minPartitions": "Tidemark chooses the number of tasks by the cores",
    "maxRecordsPerPartition": "Tidemark chooses the number of tasks by the cores",
    "includeHeaders": "headers are always read",
    "failOnDataLoss": "records that are lost always stop the pipeline, with what to do",
    "fetchOffset.numRetries": "use the client property default.api.timeout.ms to wait longer",
    "fetchOffset.retryIntervalMs": "use the client property default.api.timeout.ms to wait longer",
    "kafkaConsumer.pollTimeoutMs": "use the Spark property spark.network.timeout",
    "groupIdPrefix": "offsets live in the checkpoint and in the tables",
    "max.poll.records": "use `max_records_per_batch`",
    "enable.auto.commit": "offsets live in the checkpoint and in the tables",
    "auto.commit.interval.ms": "offsets live in the checkpoint and in the tables",
    "key.deserializer": "use `format`",
    "value.deserializer": "use `format`",
    "group.id": "offsets live in the checkpoint and in the tables. To commit them to Kafka too, set `group_id` next "
    "to `options`",
    "group.protocol": "Tidemark gives the partitions to its tasks itself",
    "group.remote.assignor": "Tidemark gives the partitions to its tasks itself",
    "interceptor.classes": "Spark's Kafka source does not allow interceptors",
}
"""Client properties and options of Spark's reader that a pipeline file sets elsewhere, or cannot set."""

OF_PRODUCERS = frozenset(
    [
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "transaction.timeout.ms",
        "transactional.id",
        "value.serializer",
    ]
)

LOGIN_MODULES: Mapping[str, tuple[str, ...]] = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
}
"""Login modules of Kafka and Java, and their mechanisms."""
