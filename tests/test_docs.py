"""Documents are right: links lead somewhere, code runs, commands exist, public names are
documented.
"""

import ast
import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nevis_stream.configs import grid, run_config
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.experiments.studies import STUDIES
from nevis_stream.launch import command_line, config_flag
from nevis_stream.learners.table import TABLE
from nevis_stream.streams.named_streams import list_stream_rows
from tests import documented_commands, forked
from tests.documented_commands import BLOCK, SHELL

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("C*.md")),
    ROOT / "benchmarks" / "RESULTS.md",
]
SOURCES = [
    path
    for name in ("nevis_stream", "learners", "experiments", "launch")
    for path in sorted((ROOT / name).rglob("*.py"))
]
TUTORIALS = [page for page in PAGES if page.name.startswith("tutorial-")]  # whole pages are run
DIRECTIVES = ("{toctree}", "{eval-rst}")


def blocks(page, *languages):
    return [block for block in BLOCK.finditer(page.read_text()) if block["language"] in languages]


def name(path):
    return str(path.relative_to(ROOT))


@functools.cache
def anchors(page):
    """The names that a page's headings get: lower case, words joined by hyphens, marks dropped,
    repeats numbered.
    """
    results = []
    for heading in re.findall(r"^#+ +(.*)$", BLOCK.sub("", page.read_text()), re.M):
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        repeats = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other) is not None for other in results
        )
        results.append(f"{anchor}-{repeats}" if repeats else anchor)
    return results


# One test for all pages, commands and modules: a test each takes longer than what it checks.
def test_links_lead_to_files_and_headings():
    wrong = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text())):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            found = file.exists() and file.resolve().is_relative_to(ROOT)
            if not found or (anchor and not (file.suffix == ".md" and anchor in anchors(file))):
                wrong.append(f"{name(page)}: {target}")
    assert not wrong, "\n".join(wrong)


def test_pages_name_no_host_and_no_place_of_one_machine():
    wrong = [
        f"{name(page)}: {found[0]}"
        for page in PAGES
        for found in re.finditer(
            r"://|(?<![\w.…])/(?:work|root|home|tmp|usr|opt|mnt|var|srv|Users)/|\b[A-Z]:\\",
            page.read_text(),
        )
    ]
    assert not wrong, f"pages stand for themselves: {wrong}"


def test_blocks_say_what_they_are():
    """Python is always run, where what it needs is there; only a shell block may be marked as not
    run.
    """
    for block in (block for page in PAGES for block in BLOCK.finditer(page.read_text())):
        assert block["language"] in ("python", *SHELL, "text", *DIRECTIVES), block[0]
        if block["mark"]:
            assert re.fullmatch(
                r"needs: \w+" if block["language"] == "python" else "not run", block["mark"]
            ), block["mark"]
            assert block["language"] == "python" or block["language"] in SHELL, block["mark"]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page not in TUTORIALS],
    ids=name,
)
def test_python_blocks_run(page, tmp_path):
    """A page's blocks, in order, in one process; what the page says that they print is printed."""
    needs = {
        block: (block["mark"] or "").removeprefix("needs: ") for block in blocks(page, "python")
    }
    there = [
        block for block, module in needs.items() if not module or importlib.util.find_spec(module)
    ]
    if not there:
        pytest.skip(f"{name(page)} needs {', '.join(set(needs.values()))}, which is not installed")
    program = tmp_path / "program.py"
    program.write_text("\n".join(block["code"] for block in there))
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    small = [] if blocks(page, "text") else ["small"]  # what is printed is of the real ones
    done = forked.run("tests.program", program, *small, cwd=tmp_path, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    if len(there) == len(needs):
        for block in blocks(page, "text"):
            assert block["code"] in done.stdout, (
                f"not printed:\n{block['code']}\nbut:\n{done.stdout}"
            )


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e\d+)?")


def printed(expected, output):
    """Whether lines are in the output one after the other, word by word, with numbers that differ
    by at most 20% or 0.15: errors on 80 images differ between processors and versions of libraries.
    Empty lines do not count.
    """
    lines, wanted_lines = (
        [line.strip() for line in text.splitlines() if line.strip()] for text in (output, expected)
    )
    words = [NUMBER.sub("#", line) for line in lines]
    wanted = [NUMBER.sub("#", line) for line in wanted_lines]
    numbers = [[float(n) for n in NUMBER.findall(line)] for line in lines]
    for start in range(len(words) - len(wanted) + 1):
        if words[start : start + len(wanted)] == wanted:
            printed_numbers = sum(numbers[start : start + len(wanted)], [])
            return printed_numbers == pytest.approx(
                [float(n) for n in NUMBER.findall(expected)], rel=0.2, abs=0.15
            )
    return False


def test_numbers_of_tutorials_are_compared():
    assert printed("error 0.35, 129e9 FLOPs\n", "x\nerror 0.36, 129e9 FLOPs\ny")
    assert not printed("error 0.35, 129e9 FLOPs\n", "error 0.55, 129e9 FLOPs")
    assert not printed("error 0.35, 129e9 FLOPs\n", "error 0.35, 129e6 FLOPs")
    assert not printed("a 1\nb 2\n", "a 1\nc\nb 2\n")


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=name(page)) for page in TUTORIALS])
def test_tutorials_run_as_they_stand(page, tmp_path):
    """Every block in order, from an empty folder, and the page's outputs are what is printed. Their
    commands with less are in test_documented_commands.py.
    """
    work, programs = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    console = "-c 'from nevis_stream.launch.console import main; main()'"
    for program, arguments in (("python", ""), ("nevis-stream", console)):
        file = programs / program
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        file.chmod(0o755)
    script = ["set -eu"]
    for block in BLOCK.finditer(page.read_text()):
        if block["language"] in SHELL and not block["mark"]:
            script.append(block["code"])
        elif block["language"] == "python":
            script.append(f"python - <<'END OF PROGRAM'\n{block['code']}END OF PROGRAM\n")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "COLUMNS": "100"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=work,
        env=os.environ | own,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    files = {path.relative_to(work).as_posix() for path in work.rglob("*")}
    for block in blocks(page, "text"):
        shown = printed(block["code"], done.stdout)
        assert shown or set(block["code"].split()) <= files, (
            f"not printed:\n{block['code']}\nbut:\n{done.stdout}"
        )


def commands():
    """Every command of a shell block, of a page's running text, of a module's docstring, and of a
    subcommand's help.
    """
    for page in (*PAGES, *SOURCES):
        for line, command in documented_commands.commands_of(page, names=True):
            yield f"{name(page)}:{line}: {command}", command


def flags_of(module, words):
    """Names of the flags of a command, those of its subcommand if it has subcommands."""
    yield from own_flags(module)
    if "SUBCOMMANDS" in module.read_text():
        parts = importlib.import_module(f"nevis_stream.launch.{module.stem}").SUBCOMMANDS
        named = {each.name: each.flags for each in parts}
        assert words and (words[0] in named or words[0] == "--help"), words
        yield from named.get(words[0], ())


@functools.cache
def own_flags(module):
    return set(flags_in(module.read_text()))


def flags_in(source):
    if "config_flag import split_words" in source:
        yield "config"
    shared = ast.parse(Path(command_line.__file__).read_text()).body
    shared_functions = {node.name: node for node in shared if isinstance(node, ast.FunctionDef)}
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        function = getattr(node, "func", None)
        called = getattr(function, "attr", "")
        if function is not None and ast.unparse(function) == "engine.start":
            named = [argument.id for argument in node.args]
            for each in ast.parse(source).body:  # parameters are the flags
                if isinstance(each, ast.FunctionDef) and each.name in named:
                    yield from (one.arg for one in (*each.args.args, *each.args.kwonlyargs))
        if getattr(getattr(function, "value", None), "id", "") == "command_line":
            nodes += ast.walk(shared_functions[called])
        elif called.startswith("DEFINE_") or called == "add_argument":
            # a name that is not a constant comes from a table
            yield getattr(node.args[0], "value", "").lstrip("-")


def test_commands_exist():
    """make targets, modules and their flags, configs, their keys and the values of these, budgets,
    streams.
    """
    wrong = []
    for command, place in {command: place for place, command in commands()}.items():
        try:
            check_line(command)
        except Exception as error:
            wrong.append(f"{place}\n{type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def check_line(command):
    if command.startswith("git log "):  # the history of what a page names and is gone
        return
    for part in command.split(" | xargs "):
        words = shlex.split(part, comments=True)
        while "=" in words[0]:
            words = words[1:]
        words, sent = (
            (words[: words.index("--")], words[words.index("--") + 1 :])
            if "--" in words
            else (words, [])
        )
        # launch.slurm sends commands, which must exist too; with-lm-eval starts the harness
        for other in " ".join(sent).split(" + "):
            if other not in ("", "COMMAND"):
                launched = ["python", "-m"] if other.startswith("launch.") else ["nevis-stream"]
                launched = [] if "evaluate" in " ".join(words[:3]) else launched
                check_command([*launched, *other.split()])
        check_command(words)


def check_command(words):
    command = " ".join(words)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        return
    if words[0] == "ray":
        assert words[1] in ("start", "stop"), command
        return
    if words[0] in ("lm_eval", "inspect"):  # tests/launch/test_harnesses.py runs them
        assert words[1] in ("run", "eval"), command
        return
    if words[0].endswith(".sh"):
        script = (ROOT / words[0]).read_text()
        assert all(re.search(rf"^{piece}\(\) {{", script, re.M) for piece in words[1:2]), command
        return
    if words[0] == "nevis-stream":
        if words[1:] == ["--help"]:
            return
        words = ["python", "-m", f"launch.{words[1].replace('-', '_')}", *words[2:]]
    assert words[:2] == ["python", "-m"], command
    if words[2] == "pytest":
        assert all((ROOT / word).exists() for word in words[3:] if word.endswith(".py")), command
        return
    module = ROOT / (words[2].replace(".", "/") + ".py")
    assert module.exists(), command
    if len(words) == 3:  # running text names the command
        return
    flags, values = {"help", *flags_of(module, words[3:])}, config_flag.split_words(words[3:])
    learner = values.values.get("learner", "")
    own = ":" in learner  # a class of the reader's own
    keys = run_config.list_fields(values.source if values.source in TABLE else "ft_prev")
    for word in words[3:]:
        flag, _, value = word.partition("=")
        if not flag.startswith("-"):
            continue
        flag = flag.lstrip("-")
        assert (
            own or flag.removeprefix("config.") in keys
            if flag.startswith("config.")
            else flag in flags
        ), word
        if flag == "config":
            study = value.removeprefix("studies/")
            assert value in TABLE or study in STUDIES or (ROOT / value).is_file(), word
        if flag == "config.stream":
            check_stream(value)
        if words[2] == "launch.evaluate" and flag in ("method", "methods"):
            assert all(methods.get(each) for each in value.split(",")), word
        if flag == "policies" and words[2] == "launch.evaluate":
            assert set(value.split(",")) <= set(methods.POLICIES.keys()), word
        if flag == "predictors" and words[2] == "launch.evaluate":
            assert set(value.split(",")) <= set(methods.PREDICTORS.keys()), word
    if words[2] in ("launch.run", "launch.sweep") and "help" not in command and not own:
        check_values([word.lstrip("-").partition("=")[::2] for word in words[3:]])


def check_stream(name):
    assert name.endswith(".csv") or list_stream_rows(name)


def check_values(given):
    """The config's values, swept ones too, have their types and can be resolved."""
    words = config_flag.split_words([f"--{flag}={value}" for flag, value in given])
    config = words.config()
    if "pretrained.path" in words.values:
        return  # a file of the user's own
    swept = {"trials": grid.TRIALS, "steps": grid.STEPS}
    axes = [(swept[flag], value) for flag, value in given if flag in swept]
    axes += [grid.parse_axis(value) for flag, value in given if flag == "set"]
    for created in (
        [cell.config for cell in grid.list_cells(config, axes)]
        if axes
        else [run_config.resolve(config)]
    ):
        created.build()
        check_stream(created.stream)


def test_a_hosted_ci_runs_the_steps_of_ours():
    ours = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(), re.M)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert ours and re.findall(r"^ +- run: (.*)$", workflow, re.M) == ours


def test_every_dependency_has_its_reason():
    """docs/libraries.md has a row for each core dependency, and one for each of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "libraries.md").read_text()
    core, extras = (page.partition(f"## {part}")[2].partition("\n## ")[0] for part in PARTS)
    wanted = {_name_of(each) for each in project["dependencies"]}
    assert set(re.findall(r"^\| `([\w-]+)` \|", core, re.M)) == wanted
    rows = {
        (library, extra)
        for library, named in re.findall(r"^\| `([\w-]+)` \| (`[^|]+`) \|", extras, re.M)
        for extra in re.findall(r"[\w-]+", named)
    }
    assert rows == {
        (_name_of(each), extra)
        for extra, libraries in project["optional-dependencies"].items()
        for each in libraries
    }


PARTS = ("Core", "Extras")


def _name_of(requirement):
    return re.split(r"[<>=\[]", requirement)[0]


# Methods that their class's docstring describes: the interface's, in its shortest example, and
# protocols of one-word methods.
TOLD_BY_THE_CLASS = {
    "learners/nearest_class_mean.py": ("NearestClassMean",),
    "nevis_stream/executor.py": ("Progress", "Silent"),
}


def undocumented(path):
    """Public functions, classes and methods without a docstring; a base class of the same module
    may have it.
    """
    tree = ast.parse(path.read_text())
    if path.read_text().strip() and not ast.get_docstring(tree):
        yield "the module"
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def documented(owner, method):
        known = {
            node.name: node
            for node in owner.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        bases = [classes[base.id] for base in owner.bases if getattr(base, "id", None) in classes]
        return (method in known and ast.get_docstring(known[method])) or any(
            documented(base, method) for base in bases
        )

    def visit(owner):
        for node in owner.body:
            if not isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            ) or node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                if not ast.get_docstring(node):
                    yield node.name
                if node.name not in TOLD_BY_THE_CLASS.get(name(path), ()):
                    yield from visit(node)
            elif not (
                documented(owner, node.name)
                if isinstance(owner, ast.ClassDef)
                else ast.get_docstring(node)
            ):
                yield f"{getattr(owner, 'name', '')}.{node.name}".lstrip(".")

    yield from visit(tree)


def test_public_names_are_documented():
    wrong = [f"{name(path)}: {each}" for path in SOURCES for each in undocumented(path)]
    assert not wrong, "\n".join(wrong)


def test_the_guide_of_learners_has_the_results_of_the_table():
    page = (ROOT / "docs" / "learners.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d.]+) \| ([\d.]+e\d+) \|$", page, re.M)
    # a new learner is complete with its row of the table, which --help shows; here it is described
    shown = {name: row for name, row in TABLE.items() if name in {name for name, _, _ in rows}}
    assert len(shown) > 10
    assert [(name, error, float(flops)) for name, error, flops in rows] == [
        (name, f"{row.error:.3f}", float(f"{row.flops:.1e}")) for name, row in shown.items()
    ]


def test_code_that_guides_name_is_there():
    """What a guide's running text calls, and its classes, are in the sources or on the page."""
    known = set(re.findall(r"\w+", "\n".join(path.read_text() for path in SOURCES)))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text()
        on_page = set(re.findall(r"\w+", " ".join(block["code"] for block in BLOCK.finditer(text))))
        for code in re.findall(r"`([^`]+)`", BLOCK.sub("", text)):
            named = re.findall(r"\b([A-Za-z_]\w*)\(|\b([A-Z][a-z]+[A-Z]\w+)", code)
            missing = {call or name for call, name in named} - known - on_page
            assert not missing or "torch" in code, f"{page.name}: {code}: no {missing}"
