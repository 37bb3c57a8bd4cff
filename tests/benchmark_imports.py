"""Imports every script of benchmarks/, and every study of experiments/, in one process, asks it for
its help, prints the faults.
"""

import contextlib
import io
import re
import runpy
import sys
import time
import traceback
from pathlib import Path

from absl import flags, logging

OURS = (
    "benchmarks.",
    "launch.",
    "nevis_stream.launch.",
    "experiments.",
    "nevis_stream.experiments.",
)

STARTED = re.compile(r"^    (entry|engine)\.(start|guard)\(", re.M)

if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)  # and with it its flags are there
    common = set(flags.FLAGS)
    root = Path(__file__).resolve().parents[1]
    studies = [
        path
        for path in (root / "experiments").rglob("*.py")
        if ("_studies" in path.parent.name and path.stem != "__init__")
        or "engine.start(" in path.read_text()
    ]
    for path in sorted([*(root / "benchmarks").glob("*.py"), *studies]):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for name in set(flags.FLAGS) - common:  # each script defines its own
            delattr(flags.FLAGS, name)
        for name in [name for name in sys.modules if name.startswith(OURS)]:
            del sys.modules[name]
        sys.argv[1:] = ["--help"]
        output = io.StringIO()
        begin, status = time.process_time(), None
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
        except Exception:
            print(f"{module}: {traceback.format_exc()}")
            continue
        runs = "__main__" in path.read_text()
        if runs and not STARTED.search(path.read_text()):
            print(f"{module}: a user's mistake shows a traceback; see nevis_stream.launch.entry")
        if runs and (status != 0 or "usage" not in output.getvalue().lower()):
            print(f"{module}: --help ends with {status}:\n{output.getvalue()[-300:]}")
        if time.process_time() - begin > 10:
            print(f"{module}: {time.process_time() - begin:.0f} CPU seconds for --help")
