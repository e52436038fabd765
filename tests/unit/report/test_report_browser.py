"""The page in a browser: it opens without a word of complaint, sorts by keyboard, and shows its pictures."""

import shutil

import pytest

from suisei.report.contents import part_of
from suisei.report.html import write_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright's Python package")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")

FIRST = "table.sortable"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def path(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, None, "A page", [part_of(result)])
    return path


@pytest.fixture
def opened(browser, path):
    """Opens the page; says what the console said and what was asked of the network."""
    contexts = []

    def open_page(**settings):
        context = browser.new_context(offline=True, **settings)
        contexts.append(context)
        page, said = context.new_page(), []
        page.set_default_timeout(300_000)  # a busy machine takes its time
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: said.append(request.url) if request.url[:5] == "http:" else None)
        page.goto(path.as_uri())
        return page, said

    yield open_page
    for context in contexts:
        context.close()


def column(page, number):
    cells = page.locator(FIRST).first.locator(f"tbody tr > :nth-child({number})")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value ?? cell.textContent)")


def test_it_opens_without_complaint_and_shows_its_pictures(opened):
    page, said = opened()
    widths = page.evaluate(
        "Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth)))"
    )
    assert len(widths) == 6
    assert min(widths) > 0
    assert said == []


def test_it_sorts_by_keyboard_and_says_so(opened):
    page, said = opened()
    heading = page.locator(FIRST).first.locator("thead th").nth(1)
    heading.locator("button").focus()
    page.keyboard.press("Enter")
    values = [float(value) for value in column(page, 2) if value]
    assert heading.get_attribute("aria-sort") == "descending"
    assert values == sorted(values, reverse=True)
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert [float(value) for value in column(page, 2) if value] == sorted(values)
    assert "Pearson, ascending" in page.locator("#said").text_content()
    page.locator(FIRST).first.locator("thead button").first.click()
    assert heading.get_attribute("aria-sort") == "none"
    assert column(page, 1) == sorted(column(page, 1), key=str.casefold)
    assert said == []


def test_it_is_dark_where_the_system_is_and_where_it_is_asked_to(opened):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = opened(color_scheme="light")[0], opened(color_scheme="dark")[0]
    assert light.evaluate(background) != dark.evaluate(background)
    button = light.locator("#theme")
    button.click()
    button.click()
    assert button.get_attribute("aria-label") == "Colours: dark"
    assert light.evaluate(background) == dark.evaluate(background)


def test_a_phone_needs_no_scrolling_sideways(opened):
    page, said = opened(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert said == []


def test_columns_scroll_behind_the_first(opened):
    page, _ = opened(viewport={"width": 360, "height": 740})
    above = page.locator(FIRST).first.evaluate(
        """table => {
            const scroll = table.closest(".scroll"), first = table.querySelector("thead th");
            const above = new Set();
            first.scrollIntoView({block: "center", behavior: "instant"});
            const box = first.getBoundingClientRect();
            for (scroll.scrollLeft = 0; above.size === 0; scroll.scrollLeft += 7) {
                for (let x = box.left + 2; x < box.right - 2; x += 3)
                    for (let y = box.top + 2; y < box.bottom - 2; y += 3)
                        if (!first.contains(document.elementFromPoint(x, y))) above.add(`${x}, ${y}`);
                if (scroll.scrollLeft + scroll.clientWidth >= scroll.scrollWidth - 1) break;
            }
            return [...above];
        }"""
    )
    assert above == []


def test_figures_on_a_phone_keep_letters_that_can_be_read(opened):
    page, _ = opened(viewport={"width": 360, "height": 740})
    pixels_per_point = page.locator("figure svg").evaluate_all(
        "drawn => drawn.map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"
    )
    assert min(pixels_per_point) > 1
    regions = page.locator("figure .scroll").evaluate_all(
        "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.tabIndex === 0 && e.ariaLabel)"
    )
    assert regions
    assert all(regions)


def test_numbers_on_cards_stay_in_one_piece(opened):
    page, _ = opened(viewport={"width": 360, "height": 740})
    pieces = page.locator(".scores div").evaluate_all(
        """scores => scores.map(score => {
            score.querySelector("dt").textContent = "a-metric-of-a-long-name-".repeat(3);
            const number = document.createRange();
            number.selectNodeContents(score.querySelector("dd"));
            return number.getClientRects().length;
        })"""
    )
    assert set(pieces) == {1}


def test_all_is_there_on_paper(opened):
    page, _ = opened()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert not page.locator("#theme").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") > 0


def test_no_other_script_runs(opened):
    page, _ = opened()
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"window.ran = 1\">')"
        )
    assert page.evaluate("window.ran") is None
