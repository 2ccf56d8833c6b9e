"""Debian's Chromium without a window, driven through its DevTools protocol: real clicks, real keys, and a log of what it asks for."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

INSTALL = "pages are tested in Chromium: apt-get install chromium chromium-driver"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--window-size=1440,1000",
)


def is_installed() -> bool:
    """Whether the browser and its driver are there."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class Browser:
    """A browser with one tab. `errors` and `requests` are those since the last page was opened."""

    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver
        self.errors: list[str] = []
        self.requests: list[str] = []

    def open(self, page: Path) -> None:
        self._read_log()
        self.errors.clear()
        self.requests.clear()
        self.driver.get(page.as_uri())

    def js(self, code: str, *arguments: Any) -> Any:
        """The value of an expression, which may await; `arguments` is an array in it."""
        program = f"const done = arguments[arguments.length - 1]; (async () => ({code}))().then(done, (error) => done('' + error))"
        return self.driver.execute_async_script(program, *arguments)

    def frame(self) -> None:
        """Wait until what was asked for is drawn."""
        self.js("await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))")

    def click_at(self, x: float, y: float, times: int = 1) -> None:
        """A click with the left button at a place of the window."""
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for count in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
        self.frame()

    def click(self, selector: str) -> None:
        from selenium.webdriver.common.by import By

        element = self.driver.find_element(By.CSS_SELECTOR, selector)
        # The head of a page stays at the top of the window, above what is scrolled there.
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.frame()

    def keys(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()
        self.frame()

    def text(self, selector: str) -> str:
        return str(self.js("[...document.querySelectorAll(arguments[0])].map((e) => e.innerText).join('\\n')", selector))

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def screenshot(self, path: Path) -> None:
        self.frame()
        self.driver.save_screenshot(str(path))

    def log(self) -> tuple[list[str], list[str]]:
        """Errors of the console, and addresses that were asked for."""
        self._read_log()
        return self.errors, self.requests

    def _read_log(self) -> None:
        self.errors += [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])


@contextmanager
def chromium(*, dark: bool = False) -> Iterator[Browser]:
    """A browser of its own, with a fresh profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program and driver, INSTALL
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="tensorproof-browser-", ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        started = webdriver.Chrome(options=options, service=Service(driver))
        try:
            started.set_script_timeout(60)
            browser = Browser(started)
            browser.command(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            )
            yield browser
        finally:
            started.quit()
