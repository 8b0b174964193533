"""The report of a fit in a real browser: nothing asked of a network, nothing logged, readable on a phone."""

import numpy as np
import pandas as pd
import pytest

import tractable as tr
from tests.cli.browser import Browser, chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium is installed here")

_PICTURES = (
    "[...document.images].map(each => [each.alt, each.naturalWidth, each.getBoundingClientRect().width])"
)
# What sticks out of a phone, unless it is inside a part that scrolls by itself.
_OUTSIDE = """[...document.querySelectorAll('body *')]
    .filter(each => each.getBoundingClientRect().right > 361)
    .filter(each => each.matches('table, pre') || !each.closest('table, pre'))
    .map(each => each.outerHTML.slice(0, 80))"""
_LEAST = """Math.min(...[...document.querySelectorAll('p, li, td, th, figcaption, code, pre, summary')]
    .map(each => parseFloat(getComputedStyle(each).fontSize)))"""


@pytest.fixture(scope="module", params=["number", "classes"])
def page(request, tmp_path_factory):
    """The report of a table with gaps, words, and names that are too long for a line."""
    rng = np.random.default_rng(0)
    x, colour = rng.normal(size=150), rng.choice(["red", "blue"], 150)
    y = 2 * x + (colour == "red") + rng.normal(size=150)
    frame = pd.DataFrame(
        {"a_name_without_any_space_which_is_wider_than_a_phone": x, "colour": colour, "y": y}
    )
    frame.iloc[::9, 0] = np.nan
    frame["id"] = [f"order-{k:05d}-{'0' * 40}" for k in range(150)]
    name = "Bayesian linear"
    if request.param == "classes":
        frame["y"], name = np.where(y > 0, "above <b>zero</b>", "below & 'zero'"), "logistic"
    path = tmp_path_factory.mktemp("browser") / "report.html"
    tr.fit_table(frame, "y", candidates=(name,)).report(path)
    return path


@pytest.fixture
def browser(tmp_path):
    with Browser(tmp_path) as found:
        yield found


def test_the_report_is_whole_in_a_browser_and_fits_on_a_phone(page, browser, tmp_path):
    browser.show(page, 1100)
    pictures = browser.run(_PICTURES)
    assert len(pictures) >= 6
    for said, natural, _ in pictures:
        assert len(said) > 20
        assert natural > 300
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("document.documentElement.lang") == "en"
    assert browser.run("document.querySelectorAll('b').length") == 1  # names of the table are no HTML

    browser.show(page, 360, phone=True)
    assert browser.run("[innerWidth, document.documentElement.scrollWidth]") == [360, 360]
    assert browser.run(_OUTSIDE) == []
    assert browser.run(_LEAST) >= 12
    assert min(width for _, _, width in browser.run(_PICTURES)) > 280  # not shrunk to stamps

    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.faults == []
    asked = [each for each in browser.requests if not each.startswith("data:")]
    assert asked == [page.as_uri()] * 2


def test_the_browser_sees_what_the_test_is_about(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<meta name='viewport' content='width=device-width'><p style='width:500px'>wide</p>"
        "<img src='none.png'><script>console.error('bad')</script><script>throw 1</script>"
    )
    browser.show(bad, 360, phone=True)
    assert len(browser.faults) >= 3
    assert any(each.endswith("none.png") for each in browser.requests)
    assert len(browser.run(_OUTSIDE)) == 1
    assert browser.run(_PICTURES)[0][:2] == ["", 0]
