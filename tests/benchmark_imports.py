"""Imports every script of benchmarks/ in one process, and prints those that cannot be imported."""

import importlib
import traceback
from pathlib import Path

from absl import flags

if __name__ == "__main__":
    for path in sorted((Path(__file__).resolve().parents[1] / "benchmarks").glob("*.py")):
        for name in list(flags.FLAGS):  # each script defines its own
            delattr(flags.FLAGS, name)
        try:
            importlib.import_module(f"benchmarks.{path.stem}")
        except Exception:
            print(f"{path.stem}: {traceback.format_exc()}")
