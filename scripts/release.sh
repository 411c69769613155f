#!/usr/bin/env bash
# Builds what a release uploads into dist/, and tries it: scripts/release.sh vX.Y.Z
#
# Refuses a tag that is not the version of tidemark/__init__.py, and a version without a section in CHANGELOG.md. Leaves the
# wheel, the source distribution and NOTES.md, the section of the changelog. PYTHON=... chooses the Python (3.11 to 3.13).
set -euo pipefail
cd "$(dirname "$0")/.."

tag=${1:?"which tag? scripts/release.sh vX.Y.Z"}
python=${PYTHON:-python3}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' tidemark/__init__.py)

fail() {
  echo "tidemark: $1" >&2
  exit 1
}

[ "$tag" = "v$version" ] || fail "tag $tag is not v$version: set __version__ in tidemark/__init__.py, commit, and tag that commit"

rm -rf dist build/release
mkdir -p dist
awk -v version="$version" '/^## / { found = index($0, version) > 0; next } found' CHANGELOG.md >dist/NOTES.md
grep -q '[^[:space:]]' dist/NOTES.md || fail "CHANGELOG.md has no section for $version: add '## $version', with the date"
! grep -q "^## Unreleased.*$version" CHANGELOG.md || fail "CHANGELOG.md still says Unreleased: write '## $version, YYYY-MM-DD'"

"$python" -m venv build/release/tools
build/release/tools/bin/pip --quiet install 'build>=1.2' 'twine>=6'
build/release/tools/bin/python -m build --outdir dist .
build/release/tools/bin/twine check --strict dist/*.whl dist/*.tar.gz

"$python" -m venv build/release/try
build/release/try/bin/pip --quiet install dist/*.whl
said=$(cd build/release && try/bin/tidemark --version)
[ "$said" = "tidemark $version" ] || fail "the wheel says '$said' instead of 'tidemark $version'"
(cd build/release && try/bin/tidemark --help >/dev/null)
echo "dist: $(cd dist && echo *)"
