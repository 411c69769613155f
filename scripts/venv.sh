#!/usr/bin/env bash
# Makes or updates .venv from a lock file with hashes, and installs Tidemark into it: scripts/venv.sh LOCK_FILE
#
# Needs only Python 3.11 to 3.13 with its venv module; PYTHON=... chooses one. A stamp with the checksum of the lock and
# of pyproject.toml makes the second call immediate.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=$1
venv=.venv
stamp="$venv/.installed-$(basename "$lock")"

fail() {
  echo "tidemark: $1" >&2
  exit 1
}

fits() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if fits "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.11, 3.12 or 3.13 found: install one, or run again with PYTHON=/path/to/python3.12"
}

fingerprint() {
  cat "$lock" pyproject.toml | cksum
}

if [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ] && fits "$venv/bin/python"; then
  exit 0
fi

if ! fits "$venv/bin/python"; then
  python=$(find_python)
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python has no venv module: install it (Debian, Ubuntu: apt install python3-venv) and run again"
  echo "tidemark: creating $venv with $("$python" --version)" >&2
  "$python" -m venv --clear "$venv"
fi

echo "tidemark: installing $lock into $venv (takes minutes the first time, later runs skip it)" >&2
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet install)
"${pip[@]}" --require-hashes -r "$lock" || fail "cannot install $lock: see pip's message above; nothing else was changed"
"${pip[@]}" --no-deps --no-build-isolation -e . || fail "cannot install Tidemark into $venv: see pip's message above"
fingerprint >"$stamp"
