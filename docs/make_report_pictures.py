"""Take the pictures of reports of the sample (needs Chromium and the extra 'dev').

equistrata release --config docs/example_release.yaml --output first --page
equistrata release --strata SEX,RAC1P --output stratified && equistrata release --output vanilla
equistrata audit stratified vanilla --output inside
equistrata audit stratified vanilla --public --epsilon 2 --output outside
python docs/make_report_pictures.py first-expected/expected.html outside/audit.html inside/internal-audit.html
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from equistrata.flows.audit.pdf import BROWSERS

FIGURES = Path(__file__).parent / "figures"
SIZES = {"desktop": (1000, 1500, 1), "phone": (390, 844, 1.5)}  # width and height in CSS pixels, and their density
SCREENS = {"desktop": (1000, 850, 1), "phone": (390, 844, 1.5)}  # of the page that a release ends with: its first one
PARTS = {"": None, "-figures": "#figures"}
COLOURS = 128  # so that a picture is small

with sync_playwright() as driver:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
    for kind, page_file in zip(("release", "public", "internal"), sys.argv[1:]):  # noqa: B905 the first ones alone, too
        for size, (width, height, density) in (SCREENS if kind == "release" else SIZES).items():
            name = "release-page" if kind == "release" else f"audit-{kind}"
            context = browser.new_context(
                viewport={"width": width, "height": height},
                device_scale_factor=density,
                reduced_motion="reduce",
                color_scheme="dark" if kind == "internal" else "light",
            )
            page = context.new_page()
            page.goto(Path(page_file).absolute().as_uri())
            for part, place in PARTS.items() if kind != "release" else [("", None)]:
                if place is not None:
                    page.evaluate("place => document.querySelector(place).scrollIntoView()", place)
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                small = picture.quantize(COLOURS, dither=Image.Dither.NONE)
                small.save(FIGURES / f"{name}-{size}{part}.png", optimize=True)
            context.close()
    browser.close()
