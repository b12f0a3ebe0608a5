"""The page of inspect in a real browser: what it shows, and what a click does."""

import pytest

from edge_lightning.cli.hydra_app import run
from edge_lightning.cli.inspect import inspect
from tests.browser import opened
from tests.inspected_run import HOSTILE, write_run


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("inspected") / "run")
    assert run("inspect", [str(folder), "step=3", "problem=easy"], inspect) == 0
    with opened((folder / "inspect.html").as_uri()) as (page, asked, errors):
        yield page
    assert {address.split("#")[0] for address in asked} == {(folder / "inspect.html").as_uri()}  # over all that was clicked
    assert errors == []


@pytest.fixture(autouse=True)
def fresh(page):
    page.evaluate("history.replaceState(null, '', location.pathname)")
    page.reload()


def groups(page):
    return [name.strip() for name in page.locator("nav .name").all_inner_texts()]


def cards(page):
    return [card.get_attribute("data-index") for card in page.locator(".card").all()]


@pytest.mark.slow
def test_a_group_is_shown_with_its_sums(page):
    assert page.locator("main h2").inner_text() == "step 3, problem easy"
    assert page.locator(".facts").inner_text() == "answer 5; 0 of 2 right as sampled, 1 of 2 after correction"
    first, second = page.locator(".card").all()
    assert first.locator("dd").all_inner_texts() == [
        "(0.000 - 0.500) / 0.500 = -1.000",
        "0.100",
        "0.100 / 0.150 = 0.667",
        "-1.000 / 0.667 = -1.500",
    ]
    assert second.locator(".verdict").inner_text() == "wrong 0 → right 1"
    assert second.locator(".token.i").all_inner_texts() == list(" Wait!")


@pytest.mark.slow
def test_text_of_the_policy_stays_text(page):
    assert page.locator(".text.before").text_content() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.title() == "run"


@pytest.mark.slow
def test_entropy_shades_tokens_in_proportion(page):
    def shade(card):
        colour = page.locator(".card").nth(card).locator(".token").first.evaluate("t => getComputedStyle(t).backgroundColor")
        return float(colour.rsplit(",", 1)[1].rstrip(")"))

    # Tokens of #0 have .1 nats, of #1 .2; the 95th percentile over the page is the .3 of group hard.
    assert (shade(0), shade(1)) == pytest.approx((0.75 * 0.1 / 0.3, 0.75 * 0.2 / 0.3), abs=0.01)


@pytest.mark.slow
def test_a_token_tells_of_itself(page):
    page.locator(".card").nth(1).locator(".token.i").nth(1).hover()
    told = page.locator("#told").inner_text()
    assert told.splitlines() == [
        '"W"  put in by correction',
        "entropy 0.200 nats   log p -1.000   advantage +0.750",
    ]


@pytest.mark.slow
def test_groups_are_gone_through_by_click_and_key(page):
    assert groups(page) == ["easy", "hard", "third"]
    page.click("#next")
    assert page.locator("main h2").inner_text() == "step 3, problem hard"
    page.keyboard.press("j")
    assert page.locator("main h2").inner_text() == "step 4, problem third"
    page.keyboard.press("k")
    page.click("#previous")
    assert page.locator("main h2").inner_text() == "step 3, problem easy"
    page.locator("nav button", has_text="third").click()
    assert page.url.endswith("#step=4&problem=third")
    page.reload()
    assert page.locator("main h2").inner_text() == "step 4, problem third"


@pytest.mark.slow
def test_groups_are_filtered_by_what_they_were_before_and_after(page):
    page.select_option("#before", "all wrong")
    assert groups(page) == ["easy", "hard"]
    page.select_option("#after", "all wrong")
    assert groups(page) == ["hard"]
    assert page.locator("main h2").inner_text() == "step 3, problem hard"
    page.select_option("#before", "mixed")
    assert (groups(page), page.locator(".empty").count()) == ([], 1)
    page.select_option("#after", "all right")
    assert groups(page) == ["third"]


@pytest.mark.slow
def test_responses_are_filtered_by_provenance_and_verdict(page):
    page.locator("button.chip.reflected").click()
    assert (groups(page), cards(page)) == (["easy", "hard", "third"], ["0"])
    page.locator("button.chip.reflected").click()
    page.select_option("#right", "wrong, then right")
    assert (groups(page), cards(page)) == (["easy", "third"], ["1"])
    page.locator("button.chip.reflected").click()
    assert page.locator("#found").inner_text() == "0 of 3 groups"
