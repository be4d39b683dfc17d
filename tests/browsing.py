"""Functions that open pages in Chromium and record errors.

If there is no Chromium on the system, the browser of playwright is used.
"""

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
    """Return a browser, or skip the test if no browser can be started."""
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
    """Open a page and return it with a list of its messages, errors and requests for other resources.

    Parameters
    ----------
    within : str, optional
        A prefix of the addresses that the page is allowed to request.
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
    """Return the time in milliseconds from the start of the navigation to the first picture, or None if there is no
    picture.
    """
    return page.evaluate(_FIRST_PICTURE)


def violations(page):
    """Return the violations that axe-core finds in a page, as a list of the rule, the first element and the reason."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed (extra 'dev')")
    found = axe.Axe().run(page, options={"preload": False}).response["violations"]
    return [(each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"]) for each in found]


def too_wide(page, size):
    """Return the number of pixels by which the page is wider than the screen."""
    return max(page.evaluate("document.documentElement.scrollWidth") - SIZES[size][0], 0)
