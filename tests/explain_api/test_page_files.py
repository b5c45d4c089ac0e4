"""The files of the page: where they are, and with which headers."""

import re
from pathlib import Path

import pytest

from berth.explain_api.page_files import INDEX, POLICY, read_files
from explain_api.fakes import FakeReviews
from explain_api.harness import running

TEXTS = [name for name in read_files() if name.endswith((".html", ".js", ".css"))]


async def test_the_page_is_served_with_its_files(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        page = await api.get("ui/")
        named = re.findall(r'(?:src|href)="([\w.]+)"', page.text)
        answers = {name: await api.get(f"ui/{name}") for name in named}

    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert {answer.status for answer in answers.values()} == {200}
    assert answers["style.css"].headers["Content-Type"] == "text/css; charset=utf-8"
    assert answers["app.js"].headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert answers["icon.svg"].headers["Content-Type"] == "image/svg+xml"


async def test_every_answer_keeps_the_browser_from_loading_anything_else(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        for path in ("ui/", "ui/app.js"):
            headers = (await api.get(path)).headers
            assert headers["Content-Security-Policy"] == POLICY
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


async def test_a_file_that_the_browser_has_is_not_sent_again(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        etag = (await api.get("ui/app.js")).headers["ETag"]
        again = await api.get("ui/app.js", headers={"If-None-Match": f'"other", W/{etag}'})
        other = await api.get("ui/app.js", headers={"If-None-Match": '"other"'})

    assert (again.status, again.text) == (304, "")
    assert again.headers["Cache-Control"] == "no-cache"
    assert other.status == 200


async def test_the_path_without_a_slash_leads_to_the_one_with_it(tmp_path: Path) -> None:
    """Without a redirect: the API server answers 502 to those of aggregated APIs."""
    async with running(tmp_path) as api:
        answer = await api.get("ui")

    assert answer.status == 200
    assert 'content="0; url=ui/"' in answer.text


@pytest.mark.parametrize(
    "path", ["ui/nothing.js", "ui/index.html/x", "namespaces/shop/ui", "ui/..%2f..%2fapi.py", "ui/%2e%2e/api.py"]
)
async def test_there_are_no_other_files(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as api:
        answer = await api.get(path)

    assert answer.status == 404
    assert answer.json["reason"] == "NotFound"


async def test_the_page_is_only_read(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        assert (await api.get("ui/app.js", method="POST")).status == 405
        assert (await api.get("ui/app.js", method="HEAD")).status == 200


async def test_a_user_without_the_right_does_not_get_the_page(tmp_path: Path) -> None:
    reviews = FakeReviews(rights=lambda _, access: isinstance(access, str) or access.resource != "ui")
    async with running(tmp_path, reviews=reviews) as api:
        refused = await api.get("ui/", user="jane", groups=())

    assert refused.status == 403
    assert 'cannot list resource "ui"' in refused.json["message"]


@pytest.mark.parametrize("name", TEXTS)
def test_no_file_names_an_address_outside(name: str) -> None:
    text = read_files()[name].body.decode()
    assert re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", text) == []
    assert "innerHTML" not in text
    assert not re.search(r"\son[a-z]+=\"|\sstyle=\"|eval\(", text), "the Content-Security-Policy refuses what is inline"


def test_every_module_is_announced_in_the_page() -> None:
    index = read_files()[INDEX].body.decode()
    modules = {name for name in read_files() if name.endswith(".js")}
    assert set(re.findall(r'"([\w]+\.js)"', index)) == modules
