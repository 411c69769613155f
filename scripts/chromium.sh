#!/usr/bin/env bash
# Installs the browser that the tests of the web page drive, where this user may: Debian's Chromium and its driver.
set -euo pipefail
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "chromium and chromedriver are not there, and only root can install them with apt-get" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --yes --quiet=2 --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null
