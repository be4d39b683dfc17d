"""The command `equistrata publish`."""

from __future__ import annotations

from pathlib import Path

from equistrata.flows.cli.console import out, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Settings, setting


class PublishSettings(Settings):
    release: ByPlace[Path] = setting(..., "Folder of the release.")
    destination: ByPlace[Path] = setting(..., "Folder to create, or a file if it ends in .zip.")


@command("publish", PublishSettings)
def publish_command(settings: PublishSettings) -> None:
    """Publish the files of a release that are listed in its manifest, after a check of each SHA-256 hash.

    No other files in the folder are published. A release that is seeded, incomplete or edited is refused.

    [bold]Examples[/bold]
      equistrata publish ny2018 /srv/public/ny2018
      equistrata publish releases/2026-11 2026-11.zip

    The privacy cost is the cost of all published results together, including public audits.
    """
    from equistrata.flows.publication.publish import publish_release

    made = publish_release(settings.release, settings.destination)
    guarantee = made.card["guarantee"]
    out.print("[bold green]published[/] ", end="")
    print_lines(
        f"{made.place} ({made.files} files)",
        f"{made.card['name']}: ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g} (ρ = {guarantee['rho']:.6g}) "
        "for all of it together",
    )
    if guarantee.get("caveats"):
        print_lines("the guarantee is weaker than these numbers: see the caveats on its card")
    print_lines(f"SHA-256 of its manifest: {made.manifest}")
