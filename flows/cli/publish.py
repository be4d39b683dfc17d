"""The command `equistrata publish RELEASE DESTINATION`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

out = Console()

PUBLISH_HELP = """Publish a release: exactly the files that its manifest lists, each held against its SHA-256.

Nothing else that lies in the folder goes along. What is seeded, incomplete or edited is refused.

[bold]Examples[/bold]

  equistrata publish ny2018 /srv/public/ny2018

  equistrata publish releases/2026-11 2026-11.zip

The price is that of all that is published together, public audits included.
"""


def publish_command(
    release: Annotated[Path, typer.Argument(help="The release's folder.")],
    destination: Annotated[Path, typer.Argument(help="A folder to make, or a file to make if it ends in .zip.")],
) -> None:
    """See PUBLISH_HELP."""
    from equistrata.flows.publication.publish import publish_release

    made = publish_release(release, destination)
    guarantee = made.card["guarantee"]
    out.print("[bold green]published[/] ", end="")
    out.print(f"{made.place} ({made.files} files)", markup=False, highlight=False, soft_wrap=True)
    out.print(
        f"{made.card['name']}: ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g} (ρ = {guarantee['rho']:.6g}) for all "
        "of it together",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    if guarantee.get("caveats"):
        out.print("the guarantee is weaker than this price says: see its card", markup=False, highlight=False)
    out.print(f"SHA-256 of its manifest: {made.manifest}", markup=False, highlight=False, soft_wrap=True)
