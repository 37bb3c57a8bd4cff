"""Markup from the templates in the report's folders, and the page's pictures: each is embedded
once, however often it is shown, and those that would make the page too large are left out.
"""

import base64
import hashlib
import re
import struct
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from nevis_stream.cost.meter import format_ratio
from nevis_stream.report import notation
from nevis_stream.report.glossary import EVALUATION_TERMS, TERMS, make_anchor
from nevis_stream.terminal import strip_control_characters


def render(name: str, **values: Any) -> Markup:
    """Returns a template with its values, which are escaped where they aren't markup.

    Args:
      name: path below nevis_stream/report, or PACKAGE:PATH; it may use `notation`, `ratio` and the
        macros of macros.html.
      **values: what the template asks for; a missing one is an error.
    """
    # labels may come from anybody's run directories
    return Markup(strip_control_characters(_make_environment().get_template(name).render(**values)))


def render_page(name: str, script: str, **values: Any) -> Markup:
    """Returns a whole page: a template that extends base.html, with the style sheet and its script,
    the only one that its policy allows.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = Markup(read_resource("style.css"))
    return render(name, style=style, script=Markup(script), script_hash=digest, **values)


def read_resource(name: str) -> str:
    """Returns a text file of this package (a template, a style sheet, a script), or PACKAGE:PATH of
    another one.
    """
    package, _, path = name.rpartition(":")
    return (files(package or "nevis_stream.report") / path).read_text(encoding="utf-8")


@cache
def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read_resource),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    helpers = {"terms": EVALUATION_TERMS | TERMS, "anchor": make_anchor}
    environment.globals |= helpers | {"notation": notation, "ratio": format_ratio}
    environment.globals["macros"] = environment.get_template("macros.html").module
    return environment


MOST_BYTES = 9_500_000  # of a page
_IMAGE = re.compile(r'<img src="(data:image/png;base64,[^"]*)" alt="([^"]*)"[^>]*>')
_LEFT_OUT = '<p class="note">(picture left out)</p>'


def embed_pictures(page: str, most: int = MOST_BYTES) -> str:
    """Returns the page with each picture embedded once, and without as many of the last ones as
    make it too large.

    Args:
      page: the page, where `<!-- pictures -->` stands for shared pictures and what is said of those
        left out.
      most: bytes that it may have; without any picture it may have more.
    """
    images = list(_IMAGE.finditer(page))
    counts = Counter(match[1] for match in images)
    names = {
        address: f"picture-{number}"
        for number, address in enumerate(a for a, n in counts.items() if n > 1)
    }
    # 400 bytes for what replaces each of them
    room = most - len(_IMAGE.sub("", page).encode()) - 400 * len(images)
    included: set[str] = set()
    for address in counts:
        room -= len(address)
        if room < 0:
            break
        included.add(address)
    missing = sum(match[1] not in included for match in images)

    def put(match: re.Match) -> str:
        if match[1] not in included:
            return _LEFT_OUT
        return _refer_to(match[1], match[2], names[match[1]]) if match[1] in names else match[0]

    shared = "".join(
        _define(address, name) for address, name in names.items() if address in included
    )
    defined = (
        f'<svg class="defined" aria-hidden="true"><defs>{shared}</defs></svg>' if shared else ""
    )
    note = _format_note(missing, len(images), most) if missing else ""
    return _IMAGE.sub(put, page).replace("<!-- pictures -->", defined + note, 1)


def _format_note(missing: int, total: int, most: int) -> str:
    text = Markup(
        '<p class="note">Left out of this page: {} of {} rows of images, those of the last tasks,'
        " so that it has at most {:.1f} MB. <code>--figures</code> exports them all.</p>"
    )
    return text.format(missing, total, most / 1e6)


def _read_size(address: str) -> tuple[int, int]:
    """Returns width and height in pixels of a PNG, from the beginning of its `data:` address."""
    head = base64.b64decode(address.partition(",")[2][:32])
    return struct.unpack(">II", head[16:24])


def _define(address: str, name: str) -> str:
    width, height = _read_size(address)
    return f'<image id="{name}" href="{address}" width="{width}" height="{height}"/>'


def _refer_to(address: str, helpers: str, name: str) -> str:
    width, height = _read_size(address)
    view = f'viewBox="0 0 {width} {height}" style="max-width: {width}px"'
    return (
        f'<svg class="shared" role="img" aria-label="{helpers}" {view}><use href="#{name}"/></svg>'
    )
