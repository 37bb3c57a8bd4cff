"""What the tests of the report share."""

import dataclasses

import pytest
from markupsafe import Markup

from nevis_stream.report import svg


@pytest.fixture
def only_made(monkeypatch):
    """Figures are made but not drawn."""
    frame = Markup('<svg class="plot" role="img" aria-label="{}" id="{}"></svg>')
    monkeypatch.setattr(svg, "render_inline", lambda figure, name, title: frame.format(title, name))


def _undrawn():
    """Figures are neither made nor drawn, for tests that read a page's words and tables: figures
    take most of a page's time.
    """
    frame = Markup('<svg class="plot" role="img" aria-label="{}" id="{}"></svg>')
    draw = svg.render_pictures

    def pictures(drawings, number=None):
        unmade = {
            name: dataclasses.replace(drawing, draw=lambda: None)
            for name, drawing in drawings.items()
        }
        return draw(unmade, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svg, "render_inline", lambda figure, name, title: frame.format(title, name))
        patch.setattr(svg, "render_pictures", pictures)
        yield


undrawn = pytest.fixture(_undrawn, name="undrawn")
all_undrawn = pytest.fixture(_undrawn, scope="module", name="all_undrawn")
