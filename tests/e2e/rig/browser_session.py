"""One browser for many pages, as a person uses it: with a width, a colour scheme, and a keyboard.

By the DevTools protocol (https://chromedevtools.github.io/devtools-protocol), in which one start of Chromium serves all
pages of a site. `browser.py` opens a single page.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.rig.browser import PACKAGES, QUIET
from tests.e2e.rig.kubernetes.binaries import install_packages

_AT_REST = """
if (document.readyState !== "complete") await new Promise(done => addEventListener("load", done));
const style = Object.assign(document.createElement("style"), { textContent: "* { transition: none !important }" });
document.head.append(style);
"""
MOST_MESSAGES = 1 << 24
"""Bytes of messages that the browser may write before it would wait for a reader."""
TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}


class BrowserTab:
    """A tab of a running browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._numbers, self._session = socket, itertools.count(1), ""

    async def attach(self) -> None:
        """Open a tab of its own."""
        target = await self.send("Target.createTarget", url="about:blank")
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        await self.send("Page.enable")

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a request; events before it are dropped."""
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": parameters, **session})
        while True:
            message = json.loads(await self._socket.receive_str())
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    async def show(self, page: Path, *, width: int = 1280, is_dark: bool = False) -> None:
        """Load a page, and wait until all of it is there. Its colours change at once, so that they can be measured."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])
        await self.send("Page.navigate", url=page.as_uri())
        await self.evaluate(_AT_REST)

    async def evaluate(self, script: str) -> Any:
        """What this script returns in the page."""
        expression = f"(async () => {{ {script} }})()"
        done = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def press_tab(self) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, **TAB)


@asynccontextmanager
async def browser_tab(profile: Path) -> AsyncIterator[BrowserTab]:
    """A tab of a browser that ends with the context. `profile`: a new folder."""
    install_packages(PACKAGES)
    process = await asyncio.create_subprocess_exec(
        "chromium", *QUIET, "--remote-debugging-port=0", "--hide-scrollbars", f"--user-data-dir={profile}",
        stderr=asyncio.subprocess.PIPE, limit=MOST_MESSAGES,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while not (line := (await process.stderr.readline()).decode()).startswith("DevTools listening on "):
                assert line, "the browser ended"
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(line.removeprefix("DevTools listening on ").strip(), max_msg_size=0) as socket,
        ):
            tab = BrowserTab(socket)
            await tab.attach()
            yield tab
    finally:
        process.kill()
        await process.communicate()
