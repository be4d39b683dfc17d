"""Settings that Prefect reads when it is imported."""

from __future__ import annotations

import logging
import os
from pathlib import Path


def prepare_prefect(verbose: bool) -> None:
    """No telemetry, a private home, patience with its own server; call it before Prefect is imported."""
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    if not verbose:
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
        os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "CRITICAL")
        # Prefect's queue workers log by their class names, outside its own hierarchy.
        for worker in ("EventsWorker", "APILogWorker"):
            logging.getLogger(worker).setLevel(logging.CRITICAL)
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
