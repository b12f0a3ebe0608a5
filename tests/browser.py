"""A headless Chromium for tests of pages; a test that asks for one is skipped where there is none."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def opened(url: str, *, width: int = 1400, height: int = 900):
    """The page at `url`, and the list of addresses that it asked for and of errors of its scripts."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; install .[dev]")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on the path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            asked, errors = [], []
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.goto(url)
            yield page, asked, errors
        finally:
            browser.close()
