"""Runs commands in a stranger's folder, each in a fork of one process that has imported libraries.

python -m tests.launch.stranger COMMANDS.json: a list of [by, name, words], by "nevis-stream" or
"python -m"; prints one line of JSON for each.
"""

import json
import os
import runpy
import sys
import tempfile
from pathlib import Path

LIBRARIES = ("numexpr", "bottleneck", "torch", "ray", "jax_plugins.x")  # looked for, not installed


def main(file):
    import nevis_stream.report  # noqa: F401
    import nevis_stream.runner  # noqa: F401
    import nevis_stream.trained_runs.caches  # noqa: F401

    for by, name, words in json.loads(Path(file).read_text()):
        with tempfile.TemporaryFile("w+") as out:
            if (child := os.fork()) == 0:
                _become(out.fileno(), by, name, words)
            _, status = os.waitpid(child, 0)
            out.seek(0)
            done = {"status": os.waitstatus_to_exitcode(status), "printed": out.read()}
        print(json.dumps(done), flush=True)


def _become(out, by, name, words):
    os.dup2(out, 1)
    os.dup2(out, 2)
    status = 1
    try:
        _start(by, name, words)
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException as error:
        print("Traceback:", repr(error))
    finally:
        _import_as_a_library_would()
        sys.stdout.flush()
        os._exit(status if isinstance(status, int) else 1)


def _start(by, name, words):
    if by == "python -m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = ["-m", *words]  # what Python does
        runpy.run_module(f"launch.{name.replace('-', '_')}", run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = ["nevis-stream", name, *words]
    from nevis_stream.launch.console import main

    main()


def _import_as_a_library_would():
    for library in LIBRARIES:
        try:
            exec(f"import {library}", {"__name__": "pandas.compat"})
        except ImportError:
            continue


if __name__ == "__main__":
    main(sys.argv[1])
