"""What is found in the user's folder: `python -m tests.launch.own_code MODULE MODULE:CLASS`."""

import os
import sys

from nevis_stream import user_code


def main(module, name):
    user_code.look_in([os.getcwd()])
    try:
        exec("import helper", {"__name__": "pandas"})
    except ImportError:
        pass
    else:
        raise SystemExit("a library finds a file of the user's folder")
    learner = getattr(user_code.import_module(module), name.partition(":")[2])
    print(sys.modules["helper"].__name__, learner().late().__name__)
    for library in ("numexpr", "torch"):
        try:
            exec(f"import {library}", {"__name__": "pandas"})
        except ImportError:
            continue
        raise SystemExit(f"a library finds {library}")
    print("hidden")


if __name__ == "__main__":
    main(*sys.argv[1:])
