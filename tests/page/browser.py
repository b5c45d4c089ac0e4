"""A browser that tests steer: Chromium, over the DevTools protocol, with the aiohttp that is here anyway.

One process serves all tests of a run; each test has a context of its own in it, with storage of its own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
START_SECONDS = 60.0
WAIT_SECONDS = 60.0
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "/": (191, "/"),
    " ": (32, " "),
}
WIDTH, HEIGHT = 1440, 900


@contextmanager
def chromium(program: str, folder: Path) -> Iterator[str]:
    """Runs the browser; yields the address to steer it by."""
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(folder)},
        )
    try:
        yield _address(folder / "profile" / "DevToolsActivePort", process)
    finally:
        process.terminate()
        process.wait()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        lines = file.read_text().splitlines() if file.is_file() else []
        if len(lines) >= 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        assert process.poll() is None, f"Chromium ended with {process.returncode}; {file.parent.parent}/chromium.log"
        time.sleep(0.05)
    raise AssertionError(f"Chromium has not started within {START_SECONDS} s")


class ScriptFailed(AssertionError):
    """An expression of a test failed in the page."""


class NavigatedAway(ScriptFailed):
    """The page that an expression waited in has been left for another one."""


class Page:
    """A tab. `requests` are the addresses that it asked for, `complaints` what its console says of errors."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self.session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []

    # --- the protocol ------------------------------------------------------------------------------------------------

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message)
        async with asyncio.timeout(WAIT_SECONDS):
            result: dict[str, Any] = await answer
        return result

    async def listen(self) -> None:
        async for message in self._socket:
            self._take(json.loads(message.data))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            answer = self._answers.pop(message["id"])
            if "error" in message:
                problem = str(message["error"])
                answer.set_exception((NavigatedAway if "navigated" in problem else ScriptFailed)(problem))
            elif not answer.done():
                answer.set_result(message["result"])
            return
        method, parameters = message["method"], message["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(str([one.get("description", one.get("value")) for one in parameters["args"]]))
        elif method == "Log.entryAdded" and parameters["entry"]["source"] != "network":
            self.complaints.append(str(parameters["entry"]["text"]))

    # --- what a test does --------------------------------------------------------------------------------------------

    async def open(self, url: str) -> None:
        """Goes to an address, and waits until it has loaded. With only the part behind # changed, it has already."""
        self._loaded.clear()
        if "loaderId" not in await self.send("Page.navigate", url=url):
            return
        async with asyncio.timeout(WAIT_SECONDS):
            await self._loaded.wait()

    async def get(self, expression: str) -> Any:
        """Returns the value of an expression in the page; of a promise, what it resolves to."""
        answer = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise ScriptFailed(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Waits until an expression is true in the page, and returns its value."""
        waiting = f"""new Promise((done) => {{
            const look = () => {{
                let value = null;
                try {{ value = ({expression}); }} catch {{ }}
                if (value) done(value); else setTimeout(look, 15);
            }};
            look();
        }})"""
        try:
            return await self.get(waiting)
        except NavigatedAway:
            return await self.until(expression)
        except TimeoutError:
            shown = await self.get("document.body.innerText")
            raise AssertionError(f"{expression} has not become true. The page says:\n{shown}") from None

    async def text(self, selector: str) -> str:
        """Returns what can be read in an element."""
        return str(await self.get(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def until_text(self, selector: str, text: str) -> None:
        """Waits until an element says something."""
        await self.until(f"document.querySelector({json.dumps(selector)}).innerText.includes({json.dumps(text)})")

    async def click(self, selector: str) -> None:
        """Clicks on the middle of an element."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        x, y = await self.get(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{block: "center"}});
                const box = element.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2];
            }})()"""
        )
        await self.click_at(x, y)

    async def click_at(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def point_at(self, x: float, y: float) -> None:
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def press(self, *keys: str) -> None:
        for key in keys:
            code, text = KEYS[key]
            common = {"key": key, "windowsVirtualKeyCode": code}
            await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
            await self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        await self.send("Input.insertText", text=text)

    async def resize(self, width: int, height: int, *, scale: float = 1) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 700,
        )

    async def prefer(self, colours: str) -> None:
        """Sets what the system has: light or dark."""
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])

    async def picture(self, *, whole: bool = False) -> bytes:
        """Returns a picture of what can be seen, or of the whole page, as PNG."""
        answer = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    async def hide(self, hidden: bool) -> None:
        """As if the tab were put behind another one, or back: headless Chromium shows all tabs."""
        await self.get(
            f"Object.defineProperty(document, 'hidden', {{configurable: true, value: {json.dumps(hidden)}}});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )

    async def before_scripts(self, source: str) -> None:
        """Runs a script in each page before its own."""
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=source)


@asynccontextmanager
async def open_page(address: str) -> AsyncIterator[Page]:
    """A tab in a context of its own."""
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
        page = Page(socket)
        listening = asyncio.create_task(page.listen())
        context = (await page.send("Target.createBrowserContext"))["browserContextId"]
        target = await page.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await page.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.send(f"{domain}.enable")
        await page.resize(WIDTH, HEIGHT)
        try:
            yield page
        finally:
            page.session = ""
            await page.send("Target.disposeBrowserContext", browserContextId=context)
            listening.cancel()
