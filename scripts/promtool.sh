#!/usr/bin/env bash
# Prints where Prometheus' promtool is: that of the machine, else of Debian's package, which is unpacked into .cache.
set -euo pipefail
if command -v promtool; then
  exit 0
fi
cd "$(dirname "$0")/.."
cache=$PWD/.cache/prometheus
if [ ! -x "$cache/promtool" ]; then
  if ! command -v apt-get >/dev/null; then
    echo "promtool is not there, and there is no apt-get to fetch it with" >&2
    exit 1
  fi
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  (cd "$unpacked" && { apt-get download --quiet=2 prometheus || { apt-get update --quiet=2 && apt-get download --quiet=2 prometheus; }; }) >&2
  dpkg-deb --extract "$unpacked"/prometheus_*.deb "$unpacked"
  mkdir -p "$cache"
  mv "$unpacked/usr/bin/promtool" "$cache/promtool.new"
  mv "$cache/promtool.new" "$cache/promtool"
fi
echo "$cache/promtool"
