"""The picture of docs/viewer.md: the page of the viewer in Chromium, with several choices.

    python docs/make_viewer.py

It needs the extra `view` and Chromium.
"""

from __future__ import annotations

import _clone  # noqa: F401  # before what it makes importable

import argparse
import base64
import io
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from PIL import Image
from websockets.sync.client import connect

from gendr.photos import load_views
from gendr.photos.fitting import fit
from gendr.photos.viewer import Subject, Viewer

DOCS = Path(__file__).parent
SIZE, SECONDS = (960, 440), 8.0
CHOICES = (
    {"look": "shape"},
    {"look": "soft picture", "pixels": 3.0, "cameras": False},
    {"look": "gradient", "pixels": 1.0, "cameras": False},
    {"look": "shape", "compare": "difference", "cameras": False, "photo": 3},
)
# WebGL without a graphics card.
FLAGS = "--headless --no-sandbox --hide-scrollbars --use-gl=angle --use-angle=swiftshader"
FLAGS += " --enable-unsafe-swiftshader --ignore-gpu-blocklist --remote-debugging-port=0"


class Browser:
    """Headless Chromium, by its DevTools protocol.

    Raises:
        SystemExit: if there is none.
    """

    def __init__(self, folder: str) -> None:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        if program is None:
            raise SystemExit("there is no Chromium: apt install chromium")
        command = [program, *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        file = Path(folder) / "DevToolsActivePort"
        while not file.is_file() or not file.read_text():
            time.sleep(0.1)
        port = file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
            page = next(each for each in json.load(answer) if each["type"] == "page")
        self._socket = connect(page["webSocketDebuggerUrl"], max_size=None)
        self._numbers = itertools.count()

    def tell(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": arguments}))
        while True:
            answer = json.loads(self._socket.recv(timeout=120))
            if answer.get("id") == number:
                return answer["result"]

    def picture(self) -> Image.Image:
        """What the page shows."""
        data = self.tell("Page.captureScreenshot")["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()


def main() -> None:
    """Make the picture."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    views = load_views(DOCS.parent / "assets" / "photos", size=128)
    found = fit(views.masks, views.camera, init="hull", steps=30)
    meshes = tuple((f"step {step}", mesh) for step, mesh in found.trace)
    viewer = Viewer(Subject("teapot", meshes, views=views))
    width, height = SIZE
    page = Image.new("RGB", (2 * width + 12, 2 * height + 12), "white")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(folder)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.tell("Emulation.setDeviceMetricsOverride", **metrics)
        browser.tell("Page.navigate", url=viewer.url)
        time.sleep(2 * SECONDS)
        for i, choices in enumerate(CHOICES):
            for name, value in choices.items():
                viewer._controls[name].value = value  # as the page would
            time.sleep(SECONDS)
            # Its word about WebGL without a graphics card.
            script = "document.querySelectorAll('[class*=Notifications]').forEach(x => x.remove())"
            browser.tell("Runtime.evaluate", expression=script)
            page.paste(browser.picture(), ((i % 2) * (width + 12), (i // 2) * (height + 12)))
        browser.close()
    viewer.close()
    page = page.resize((page.width * 3 // 4, page.height * 3 // 4), Image.Resampling.LANCZOS)
    page.quantize(128).save(DOCS / "images" / "viewer.png", optimize=True)


if __name__ == "__main__":
    main()
