#!/usr/bin/env bash
# Puts Spark's Kafka connector beside the jars of the installed pyspark, so that no start of a pipeline fetches anything:
# scripts/kafka-jars.sh PYTHON [DIRECTORY]
#
# What pyspark has already is left out. TIDEMARK_IVY_SETTINGS names an Ivy settings file, for machines that reach Maven
# artifacts only through a mirror.
set -euo pipefail

python=$1
read -r jars version < <("$python" -c 'import os, pyspark
print(os.path.join(os.path.dirname(pyspark.__file__), "jars"), pyspark.__version__)')
target=${2:-$jars}

java=java
if [ -n "${JAVA_HOME:-}" ]; then
  java="$JAVA_HOME/bin/java"
fi
fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT

settings=()
if [ -n "${TIDEMARK_IVY_SETTINGS:-}" ]; then
  settings=(-settings "$TIDEMARK_IVY_SETTINGS")
fi
cat >"$fetched/ivy.xml" <<END
<ivy-module version="2.0">
  <info organisation="tidemark" module="kafka-jars"/>
  <configurations><conf name="run"/></configurations>
  <dependencies defaultconf="run->master,runtime()">
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="$version"/>
  </dependencies>
</ivy-module>
END
"$java" -jar "$jars"/ivy-*.jar "${settings[@]}" -cache "$fetched/cache" -ivy "$fetched/ivy.xml" -confs run \
  -types jar bundle -retrieve "$fetched/jars/[artifact]@[revision].[ext]" >"$fetched/log" 2>&1 || {
  cat "$fetched/log" >&2
  echo "tidemark: cannot fetch the Kafka connector of Spark $version: see Ivy's messages above" >&2
  exit 1
}

for jar in "$fetched"/jars/*.jar; do
  name=$(basename "$jar")
  artifact=${name%%@*}
  if ! compgen -G "$jars/$artifact-[0-9]*.jar" >/dev/null; then
    install -m 644 "$jar" "$target/${name/@/-}"
  fi
done
compgen -G "$target/spark-sql-kafka-0-10_2.13-$version.jar" >/dev/null
