"""A headless browser, driven over a pipe by the DevTools protocol: true widths, real keys, nothing
added to the page.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PATH = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ),
)


class Browser:
    """One page in a browser of its own; use it as a context manager.

    Attributes:
      requests: addresses that the page asked for.
      console: texts of errors, warnings and messages, and of refusals by the page's policy.
    """

    def __init__(self, profile: Path):
        reader, self._out = os.pipe()
        self._in, writer = os.pipe()
        # not 3 or 4, which they become
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (reader, writer)]
        command = ["bash", "-c", 'exec "$@" 3<&{} 4>&{}'.format(*theirs), "bash", PATH, *_FLAGS]
        command += [f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for end in (reader, writer, *theirs):
            os.close(end)
        self.requests: list[str] = []
        self.console: list[str] = []
        self._number, self._rest, self._session, self._seen = 0, b"", None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *exception) -> None:
        self._session = None
        self.send("Browser.close")
        os.close(self._out)
        os.close(self._in)
        self._process.wait(30)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command of the protocol and returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(self, page: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Loads a page in a window of this width in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.console.clear()
        self._seen.clear()
        self.send("Page.navigate", url=page.as_uri())
        while "Page.loadEventFired" not in self._seen:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Presses and lets go a key: Tab, Enter, ArrowLeft, …"""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        code = {
            "Tab": 9,
            "Enter": 13,
            "ArrowLeft": 37,
            "ArrowUp": 38,
            "ArrowRight": 39,
            "ArrowDown": 40,
        }.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                text=text,
                windowsVirtualKeyCode=code,
            )

    def point(self, x: float, y: float) -> None:
        """Moves the pointer."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, top: float = 0, height: float | None = None) -> None:
        """Writes a PNG of the page, or of a piece of it, in CSS pixels."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": top,
            "width": size["width"],
            "height": height or size["height"] - top,
            "scale": 1,
        }
        data = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser went away"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(str(params["args"]))
        if method:
            self._seen.append(method)
