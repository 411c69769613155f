"""A headless Chromium for tests of pages; installed when the first test asks for it, where that is possible."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from tests.support.waiting import seconds

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "artifacts" / "page"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--lang=en",
)


@cache
def _missing() -> str | None:
    """Why there is no browser."""
    done = subprocess.run(
        [ROOT / "scripts/chromium.sh"], capture_output=True, text=True, check=False, timeout=seconds(400)
    )
    if done.returncode != 0:
        return f"no browser: {done.stderr.strip() or 'scripts/chromium.sh failed'}"
    found = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no browser: {', '.join(found)} cannot be found" if found else None


@contextmanager
def chromium(profile: Path, width: int = 1280, height: int = 1000) -> Iterator[Chrome]:
    """A browser with a profile of its own; the test is skipped where there is none and none can be installed."""
    missing = _missing()
    if missing is not None:
        pytest.skip(missing)
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, Service(shutil.which("chromedriver")))
    try:
        browser.set_page_load_timeout(seconds(60))
        browser.set_script_timeout(seconds(60))
        yield browser
    finally:
        browser.quit()


def resize(browser: Chrome, width: int, height: int) -> None:
    """The page in a window of this size; windows themselves cannot be as narrow as a phone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(browser: Chrome, scheme: str) -> None:
    """The page in ``light`` or ``dark`` mode."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def keep_screenshot(browser: Chrome, name: str) -> Path:
    """Save a screenshot, for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    assert browser.save_screenshot(str(path))
    return path
