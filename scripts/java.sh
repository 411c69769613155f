#!/usr/bin/env bash
# Says in one line what to install unless Java 17 or 21 answers: what Spark would start, that is JAVA_HOME's, else the PATH's.
set -euo pipefail

java=java
if [ -n "${JAVA_HOME:-}" ]; then
  java="$JAVA_HOME/bin/java"
fi
advice="install a Java 17 or 21 runtime (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
advice="$advice and let JAVA_HOME or PATH point to it"

if ! text=$("$java" -version 2>&1); then
  echo "tidemark: Java does not run ($java): $advice" >&2
  exit 1
fi
major=$(sed -n 's/.*version "\([0-9]*\).*/\1/p' <<<"$text" | head -n 1)
case "$major" in
17 | 21) ;;
*)
  echo "tidemark: found Java ${major:-of an unknown version} ($java), Spark needs 17 or 21: $advice" >&2
  exit 1
  ;;
esac
