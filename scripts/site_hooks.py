"""Hooks of mkdocs.yml: the decisions in the navigation, and links of pages to files of the repository.

Pages link to files beside docs/ by relative paths, which a forge follows. The site has these files nowhere: with
``repo_url`` such a link leads to the file in the forge, at the tag or branch TIDEMARK_REF; without it the text stays.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
_ROOT = Path(__file__).resolve().parents[1]


def on_config(config: Any) -> Any:
    """Write out ``decisions/*.md`` of the navigation in the order of their numbers."""
    config.nav = [_written_out(entry) for entry in config.nav]
    return config


def _written_out(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _written_out(below) for title, below in entry.items()}
    if isinstance(entry, list):
        return [_written_out(below) for below in entry]
    if isinstance(entry, str) and "*" in entry:
        return [path.relative_to(_ROOT / "docs").as_posix() for path in sorted((_ROOT / "docs").glob(entry))]
    return entry


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of docs/ to the forge. A target that is not in the repository stays, and mkdocs refuses it."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def changed(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        if path.startswith(("docs/", "..")) or not (_ROOT / path).exists():
            return match[0]
        if not config.repo_url:
            return match[1]
        kind = "tree" if (_ROOT / path).is_dir() else "blob"
        place = f"{config.repo_url.rstrip('/')}/{kind}/{os.environ.get('TIDEMARK_REF', 'main')}/{path}"
        return f"[{match[1]}]({place}{match[3] or ''})"

    return _LINK.sub(changed, markdown)
