"""The command `equistrata verify`, which checks a release using its folder only.

The command can also write descriptions of the release.
"""

from __future__ import annotations

import json
from pathlib import Path

from equistrata.errors import InputError
from equistrata.flows.cli.console import print_json, print_lines
from equistrata.flows.cli.options import command
from equistrata.flows.config.settings import ByPlace, Flag, Settings, setting


class VerifySettings(Settings):
    release: ByPlace[Path] = setting(..., "Folder or zip file of the release.")
    registry: Path | None = setting(None, "Write an entry for the registry of deployments to this file (YAML).")
    croissant: Path | None = setting(None, "Write schema.org and Croissant metadata to this file (JSON-LD).")
    dcat: Path | None = setting(None, "Write a description as a W3C DCAT 3 data set to this file (JSON-LD).")
    license: str | None = setting(None, "Address of the license, for --croissant and --dcat.")
    url: str | None = setting(None, "Address of the web page of the release, for --croissant and --dcat.")
    as_json: Flag = setting(False, "Print JSON.", alias="json")


@command("verify", VerifySettings)
def verify_command(settings: VerifySettings) -> None:
    """Check a release using its folder or zip file only. The price is computed again.

    The files, the rows, the rules and the measurements are checked as well. The exit code is 0 if all checks pass, and
    2 otherwise. If a check fails, no file is written.

    [bold]Examples[/bold]
      equistrata verify my-release
      equistrata verify my-release --registry entry.yaml --croissant croissant.json --dcat dcat.json

    The public registry of deployments of differential privacy is at registry.opendp.org. An entry contains all fields
    that are known from the card. All fields that only the publisher knows are marked as TO BE FILLED IN.
    """
    from equistrata.analysis.release import Release
    from equistrata.analysis.verify import unlisted
    from equistrata.flows.publication.verified import release_faults, unchecked_release_properties, unpacked
    from equistrata.flows.run.new_files import check_new_file, new_file

    for path in filter(None, (settings.registry, settings.croissant, settings.dcat)):
        check_new_file(path)
    with unpacked(settings.release) as folder:
        release = Release.open(folder)
        found, others = release_faults(release), unlisted(folder)
        if settings.as_json:
            print_json(
                {
                    "faults": found,
                    "not_part_of_the_release": others,
                    "cannot_be_seen": unchecked_release_properties(release),
                }
            )
        elif not found:
            guarantee = release.card["guarantee"]
            print_lines(
                f"verified {settings.release}: files, rows, measurements and price agree "
                f"(ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g}, ρ = {guarantee['rho']:.6g})",
                *(f"not part of the release: {name}" for name in others),
                "From outside no one can see:",
                *(f"  {sentence}" for sentence in unchecked_release_properties(release)),
            )
        if found:
            raise InputError(f"release {str(settings.release)!r} is not valid: " + "; ".join(found))
        from equistrata.analysis.interchange.metadata import croissant, dcat, registry_entry

        if settings.registry is not None:
            import yaml

            entry = yaml.safe_dump(registry_entry(release), sort_keys=False, allow_unicode=True, width=120)
            with new_file(settings.registry) as made:
                made.write_text(entry, "utf-8")
        for target, described in ((settings.croissant, croissant), (settings.dcat, dcat)):
            if target is not None:
                said = json.dumps(described(release, settings.license, settings.url), indent=2, ensure_ascii=False)
                with new_file(target) as made:
                    made.write_text(said + "\n", "utf-8")
