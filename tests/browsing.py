"""Pages opened in a Chromium, with a watch on what goes wrong: the system's, else one that playwright installed."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

from equistrata.flows.audit.pdf import BROWSERS

SIZES = {"desktop": (1280, 900), "phone": (390, 844), "zoomed": (320, 640), "wide": (1600, 1000)}
_FIRST_PICTURE = """async () => {
    const picture = document.querySelector("main img, article img, figure svg");
    if (picture === null) return null;
    if (picture.decode) await picture.decode();
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now();
}"""


@contextmanager
def chromium():
    """A browser; skips where none starts."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium starts here ({str(error).splitlines()[0]})")
        yield browser
        browser.close()


@contextmanager
def opened(browser, address, size="desktop", scheme="light", within=None):
    """A page, and what went wrong with it so far: messages, errors, and requests for anything but itself.

    Args:
        within: requests for what begins so are its own, too.
    """
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, wrong = context.new_page(), []

    def own(url):
        return url == address or (within is not None and url.startswith((within, "data:")))

    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", lambda request: own(request.url) or wrong.append(f"request: {request.url[:100]}"))
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url[:100]}"))
    try:
        page.goto(address)
        yield page, wrong
    finally:
        context.close()


def first_picture(page):
    """Milliseconds from the start of navigation until the first picture of the text is drawn; None without one."""
    return page.evaluate(_FIRST_PICTURE)


def violations(page):
    """What axe-core finds wrong with a page: rule, the first piece of it, and why."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed (extra 'dev')")
    found = axe.Axe().run(page, options={"preload": False}).response["violations"]
    return [(each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"]) for each in found]


def too_wide(page, size):
    """By how many pixels a page is wider than the screen."""
    return max(page.evaluate("document.documentElement.scrollWidth") - SIZES[size][0], 0)
