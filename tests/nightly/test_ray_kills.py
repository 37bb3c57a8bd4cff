"""Every learner on two Ray nodes: workers, the driver and a node are killed at random moments; the
ledger does not change.
"""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.test_kill import VARIANTS, results

# the heads of all tasks at once and closed forms are trained in the driver, not by workers
IN_DRIVER = ("indep+frozen", "closed_form", "frontier")
HITS = ("worker", signal.SIGKILL, "node", signal.SIGTERM, "worker", signal.SIGKILL)


class Nodes:
    """A head and a second node on this machine; the second can be lost."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self._all = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self._second = self._all.add_node(num_cpus=2)
        self.address = self._all.address

    def lose(self) -> None:
        """The second node is gone at once, and another one comes."""
        self._all.remove_node(self._second, allow_graceful=False)
        self._second = self._all.add_node(num_cpus=2)

    def working(self) -> list[psutil.Process]:
        """Processes that run a trial now."""
        result = []
        for node in self._all.list_all_nodes():
            raylet = psutil.Process(next(info.process.pid for info in node.all_processes["raylet"]))
            result += [
                child for child in raylet.children() if "_run_trial" in " ".join(child.cmdline())
            ]
        return result

    def shutdown(self) -> None:
        self._all.shutdown()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        result = Nodes()
        yield result
        result.shutdown()


def drive(run_dir, learner, executor="inline", **options):
    words = [
        sys.executable,
        "-m",
        "tests.kill_target",
        str(run_dir),
        learner,
        "0",
        executor,
        json.dumps(options),
    ]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("learner", VARIANTS)
def test_every_learner_survives_what_ray_can_lose(tmp_path, nodes, learner):
    def ended(driver):
        _, output = driver.communicate(timeout=300)
        assert driver.returncode == 0, output

    def start():
        return drive(run_dir, learner, "ray", ray_address=nodes.address)

    ended(drive(tmp_path / "reference", learner))
    expected, run_dir, chance = results(tmp_path / "reference"), tmp_path / "run", random.Random(1)
    began, driver = (
        time.monotonic(),
        drive(tmp_path / "whole", learner, "ray", ray_address=nodes.address),
    )
    ended(driver)
    seconds = time.monotonic() - began
    assert results(tmp_path / "whole") == expected
    hits = [hit for hit in HITS if hit != "worker" or learner not in IN_DRIVER]
    driver, finished, place = start(), 0, 0
    while place < len(hits):
        time.sleep(chance.uniform(0, 0.3 * seconds))
        if driver.poll() is not None:  # it was not killed in time: start another run
            ended(driver)
            assert results(run_dir) == expected
            finished += 1
            os.rename(run_dir, tmp_path / f"finished-{finished}")
            driver = start()
            continue
        if (options := hits[place]) == "worker":
            if not (workers := nodes.working()):
                continue
            chance.choice(workers).kill()
        elif options == "node":
            nodes.lose()
        else:
            driver.send_signal(options)
            driver.communicate(timeout=60)
            driver = start()
        place += 1
    ended(driver)
    assert results(run_dir) == expected
    print(
        f"{learner}: {len(hits)} hits, {finished} runs ended between them; a run takes"
        f" {seconds:.0f} s"
    )
