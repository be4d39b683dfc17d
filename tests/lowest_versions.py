"""Print the lowest versions that pyproject.toml allows, as constraints for `pip`.

They are installed by `make test-lowest`.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text("utf-8"))["project"]
named = [each for extra in sys.argv[1:] for each in project["optional-dependencies"][extra]]
for requirement in [*project["dependencies"], *named]:
    if lowest := re.match(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)", requirement):
        print(f"{lowest[1]}=={lowest[2]}")
