"""Ray on machines of a network: network namespaces, each with an address of its own, that see no
run directory.

One machine is lost in the middle of a trial, and another one comes. Needs root and iproute2.
"""

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nevis_stream.run_directory.ledger import Ledger
from tests import forked

RUN = [
    "launch.run",
    "--config=ft_prev",
    "--config.stream=pico",
    "--config.train.steps=200",
]
HEAD = "10.213.0.1"
ROOT = Path(__file__).parents[2]


def may_make_namespaces():
    name = f"nevis-probe-{os.getpid()}"
    if not all(map(shutil.which, ("ip", "unshare", "mount"))):
        return False
    return subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0 and ip(
        "netns", "del", name
    )


def ip(*words, inside=None):
    subprocess.run(
        ["ip", *(["-n", inside] if inside else []), *words], check=True, capture_output=True
    )
    return True


class Network:
    """A switch in the head's namespace, and machines on it."""

    def __init__(self, folder):
        self.folder, self.tag, self._started, self._names = (
            folder,
            f"nv{os.getpid() % 100_000}",
            [],
            [],
        )
        self.temporary = f"/tmp/{self.tag}"  # short: Ray has sockets there
        try:
            self.head = self._namespace("head")
            ip("link", "add", "switch", "type", "bridge", inside=self.head)
            ip("addr", "add", f"{HEAD}/24", "dev", "switch", inside=self.head)
            ip("link", "set", "switch", "up", inside=self.head)
            begin = [
                "--head",
                f"--node-ip-address={HEAD}",
                "--port=6379",
                "--num-cpus=0",
                "--include-dashboard=false",
            ]
            self._ray(self.head, *begin, f"--temp-dir={self.temporary}")
        except BaseException:
            self.shutdown()
            raise

    def _namespace(self, name):
        self._names.append(f"{self.tag}-{name}")
        ip("netns", "add", self._names[-1])
        ip("link", "set", "lo", "up", inside=self._names[-1])
        return self._names[-1]

    def _ray(self, namespace, *words, hidden=()):
        """Starts a node of Ray that does not see what is in some folders, and waits until it
        stands.
        """
        hide = " && ".join(
            ["mount --make-rprivate /", *(f"mount -t tmpfs none {folder}" for folder in hidden)]
        )
        command = shlex.join(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *words]
        )
        _, log = self.start(namespace, "unshare", "-m", "sh", "-c", f"{hide} && exec {command}")
        wait_for(lambda: "ray stop" in log.read_text())

    def attach(self, number):
        """Adds a machine to the network, as a node of Ray."""
        name, there, here, address = (
            self._namespace(str(number)),
            f"{self.tag}a{number}",
            f"{self.tag}b{number}",
            HEAD[:-1],
        )
        ip("link", "add", there, "type", "veth", "peer", "name", here)
        ip("link", "set", there, "netns", self.head)
        ip("link", "set", here, "netns", name)
        ip("link", "set", there, "master", "switch", inside=self.head)
        ip("link", "set", there, "up", inside=self.head)
        ip("addr", "add", f"{address}{number}/24", "dev", here, inside=name)
        ip("link", "set", here, "up", inside=name)
        node = [f"--address={HEAD}:6379", f"--node-ip-address={address}{number}", "--num-cpus=2"]
        self._ray(name, *node, hidden=[self.temporary, self.folder])

    def trials(self, number):
        """Processes of a machine that run a trial now."""
        pids = subprocess.run(
            ["ip", "netns", "pids", f"{self.tag}-{number}"], capture_output=True, text=True
        ).stdout.split()
        return [pid for pid in pids if "_run_trial" in Path(f"/proc/{pid}/cmdline").read_text()]

    def lose(self, number):
        """Ends all that runs on a machine. Its line stays: of one that is silent Ray's connections
        think for seven minutes.
        """
        self._kill(f"{self.tag}-{number}")

    def _kill(self, namespace):
        while pids := subprocess.run(
            ["ip", "netns", "pids", namespace], capture_output=True, text=True
        ).stdout.split():
            subprocess.run(["kill", "-9", *pids], capture_output=True)

    def start(self, namespace, *words):
        log = self.folder / f"{len(self._started)}.log"
        with open(log, "w") as out:
            words = ["ip", "netns", "exec", namespace, *words]
            process = subprocess.Popen(
                words, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
            )
        self._started.append(process)
        return process, log

    def shutdown(self):
        for name in reversed(self._names):
            self._kill(name)
            ip("netns", "del", name)
        for process in self._started:
            process.wait(20)
        shutil.rmtree(self.temporary, ignore_errors=True)


@pytest.fixture
def network(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    if not may_make_namespaces():
        pytest.skip("network namespaces cannot be made here: that needs root and iproute2")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    result = Network(tmp_path)
    yield result
    result.shutdown()


def wait_for(what, seconds=120):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.mark.slow
def test_machines_without_a_shared_drive_come_and_go(network, tmp_path):
    network.attach(2)
    run_dir = tmp_path / "run"
    words = [
        sys.executable,
        "-m",
        *RUN,
        "--executor=ray",
        f"--ray_address={HEAD}:6379",
        f"--run_dir={run_dir}",
    ]
    driver, output = network.start(network.head, *words)
    wait_for(lambda: list(run_dir.glob("checkpoints/0004-*")) and network.trials(2))
    network.lose(2)
    network.attach(3)
    assert driver.wait(300) == 0, output.read_text()
    plain = forked.run(*RUN, f"--run_dir={tmp_path / 'plain'}")
    assert plain.returncode == 0, plain.stderr
    assert Ledger(run_dir).path.read_bytes() == Ledger(tmp_path / "plain").path.read_bytes()
