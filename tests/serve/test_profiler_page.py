"""Oracle: the model's own predict; headless Chromium opens the page of a real server, moves a slider, reads numbers."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("playwright")

from playwright.sync_api import sync_playwright
from served_models import frame, server, small_model

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
TOKEN = "a-token-of-more-than-16-letters"
NUMBER = "(name) => Number(document.getElementById(name).title)"


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def model_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "m.dtmgp"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def address(model_file):
    with server(model_file) as (address, _):
        yield address


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--no-proxy-server"]
        )
        yield browser
        browser.close()


def opened(browser, address, **settings):
    """The page when its first picture is drawn, and everything that it complained of or asked of others."""
    page = browser.new_page(**settings)
    faults, origin = [], address.split("#")[0]
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((origin, "blob:")) else faults.append(r.url))
    page.goto(address)
    return page, faults


def until(page, condition, argument=None):
    """Wait for a condition. Playwright's own way evaluates texts in the page, which its security policy forbids."""
    for _ in range(200):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not within 10 s: {condition} {argument}")


def drawn(page, at):
    """Wait until the picture of a point is drawn."""
    until(page, "(at) => document.documentElement.dataset.drawn === JSON.stringify(at)", at)


def shown(page):
    return {name: page.evaluate(NUMBER, name) for name in ("mean", "std", "low", "high")}


def expected(model, at, coverage=0.9):
    mean, std = model.predict(frame([at]), return_std=True)
    low, high = model.predict_interval(frame([at]), coverage)
    return {"mean": mean[0], "std": std[0], "low": low[0], "high": high[0]}


def test_sliders_keys_and_numbers_give_what_predict_gives(model, address, browser):
    page, faults = opened(browser, address)
    page.wait_for_selector("html[data-drawn]")
    low, high = model.cube_.low, model.cube_.high
    at = [float(f"{v:.6g}") for v in 0.5 * (low + high)]
    assert shown(page) == pytest.approx(expected(model, at), rel=1e-12)
    sliders = page.locator("#profiles input[type=range]")
    sliders.nth(0).evaluate("(s) => { s.value = 50; s.dispatchEvent(new Event('input')); }")
    at[0] = float(f"{low[0] + 0.25 * (high[0] - low[0]):.6g}")
    drawn(page, at)
    assert shown(page) == pytest.approx(expected(model, at), rel=1e-12)
    assert float(page.inner_text("#mean")) == pytest.approx(expected(model, at)["mean"], rel=1e-4)
    # by keyboard only: to the second slider, then by arrows
    sliders.nth(0).focus()
    for _ in range(3):
        page.keyboard.press("Tab")  # hold, number, slider
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    at[1] = float(f"{low[1] + 103 / 200 * (high[1] - low[1]):.6g}")
    drawn(page, at)
    assert shown(page) == pytest.approx(expected(model, at), rel=1e-12)
    # a number outside the fitted range, and another interval
    page.fill("#profiles input[type=number] >> nth=0", "1.25")
    page.keyboard.press("Enter")
    at[0] = 1.25
    drawn(page, at)
    assert "load outside the fitted range" in page.inner_text("#outside")
    page.select_option("#coverage", "0.5")
    until(page, "document.getElementById('interval-label').textContent.startsWith('50%')")
    assert shown(page) == pytest.approx(expected(model, at, 0.5), rel=1e-12)
    # far outside: a message, and the picture stays
    page.fill("#profiles input[type=number] >> nth=0", "1e9")
    page.keyboard.press("Enter")
    page.wait_for_selector("#fault:not([hidden])")
    assert "far outside the fitted range" in page.inner_text("#fault")
    page.click("#middle")
    page.wait_for_selector("#fault", state="hidden")
    assert page.locator("#profiles polyline.mean").count() == 2
    assert page.locator("#density polygon").count() == 2
    assert [fault for fault in faults if "422" not in fault] == []


def test_target_finder_kept_points_and_theme(model, address, browser):
    page, faults = opened(browser, address, viewport={"width": 400, "height": 800})
    page.wait_for_selector("html[data-drawn]")
    page.fill("#value", "0.8")
    page.click("#finder button.main")
    until(page, "document.getElementById('found').textContent.startsWith('Found')")
    until(page, "Math.abs(Number(document.getElementById('mean').title) - 0.8) < 1e-3")
    page.click("#keep")
    page.click("#back")
    page.click("#keep")
    assert page.locator("#points tbody tr").count() == 2
    with page.expect_download() as saved:
        page.click("#download")
    text = saved.value.path().read_text()
    assert text.startswith("load,speed [km/h],mean,std,low,high,coverage,output\n")
    assert len(text.splitlines()) == 3
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert faults == []


@pytest.mark.slow
def test_the_page_asks_for_the_token_or_takes_it_from_the_address(model_file, browser):
    with server(model_file, token=TOKEN) as (address, _):
        page, _ = opened(browser, address)
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-drawn]")
        page, faults = opened(browser, f"{address}/#token={TOKEN}")
        page.wait_for_selector("html[data-drawn]")
        assert TOKEN not in page.url
        assert faults == []
