"""The page in a real browser: live, hostile names and values as text, the token, the keyboard, a phone, the dark.

Screenshots stay below ``artifacts/page``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from pipelines.bad_records.dead_letters import DeadLetters
from pipelines.bad_records.log import Closed, stretches
from pipelines.catchup.shown_standing import Standing
from pipelines.views.table_counts import OutOfStream
from pipelines.views.table_views import Beside, Phase
from tests.pipelines.http.live_page import HUGE, NAME, TAG, TURNED, LivePage, desk, live_page
from tests.support.browser import chromium, keep_screenshot, prefer, resize
from tests.support.waiting import seconds

pytestmark = pytest.mark.slow
T = TypeVar("T")
HOSTILE_ROW = {"id": 1, "note": TAG, "file": TURNED, "long": HUGE, "column <i>": "x"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with chromium(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(tmp_path: Path, browser: Chrome) -> Iterator[LivePage]:
    """A page with some batches, opened."""
    with live_page(tmp_path) as page:
        for number in range(4):
            rows = [("orders", {"id": number * 10 + n, "total": n * 1.5}) for n in range(10)]
            page.batch(*rows, (NAME, {**HOSTILE_ROW, "id": number}), ("orders", None))
        page.state.pipelines["shop"].put_beside({"lake.orders": Beside("replay", 12_000, 3000, "shop.s.6-0: 42")})
        reason = f"column {TAG}{TURNED}: too narrow"
        out = OutOfStream(reason, behind_at={("shop.s.8", 0): 9}, topics=["shop.s.8"])
        page.source.lag.ends_at({("shop.s.8", 0): 250}, page.clock())
        page.state.pipelines["shop"].put_table("lake.paused", Standing.PAUSED, out)
        browser.get("about:blank")
        complaints(browser)
        resize(browser, 1280, 1000)
        prefer(browser, "light")
        browser.get(page.url)
        browser.execute_script("sessionStorage.clear()")
        wait_for(browser, "lake.orders")
        yield page
        browser.get("about:blank")


def complaints(browser: Chrome) -> list[str]:
    """What the browser has written to its console since it was asked last."""
    entries = browser.execute("getLog", {"type": "browser"})["value"]
    return [str(entry["message"]) for entry in entries]


def text_of(browser: Chrome) -> str:
    return str(browser.execute_script("return document.body.innerText"))


def wait_for(browser: Chrome, text: str) -> None:
    WebDriverWait(browser, seconds(20), 0.1).until(lambda b: text in text_of(b), f"{text!r} on the page")


def look(browser: Chrome, at: Callable[[], T], what: str) -> T:
    """What is found once there is something: the page may make its elements anew while one looks."""
    waiting = WebDriverWait(browser, seconds(20), 0.1, [StaleElementReferenceException, NoSuchElementException])
    return waiting.until(lambda _: at(), what)


def state_word(browser: Chrome) -> tuple[str, str]:
    word = browser.find_element(By.CSS_SELECTOR, ".title .word")
    return word.text, str(word.get_attribute("class")).removeprefix("word").strip()


def heights(buttons: list[WebElement]) -> list[int]:
    return [button.size["height"] for button in buttons if button.is_displayed()]


def wait_for_row(browser: Chrome, label: str, last_cells: list[str]) -> None:
    """Wait for a row of the table with this name that ends with these cells."""
    script = """return [...document.querySelectorAll("[aria-label='" + arguments[0] + "'] tbody tr")].map(
        (row) => [...row.cells].map((cell) => cell.textContent))"""

    def is_there(browser: Chrome) -> bool:
        return any(cells[-len(last_cells) :] == last_cells for cells in browser.execute_script(script, label))

    WebDriverWait(browser, seconds(20), 0.1).until(is_there, f"{last_cells} in {label}")


def button(browser: Chrome, text: str) -> None:
    """Press the button with this text, once it is there and can be pressed."""
    script = """const found = [...document.querySelectorAll("button")].find(
               (one) => one.textContent === arguments[0] && one.offsetParent && !one.disabled);
           if (found) { found.scrollIntoView({block: "center"}); found.click(); }
           return Boolean(found);"""
    WebDriverWait(browser, seconds(20), 0.1).until(lambda b: b.execute_script(script, text), f"a button {text!r}")


def enabled_actions(browser: Chrome) -> tuple[int, int]:
    """How many buttons there are that change something, and how many of them can be pressed."""
    script = "return [...document.querySelectorAll('button[data-action]')].map((one) => !one.disabled)"
    enabled = browser.execute_script(script)
    return len(enabled), sum(enabled)


def use_token(browser: Chrome, token: str) -> str:
    state = browser.find_element(By.ID, "token-state")
    before = state.text
    browser.find_element(By.ID, "token").send_keys(token, Keys.ENTER)
    WebDriverWait(browser, seconds(20), 0.1).until(lambda _: state.text != before)
    return str(state.text)


def nothing_was_run(browser: Chrome) -> None:
    """No text of others became a part of the page, and the browser had nothing to refuse."""
    assert browser.title == "Tidemark"
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    assert browser.find_elements(By.CSS_SELECTOR, "img, b, i, iframe, object, embed") == []
    assert complaints(browser) == []


def test_the_page_is_live(page: LivePage, browser: Chrome) -> None:
    look(browser, lambda: browser.find_element(By.ID, "connection").text == "live", "a live page")
    wait_for(browser, "Batch\n3\ndone")
    wait_for(browser, "replay 80 %")
    assert "next at shop.s.6-0: 42; no slice yet since the start" in text_of(browser)
    assert "Records read\n48" in text_of(browser)
    page.batch(*(("orders", {"id": n}) for n in range(100)))
    wait_for(browser, "Records read\n148")
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg rect")) >= 5 * 4
    page.state.enter(Phase.FAILED, "the disk is full")
    wait_for(browser, "the web page with its token")
    assert "disk is full" not in text_of(browser)
    use_token(browser, page.token)
    wait_for(browser, "the disk is full")
    keep_screenshot(browser, "live")
    nothing_was_run(browser)


def test_the_page_of_a_shop_as_the_documentation_shows_it(tmp_path: Path, browser: Chrome) -> None:
    with live_page(tmp_path) as page:
        for number in range(12):
            count = 400 + 60 * (number % 5)
            orders = [("orders", {"id": number * 100 + n, "total": n * 1.5, "status": "paid"}) for n in range(count)]
            customers = [("customers", {"id": n, "name": "Ann", "city": "Riga"}) for n in range(number, number + 40)]
            page.batch(*orders, *customers, *([("orders", None)] if number == 3 else []))
        resize(browser, 1280, 1120)
        prefer(browser, "light")
        browser.get(page.url)
        wait_for(browser, "lake.customers")
        wait_for(browser, "Batch\n11\ndone")
        wait_for(browser, "In quarantine\n1")
        keep_screenshot(browser, "shop")
        resize(browser, 375, 1000)
        wait_for(browser, "lake.orders")
        keep_screenshot(browser, "shop-phone")
        nothing_was_run(browser)
        browser.get("about:blank")


def test_a_paused_table_shows_in_the_state_of_its_pipeline_and_with_what_it_misses(
    page: LivePage, browser: Chrome
) -> None:
    look(browser, lambda: state_word(browser) == ("running, 1 table paused", "bad"), "a table that is paused")
    assert "misses about 241 records" in text_of(browser)
    assert "from shop.s.8" in text_of(browser)
    page.state.pipelines["shop"].put_table("lake.paused", Standing.RUNNING)
    wait_for_row(browser, "Last events", ["caught up", "lake.paused"])
    look(browser, lambda: state_word(browser) == ("running", "good"), "a pipeline that runs")


def test_bad_records_in_quarantine_are_counted_by_table_without_the_token(page: LivePage, browser: Chrome) -> None:
    wait_for_row(browser, "Bad records", ["lake.6", "value is not JSON: Expecting value at character ...", "4", "4"])
    assert "In quarantine\n4\n4 since start" in text_of(browser)
    assert 'no JSON"' not in text_of(browser)
    letters = DeadLetters(page.tables.config)
    letters.log.append(Closed(why="dropped", places=stretches(letters.facts().places())))
    wait_for(browser, "In quarantine\n0\n4 since start")


def test_charts_have_axes_with_units_and_times(page: LivePage, browser: Chrome) -> None:
    figures = look(browser, lambda: [figure.text for figure in browser.find_elements(By.TAG_NAME, "figure")], "charts")
    assert [figure.splitlines()[0] for figure in figures] == [
        "Records per second",
        "Time behind",
        "Time per batch, by step",
    ]
    assert all(len(re.findall(r"\b\d\d:\d\d:\d\d\b", figure)) == 2 for figure in figures)
    assert "30 s\n15 s\n0 s" in figures[1]
    assert "batch 0, " in figures[2] and "batch 3, " in figures[2]


def test_hostile_names_values_and_reasons_are_text(page: LivePage, browser: Chrome) -> None:
    assert use_token(browser, page.token) == "token accepted"
    wait_for(browser, "column <script>")
    text = text_of(browser)
    assert f"lake.{NAME}" in text and "\\u202egnp.exe: too narrow" in text
    assert "\u202e" not in text
    button(browser, f"lake.{NAME}")
    for tab, expected in (
        ("Rows", "(1,000,000 characters)"),
        ("Changes", "<script>document.title='taken'</script>"),
        ("Schemas", "+ column <i> STRING"),
        ("Snapshots", "APPEND"),
        ("Levels", "Sorted runs per bucket"),
    ):
        button(browser, tab)
        wait_for(browser, expected)
        keep_screenshot(browser, f"hostile-{tab.lower()}")
    button(browser, "Show bad records")
    wait_for(browser, "4 ×")
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert "<script>document.title='taken'</script>" in text_of(browser)
    keep_screenshot(browser, "hostile-bad-records")
    assert len(text_of(browser)) < 100_000
    nothing_was_run(browser)


def test_rows_and_buttons_need_the_token_and_a_wrong_one_is_told(page: LivePage, browser: Chrome) -> None:
    assert enabled_actions(browser) == (3, 0)
    button(browser, "lake.orders")
    button(browser, "Rows")
    wait_for(browser, "enter the token of the page first")
    assert use_token(browser, "wrong") == "wrong token"
    assert enabled_actions(browser) == (3, 0)
    assert use_token(browser, page.token) == "token accepted"
    WebDriverWait(browser, seconds(20), 0.1).until(lambda b: enabled_actions(b) == (3, 3))


def test_a_compaction_is_asked_for_with_the_token_and_its_end_is_told(page: LivePage, browser: Chrome) -> None:
    before = page.tables.sinks["lake.orders"].table.snapshots.latest_id()
    use_token(browser, page.token)
    WebDriverWait(browser, seconds(20), 0.1).until(lambda b: enabled_actions(b) == (3, 3))
    browser.execute_script("document.querySelector(\"button[data-table='lake.orders'][data-action=compact]\").click()")
    wait_for(browser, "compact lake.orders: compacted: 4 files -> 1 file")
    assert page.tables.sinks["lake.orders"].table.snapshots.latest_id() == (before or 0) + 1
    keep_screenshot(browser, "compacted")


def test_bad_records_are_retried_by_their_button(page: LivePage, browser: Chrome) -> None:
    use_token(browser, page.token)
    button(browser, "Show bad records")
    wait_for(browser, "4 ×")
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    button(browser, "retry")
    wait_for(browser, "retried 4 records: 0 are in their tables; 4 stay in the quarantine")
    keep_screenshot(browser, "retried")
    nothing_was_run(browser)


def test_a_table_is_paused_and_resumed_by_the_running_pipeline(page: LivePage, browser: Chrome) -> None:
    with desk(page) as taken:
        use_token(browser, page.token)
        WebDriverWait(browser, seconds(20), 0.1).until(lambda b: enabled_actions(b) == (6, 6))
        for table, action in (("lake.orders", "pause"), ("lake.paused", "resume")):
            place = f"button[data-table='{table}'][data-action={action}]"
            browser.execute_script("document.querySelector(arguments[0]).click()", place)
            wait_for(browser, f"{action} {table}: {action}d")
        keep_screenshot(browser, "resumed")
    assert taken == ["pause lake.orders", "resume lake.paused"]


def test_details_are_reached_by_the_keyboard_alone(page: LivePage, browser: Chrome) -> None:
    def focused() -> str:
        return str(browser.execute_script("return document.activeElement.textContent"))

    def press(*keys: str) -> None:
        ActionChains(browser).send_keys(*keys).perform()

    browser.execute_script("document.activeElement.blur()")
    press(Keys.TAB)
    assert focused() == "Skip to the pipelines"
    press(Keys.ENTER)
    for _ in range(20):
        press(Keys.TAB)
        if focused() == "lake.orders":
            break
    assert focused() == "lake.orders"
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press(Keys.ENTER)
    wait_for(browser, "Sorted runs per bucket")
    press(Keys.TAB, Keys.TAB, Keys.ENTER)
    wait_for(browser, "APPEND")
    assert focused() == "Snapshots"


def test_the_focus_stays_while_numbers_change(page: LivePage, browser: Chrome) -> None:
    find = "[...document.querySelectorAll('button.name')].find((one) => one.textContent === 'lake.orders')"
    browser.execute_script(f"{find}.focus()")
    page.batch(("orders", {"id": 1}))
    wait_for(browser, "Records read\n49")
    assert browser.execute_script("return document.activeElement.textContent") == "lake.orders"


@pytest.mark.parametrize("width", [320, 375, 768])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(page: LivePage, browser: Chrome, width: int) -> None:
    resize(browser, width, 800)
    browser.get(page.url)
    wait_for(browser, "lake.orders")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    buttons = "button:not(.name)"
    assert min(look(browser, lambda: heights(browser.find_elements(By.CSS_SELECTOR, buttons)), "buttons")) >= 28
    use_token(browser, page.token)
    button(browser, "Show bad records")
    wait_for(browser, "4 ×")
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    record = "td[data-label=record] .text"
    width_of = look(browser, lambda: browser.find_element(By.CSS_SELECTOR, record).size["width"], "a record")
    assert width_of > 160, "a record has room for more than a word a line"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    keep_screenshot(browser, f"phone-{width}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_the_light_and_in_the_dark(page: LivePage, browser: Chrome, scheme: str) -> None:
    prefer(browser, scheme)
    colours = {}
    for name, selector in {
        "page": "body",
        "card": "section.pipeline",
        "faint": ".facts dt",
        "bad": ".word.bad",
    }.items():
        element = browser.find_element(By.CSS_SELECTOR, selector)
        colours[name] = browser.execute_script(
            "const s = getComputedStyle(arguments[0]); return [s.color, s.backgroundColor]", element
        )
    card = luminance(colours["card"][1])
    assert (card < 0.1) == (scheme == "dark")
    for name in ("card", "faint", "bad"):
        assert contrast(luminance(colours[name][0]), card) >= 4.5, name
    keep_screenshot(browser, scheme)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_a_lost_connection_is_told(tmp_path: Path, browser: Chrome) -> None:
    with live_page(tmp_path) as page:
        page.batch(("orders", {"id": 1}))
        browser.get(page.url)
        wait_for(browser, "lake.orders")
    wait_for(browser, "no connection: this is the last known state")
    assert "lake.orders" in text_of(browser)


def test_every_part_has_a_name_for_those_who_hear_the_page(page: LivePage, browser: Chrome) -> None:
    unnamed = browser.execute_script(
        """return [...document.querySelectorAll("button, input, svg, [role=region], section")].filter((one) =>
            !(one.textContent.trim() || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
              || (one.labels && one.labels.length))).map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    assert browser.execute_script("return document.documentElement.lang") == "en"
