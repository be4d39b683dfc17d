"""The names of synthesizers, as commands and configuration take them. Without imports, since these start quickly."""

from typing import Literal

Ours = Literal["aim", "gem", "mst"]
Synthesizer = Literal[Ours, "smartnoise-aim", "smartnoise-mst", "smartnoise-mwem"]
