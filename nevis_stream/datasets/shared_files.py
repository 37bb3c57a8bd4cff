"""The folder of shared data sets."""

import os
from pathlib import Path


def shared_directory() -> Path:
    """Returns the folder of shared data sets; it need not exist."""
    named = os.environ.get("NEVIS_STREAM_SHARED")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared"
