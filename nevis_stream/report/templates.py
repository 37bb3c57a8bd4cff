"""Markup from the templates in the report's folders."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from nevis_stream.cost.meter import ratio
from nevis_stream.report import notation
from nevis_stream.report.glossary import EVALUATION_TERMS, TERMS, anchor
from nevis_stream.terminal import printable


def render(name: str, **values: Any) -> Markup:
    """Returns a template with its values, which are escaped where they aren't markup.

    Args:
      name: path below nevis_stream/report; it may use `notation`, `ratio` and the macros of
        macros.html.
      **values: what the template asks for; a missing one is an error.
    """
    # labels may come from anybody's run directories
    return Markup(printable(_environment().get_template(name).render(**values)))


def render_page(name: str, script: str, **values: Any) -> Markup:
    """Returns a whole page: a template that extends base.html, with the style sheet and its script,
    the only one that its policy allows.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = Markup(resource("style.css"))
    return render(name, style=style, script=Markup(script), script_hash=digest, **values)


def resource(name: str) -> str:
    """Returns a text file of this package: a style sheet or a script."""
    return (files("nevis_stream.report") / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nevis_stream.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    words = {"terms": EVALUATION_TERMS | TERMS, "anchor": anchor}
    environment.globals |= words | {"notation": notation, "ratio": ratio}
    environment.globals["macros"] = environment.get_template("macros.html").module
    return environment
