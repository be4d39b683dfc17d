"""Printing of a page as PDF with an installed Chromium browser."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from equistrata.errors import InputError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SECONDS = 120

Printer = Callable[[Path, Path], None]


def printer() -> Printer:
    """Return a function that prints pages. If no browser is installed, raise an InputError."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is not None:
        return lambda page, pdf: _chromium(browser, page, pdf)
    raise InputError(
        "no program that prints PDF was found; install Chromium, or leave out --pdf and print the page from a browser"
    )


def print_pdf(page: Path) -> bool:
    """Print a page to a PDF file next to it. The page is not changed.

    Returns
    -------
    bool
        True if the page was printed.
    """
    pdf = page.with_suffix(".pdf")
    try:
        printer()(page, pdf)
    except (OSError, subprocess.SubprocessError):
        pdf.unlink(missing_ok=True)
    return pdf.is_file() and pdf.stat().st_size > 0


def _chromium(browser: str, page: Path, pdf: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="equistrata-chromium-") as profile:
        output = ("--no-pdf-header-footer", f"--print-to-pdf={pdf.absolute()}")
        command = [browser, *QUIET, f"--user-data-dir={profile}", *output, page.absolute().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
