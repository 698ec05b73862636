"""Pages in a real browser: clicks, values under the pointer, no errors, nothing leaves the page."""

import math
import shutil

import pytest

from cutplane.core.certificate import Record
from cutplane.report.page import report_of_runs

pytestmark = pytest.mark.slow

WICKED = "</script><img src=x onerror=alert(1)>"
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "chrome"])), None)


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this system")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


RECORDS = [
    Record(i + 1, 1.0 + 1 / (i + 1), 1.0 - 0.9**i, 2 * i + 1, i + 2, 0.013 * i + 1e-3 * math.sin(i))
    for i in range(60)
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    report_of_runs(WICKED, [(WICKED, RECORDS), ("other", RECORDS[:30])]).save(path)
    return path


@pytest.fixture
def opened(browser, path):
    """Return a function that opens the page; afterwards nothing may have gone wrong."""
    trouble, contexts = [], []

    def open_page(**options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: trouble.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        assert trouble.pop(0) == f"request: {path.as_uri()}"
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


def values(figure):
    """Return what a chart shows under the pointer, by label."""
    labels = figure.locator(".u-series .u-label").all_inner_texts()
    return dict(zip(labels, figure.locator(".u-series .u-value").all_inner_texts(), strict=True))


def hover(page, figure, share):
    """Move the pointer to a share of the width of a chart."""
    box = figure.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_values_under_the_pointer_are_those_of_the_trace(opened):
    page = opened()
    for name, field in [("gap", "relative_gap"), ("work", "evaluations")]:
        figure = page.locator(f"#chart-{name}")
        figure.scroll_into_view_if_needed()
        for share in (0.02, 0.3, 0.77, 0.99):
            hover(page, figure, share)
            shown = values(figure)
            record = RECORDS[int(shown["iterations"]) - 1]
            assert abs(record.iteration - (1 + 59 * share)) <= 1
            assert float(shown[WICKED]) == pytest.approx(getattr(record, field), rel=1e-9)
            held = RECORDS[min(record.iteration, 30) - 1]  # the other run has ended by then
            assert float(shown["other"]) == pytest.approx(getattr(held, field), rel=1e-9)


def test_seconds_and_scales_by_click(opened):
    page = opened()
    figure = page.locator("#chart-gap")
    figure.get_by_role("button", name="seconds").click()
    assert figure.get_by_role("button", name="seconds").get_attribute("aria-pressed") == "true"
    pressed = figure.get_by_role("button", name="iterations").get_attribute("aria-pressed")
    assert pressed == "false"
    hover(page, figure, 0.5)
    shown = values(figure)
    known = {f"{record.seconds:.9e}": record for record in RECORDS}
    record = known[f"{float(shown['seconds']):.9e}"]
    assert float(shown[WICKED]) == pytest.approx(record.relative_gap, rel=1e-9)
    log = figure.get_by_role("button", name="log scale")
    assert log.get_attribute("aria-pressed") == "true"
    log.click()
    assert log.get_attribute("aria-pressed") == "false"
    hover(page, figure, 0.5)
    assert values(figure) == shown


def test_zoom_and_back(opened):
    page = opened()
    figure = page.locator("#chart-work")
    figure.scroll_into_view_if_needed()
    box = figure.locator(".u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.5 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], middle, steps=5)
    page.mouse.up()
    hover(page, figure, 0.01)
    assert 29 <= int(values(figure)["iterations"]) <= 32
    figure.get_by_role("button", name="whole picture").click()
    hover(page, figure, 0.01)
    assert int(values(figure)["iterations"]) <= 2


def test_a_line_can_be_hidden(opened):
    page = opened()
    series = page.locator("#chart-gap .u-series").nth(1)
    series.locator("th").click()
    assert "u-off" in series.get_attribute("class")


def color(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_themes(opened):
    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    assert color(light) == "rgb(255, 255, 255)"
    assert color(dark) != color(light)
    before = color(dark)
    dark.locator("#theme").click()
    assert color(dark) == color(light)
    light.locator("#theme").click()
    assert color(light) == before


def test_phone(opened):
    page = opened(viewport={"width": 360, "height": 700}, device_scale_factor=2)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    chart = page.locator("#chart-gap .u-over").bounding_box()
    assert chart["x"] >= 0
    assert 200 <= chart["width"] <= 360
    page.set_viewport_size({"width": 700, "height": 360})
    page.wait_for_function("document.querySelector('#chart-gap .u-over').clientWidth > 500")


def test_without_scripts(opened):
    page = opened(java_script_enabled=False)
    for name in ("bounds", "gap", "work"):
        picture = page.locator(f"#chart-{name} svg[role=img]")
        assert picture.is_visible()
        assert picture.locator("path").count() >= 2
    assert not page.locator("#theme").is_visible()
    assert page.locator("h1").inner_text() == WICKED


def test_static_pictures_give_way_to_scripts(opened):
    page = opened()
    assert not page.locator("#chart-gap svg[role=img]").is_visible()
    assert page.locator("#chart-gap canvas").is_visible()
