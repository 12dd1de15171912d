"""A real browser for tests of pages: Debian's Chromium without a window, with its driver."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

NEEDED = ("chromium", "chromedriver")


def missing() -> list[str]:
    """Return the programs that the browser needs and that are not installed."""
    return [name for name in NEEDED if shutil.which(name) is None]


class Browser:
    """Opens pages and says what they do."""

    def __init__(self) -> None:
        if lacking := missing():
            why = f"{' and '.join(lacking)} not found; on Debian: apt-get install chromium chromium-driver"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        # As root, Chromium has no sandbox; containers have a small /dev/shm.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # With the path of the driver, Selenium looks for none, and downloads none.
        self.driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))

    def open(self, page: Path, *, width: int = 1280, dark: bool = False, script: bool = True) -> None:
        """Open a page and draw all of its plots, which it does by itself only when they come near the window."""
        command = self.driver.execute_cdp_cmd
        self.driver.get("about:blank")
        self.log()
        self.scheme(dark=dark)
        self.resize(width)
        command("Emulation.setScriptExecutionDisabled", {"value": not script})
        self.driver.get(page.as_uri())
        if script:
            self.draw()

    def draw(self) -> None:
        """Draw all plots of the page."""
        self.run("return Promise.all([...group].map(([plot, each]) => each.draw(plot))).then(() => true)")

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, and return its value."""
        return self.driver.execute_script(script, *arguments)

    def scheme(self, *, dark: bool) -> None:
        """Prefer a dark or a light page, and no movement, during which nothing can be clicked."""
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        given = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": given})

    def resize(self, width: int) -> None:
        """Give the window another width; one of a phone scales pages as phones do."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def log(self) -> list[dict[str, Any]]:
        """Return the entries of the console since it was last read."""
        return list(self.driver.get_log("browser"))

    def close(self) -> None:
        """End the browser."""
        self.driver.quit()
