"""What is found in the user's folder.

python -m tests.launch.own_code MODULE MODULE:CLASS LIBRARIES: MODULE is the user's, which LIBRARIES
that are there too are not.
"""

import os
import sys

from nevis_stream import user_code


def main(module, name, *libraries):
    user_code.look_in([os.getcwd()])
    try:
        exec("import helper", {"__name__": "pandas"})
    except ImportError:
        pass
    else:
        raise SystemExit("a library finds a file of the user's folder")
    learner = getattr(user_code.import_module(module), name.partition(":")[2])
    print(sys.modules["helper"].__name__, learner().late().__name__)
    for ours in ("nevis_stream.learners.config", "learners.table", "flax.linen"):
        user_code.import_module(ours)  # as where one is named as the learner
    sys.path[:] = []  # as if none were installed
    for library in libraries:
        sys.modules.pop(library, None)
        for importer in ("pandas", "nevis_stream.launch", "learners", "experiments", "flax"):
            try:
                exec(f"import {library}", {"__name__": importer})
            except ImportError:
                continue
            raise SystemExit(f"{importer} finds {library}")
    print("hidden")


if __name__ == "__main__":
    main(*sys.argv[1:])
