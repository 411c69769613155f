"""The site: `make docs` builds it, every page is in it, and a link that leads nowhere ends the build."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT
from tests.support.waiting import seconds

pytestmark = pytest.mark.slow


def build(root: Path, site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """``mkdocs build`` over the pages below ``root``."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
        capture_output=True,
        text=True,
        timeout=seconds(120),
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The pages and what builds them, in a place of their own."""
    for name in ("docs", "scripts", "deploy", "examples"):
        shutil.copytree(ROOT / name, tmp_path / "checkout" / name)
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "SECURITY.md", "Dockerfile", "docker-compose.yml"):
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    return tmp_path / "checkout"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout, as a release builds it."""
    place = tmp_path_factory.mktemp("site")
    done = build(ROOT, place, TIDEMARK_REPOSITORY="https://forge.example/t/t", TIDEMARK_REF="v9")
    assert done.returncode == 0, done.stderr
    return place


def test_every_page_is_in_the_navigation(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    home = (site / "index.html").read_text()
    assert len(pages) > 30
    assert [page for page in pages if f'href="{page}.html"' not in home] == []
    assert [page for page in pages if not (site / f"{page}.html").exists()] == []


def test_links_out_of_the_pages_lead_to_the_forge(site: Path) -> None:
    operations = (site / "OPERATIONS.html").read_text()
    assert 'href="https://forge.example/t/t/blob/v9/Dockerfile"' in operations
    assert 'href="https://forge.example/t/t/tree/v9/deploy/kubernetes"' in operations


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    loading = re.compile(
        r"""<(?:script|img|iframe|link rel="(?:stylesheet|preconnect)")[^>]*(?:src|href)="(https?:[^"]*)"""
    )
    assert {url for page in site.rglob("*.html") for url in loading.findall(page.read_text())} == set()


def test_lost_pages_and_links_that_lead_nowhere_end_the_build(checkout: Path, tmp_path: Path) -> None:
    (checkout / "docs" / "LOST.md").write_text("# Lost\n")
    links = ("NOWHERE.md", "TYPES.md#nowhere", "../NOWHERE", "#no-heading")
    with (checkout / "docs" / "HOWTO.md").open("a") as page:
        page.writelines(f"\n[x]({link})\n" for link in links)
    done = build(checkout, tmp_path / "site")
    assert done.returncode != 0
    assert [name for name in ("LOST.md", *links) if name not in done.stderr] == []
