# Tidemark as a container: `docker build -t tidemark .`, then `docker run tidemark run /pipelines/NAME.yaml`.
# It holds Spark's Kafka connector and the S3 client: starting a pipeline downloads nothing.
FROM python:3.12-slim-bookworm

# procps: Spark's start scripts call ps. tini: passes SIGTERM on, which stops a pipeline after its running batch.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tidemark
COPY requirements.lock scripts/kafka-jars.sh ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock \
 && ./kafka-jars.sh python
COPY pyproject.toml README.md LICENSE ./
COPY paimon_table paimon_table
COPY sources sources
COPY sinks sinks
COPY pipelines pipelines
COPY tidemark tidemark
# Group root: another user id (`--user 12345:0`, OpenShift) has it, and writes to a volume that begins as a copy of /data.
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
 && rm -r build *.egg-info \
 && useradd --create-home --uid 10001 tidemark \
 && install --directory --owner=tidemark --group=root --mode=0775 /data

# Ports of metrics and page, where a pipeline file opens them (`host: 0.0.0.0`). No HEALTHCHECK: whether there are any, and
# whether this runs a pipeline at all, is for whoever starts it to know; docker-compose.yml and deploy/kubernetes ask /readyz.
EXPOSE 9464 8080
USER tidemark
WORKDIR /tmp
VOLUME /data
ENTRYPOINT ["tini", "--", "tidemark"]
CMD ["--help"]
