"""Documents that hold: links lead somewhere, code runs, commands exist, public names are documented."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "RESULTS.md"]
SOURCES = [path for name in ("nevis_stream", "learners", "experiments", "launch") for path in (ROOT / name).rglob("*.py")]
BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>\w+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)```", re.S)


def blocks(page, *languages):
    return [block for block in BLOCK.finditer(page.read_text()) if block["language"] in languages]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page):
    text = BLOCK.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert "://" not in target, f"{target}: pages stand for themselves"
        path, _, anchor = target.partition("#")
        assert (page.parent / path).exists(), target
        assert not anchor or path.endswith(".md")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_blocks_run(page, tmp_path):
    """All blocks of a page, in order, in one process."""
    found = blocks(page, "python")
    missing = [block["needs"] for block in found if block["needs"] and not importlib.util.find_spec(block["needs"])]
    if missing:
        pytest.skip(f"{name(page)} needs {missing[0]}, which is not installed")
    code = "\n".join(block["code"] for block in found)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def commands():
    for page in PAGES:
        for block in blocks(page, "bash", "sh"):
            for line in block["code"].splitlines():
                command = line.partition(" #")[0].strip()
                if command:
                    yield pytest.param(command, id=f"{name(page)}: {command[:60]}")


@pytest.mark.parametrize("command", commands())
def test_commands_exist(command):
    """make targets, modules and their flags, configs."""
    words = command.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        return
    while "=" in words[0]:
        words = words[1:]
    assert words[:2] == ["python", "-m"], command
    source = ROOT / (words[2].replace(".", "/") + ".py")
    assert source.exists(), command
    text = source.read_text()
    for flag in (word.lstrip("-").partition("=")[0] for word in words[3:] if word.startswith("--")):
        assert flag.startswith("config.") or f'"{flag}"' in text or f'"--{flag}"' in text or flag == "help", flag
    for config in re.findall(r"--config=(\S+)", command):
        assert (ROOT / config).is_file()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_name_no_place_of_one_machine(page):
    assert not re.search(r"(?<![\w.])/(?:work|root|home|tmp)/", page.read_text())


def undocumented(path):
    tree = ast.parse(path.read_text())
    if not ast.get_docstring(tree) and path.read_text().strip():
        yield "the module"

    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def inherited(owner, method):
        """Whether a base class of the same module documents the method."""
        bases = [classes[base.id] for base in owner.bases if getattr(base, "id", None) in classes]
        return any(getattr(m, "name", "") == method and ast.get_docstring(m) for base in bases for m in base.body)

    def visit(node):
        for child in node.body:
            if not isinstance(child, ast.FunctionDef | ast.ClassDef) or child.name.startswith("_"):
                continue
            documented = ast.get_docstring(child) or is_stub(child)
            if not documented and not (isinstance(node, ast.ClassDef) and inherited(node, child.name)):
                yield child.name
            if isinstance(child, ast.ClassDef):
                yield from visit(child)

    yield from visit(tree)


def is_stub(node):
    """A protocol's `...`, or the `pass` of an object that does nothing: the class says what they are."""
    body = node.body[0]
    return isinstance(body, ast.Pass) or (isinstance(body, ast.Expr) and getattr(body.value, "value", None) is ...)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_public_names_are_documented(path):
    if path.name == "nearest_class_mean.py":
        return  # the example of 40 lines: its methods are those of the interface
    assert not list(undocumented(path))
