"""Imports every script of benchmarks/ in one process, asks it for its help, prints the faults."""

import contextlib
import io
import re
import runpy
import sys
import time
import traceback
from pathlib import Path

from absl import flags, logging

if __name__ == "__main__":
    logging.set_verbosity(logging.WARNING)  # and with it its flags are there
    common = set(flags.FLAGS)
    for path in sorted((Path(__file__).resolve().parents[1] / "benchmarks").glob("*.py")):
        for name in set(flags.FLAGS) - common:  # each script defines its own
            delattr(flags.FLAGS, name)
        for name in [name for name in sys.modules if name.startswith(("benchmarks.", "launch."))]:
            del sys.modules[name]
        sys.argv[1:] = ["--help"]
        output = io.StringIO()
        begin, status = time.process_time(), None
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_module(f"benchmarks.{path.stem}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
        except Exception:
            print(f"{path.stem}: {traceback.format_exc()}")
            continue
        runs = "__main__" in path.read_text()
        if runs and not re.search(r"^    (entry\.)?(start|guard)\(", path.read_text(), re.M):
            print(f"{path.stem}: a user's mistake shows a traceback; see nevis_stream.launch.entry")
        if runs and (status != 0 or "usage" not in output.getvalue().lower()):
            print(f"{path.stem}: --help ends with {status}:\n{output.getvalue()[-300:]}")
        if time.process_time() - begin > 10:
            print(f"{path.stem}: {time.process_time() - begin:.0f} CPU seconds for --help")
