"""Every script of benchmarks/ starts with the present code, and says what it does."""

from tests import forked


def test_scripts_can_be_imported_and_have_help():
    done = forked.run("tests.benchmark_imports", timeout=300)
    assert done.returncode == 0, done.stderr
    assert not done.stdout, done.stdout
