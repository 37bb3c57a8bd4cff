"""Every script of benchmarks/ can be imported with the present code."""

from tests import forked


def test_scripts_are_imported():
    done = forked.run("tests.benchmark_imports", timeout=300)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
