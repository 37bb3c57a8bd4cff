"""launch.run, which prints last how many configs and learners it made."""

import atexit
import collections
import sys

from nevis_stream.configs.run_config import RunConfig
from nevis_stream.launch import config_flag, run
from nevis_stream.learners.config import BaselineConfig
from nevis_stream.learners.parts.baseline import Baseline

made = collections.Counter()


def count(counted):
    initialise = counted.__init__

    def counting(self, *args, **values):
        made[counted.__name__] += 1
        initialise(self, *args, **values)

    counted.__init__ = counting


if __name__ == "__main__":
    for each in (RunConfig, BaselineConfig, Baseline):
        count(each)
    atexit.register(lambda: print(dict(made), file=sys.stderr))
    config_flag.start(run.main)
