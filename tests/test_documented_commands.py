"""Every command that README, the guides and `--help` show does what is said: with small inputs."""

import os
import re

import pytest

from tests import documented_commands as documented
from tests import forked

FOUR_DEVICES = "--xla_force_host_platform_device_count=4"  # for --devices=4
ENVIRONMENT = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {FOUR_DEVICES}"}
COMMANDS = [
    command
    for page in documented.PAGES + documented.HELP
    for _, command in documented.commands_of(page)
]


# Most examples of `--help` stand in a guide too, and studies are only planned: quick tests see that
# these commands exist, and that their values are valid (tests/test_docs.py).
LATER = [page for page in documented.PAGES if page.name == "studies.md"] + documented.HELP


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([page for page in documented.PAGES if page not in LATER], id="guides"),
        pytest.param(LATER, id="help and studies", marks=pytest.mark.slow),
    ],
)
def test_documented_commands_run(tmp_path, pages):
    words = ["tests.documented_commands", tmp_path, *pages]
    done = forked.run(*words, env=ENVIRONMENT, timeout=900)
    assert done.returncode == 0, done.stderr
    assert not done.stdout, done.stdout


def test_a_command_that_cannot_be_run_is_named_with_what_to_do(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```bash\nnevis-stream watch runs/a\nnevis-stream run --config=x\n```\n"
    )
    done = forked.run("tests.documented_commands", tmp_path / "work", page)
    assert done.returncode == 0, done.stderr
    assert "page.md:5: nevis-stream run --config=x\n" in done.stdout
    assert "ends with 2:\nerror: --config=x: unknown config" in done.stdout
    assert "add them to INPUTS" in done.stdout and "page.md:4" not in done.stdout


def test_few_commands_are_only_parsed():
    """The list does not grow: what is new can be run with less, or planned with --dry_run."""
    assert len(documented.NOT_RUN) <= 5
    left = [text for text in COMMANDS if any(re.search(each, text) for each in documented.NOT_RUN)]
    assert len(left) <= 0.1 * len(COMMANDS), left


@pytest.mark.parametrize("table", ["NOT_RUN", "SMALLER", "STATUS"])
def test_every_pattern_is_of_a_command(table):
    """One that no page has any more is removed."""
    seen = set()
    for text in COMMANDS:
        for pattern in getattr(documented, table):
            if re.search(pattern, text):
                seen.add(pattern)
            if table == "SMALLER":
                text = re.sub(pattern, documented.SMALLER[pattern], text)
    assert seen == set(getattr(documented, table))
