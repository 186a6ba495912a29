"""The built book as a browser shows it, from its folder and without a network."""

import os
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

HTML = Path(__file__).parents[1] / "_build" / "html"
# All pages but the first, which only leads on. Without a book the fixture `browser` says what to do.
FOUND = [path.relative_to(HTML).as_posix() for path in HTML.rglob("*.html") if "_static" not in path.parts]
# The reference has one page a module, all made alike: these show all that a page can hold.
REFERENCE = {f"book/api/{module}.html" for module in ("alignment", "plotting", "transformer")}
PAGES = sorted(
    name for name in FOUND if name != "index.html" and ("/api/" not in name or name in REFERENCE)
) or ["none"]
# The number of formulas in the HTML that Sphinx wrote, before MathJax replaces them.
FORMULAS = "document.querySelectorAll('span.math, div.math').length"


@pytest.fixture(scope="session")
def browser():
    if not (HTML / "index.html").exists():
        pytest.fail(f"there is no book in {HTML}; run `make book` first", pytrace=False)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        message = "no Chromium found; on Debian or Ubuntu: apt-get install chromium"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    with sync_playwright() as playwright:
        # Chromium refuses to run its own sandbox as root, as in most containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def windows(browser):
    """Open a page in a fresh window, with what it asked for and the errors that it reported."""
    contexts = []

    def open_page(name, *, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page, asked, errors = context.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((HTML / name.partition("?")[0]).as_uri() + "".join(name.partition("?")[1:]))
        # Pages without a formula do not load MathJax; on the others wait until it has done its work.
        if page.locator("script[src*=mathjax]").count():
            page.wait_for_function("window.MathJax?.startup?.promise")
            page.evaluate("MathJax.startup.promise.then(() => null)")
        return page, asked, errors

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def visit(windows):
    """Open pages, and fail at the end of the test if one asked the network or reported an error."""
    opened = []

    def open_page(name, **options):
        opened.append(windows(name, **options))
        return opened[-1][0]

    yield open_page
    for _, asked, errors in opened:
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
        assert errors == []


@pytest.mark.parametrize("name", PAGES)
def test_all_mathematics_is_typeset(visit, name):
    page = visit(name)
    assert page.locator("mjx-container").count() == page.evaluate(FORMULAS)
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    # Text of the page without code and without what MathJax made: no TeX may be left in it.
    left = page.evaluate(
        """() => {
            const copy = document.querySelector('article, main').cloneNode(true);
            copy.querySelectorAll('mjx-container, pre, code, script, style').forEach(node => node.remove());
            return copy.textContent;
        }"""
    )
    assert not any(tex in left for tex in ("\\(", "\\[", "\\frac", "$"))


def test_the_first_page_leads_to_the_landing_page(visit):
    page = visit("index.html")
    page.wait_for_url("**/book/index.html")
    assert page.locator("article h1").inner_text().startswith("The attention mechanism")


def test_the_chapter_has_mathematics(visit):
    assert visit("book/qkv.html").evaluate(FORMULAS) > 30


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(windows, name, scheme):
    # Not `visit`: axe itself reads the style sheets again, which a browser refuses over file://.
    page, _, _ = windows(name, scheme=scheme)
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    violations = Axe().run(page).response["violations"]
    serious = [
        (violation["id"], node["html"][:200])
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert serious == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_does_not_scroll_sideways(visit, name):
    page = visit(name, width=390)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    widths = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth]")
    assert max(widths) <= 390


def test_search_finds_softmax(visit):
    page = visit("search.html?q=softmax")
    results = page.locator("#search-results ul.search li a").filter(has_text="Query, key, value")
    results.first.wait_for()
    assert "book/qkv.html" in results.first.get_attribute("href")


def test_a_prediction_opens_and_closes_by_keyboard(visit):
    page = visit("book/qkv.html")
    answer = page.locator("details.sd-dropdown").first
    answer.locator("summary").focus()
    for is_open in (True, False):
        page.keyboard.press("Enter")
        assert answer.evaluate("details => details.open") is is_open


def test_every_picture_loads(visit):
    for name in PAGES:
        page = visit(name)
        page.evaluate("document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
        page.wait_for_function("[...document.images].every(image => image.complete)")
        broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
        assert page.evaluate(broken) == []


def test_there_is_one_search_field_in_sight(visit):
    page = visit("book/qkv.html")
    fields = page.locator("input[type=search], .search-button-field, .search-button")
    assert sum(fields.nth(i).is_visible() for i in range(fields.count())) == 1
