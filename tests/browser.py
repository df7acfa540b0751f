"""The page of `ricci show --html` in a browser: `python -m tests.browser [MODEL ...]`.

Needs `chromium` on the PATH. The page of each model (a folder or file; by default a small network,
a large graph and one with a loop) is opened without a window, with a script behind it that clicks
on kernels, searches, zooms and sorts, and says what it has found. Anything that the page
writes to the console is an error. `--shots FOLDER` keeps pictures, light and dark.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ricci.cli import main as ricci

from .test_show_html import LOOP, RESIDUAL

LARGE = f"""
graph G {{
    @input {{ t0: real[6, 6]; }}
    @output {{ t300: real[6, 6]; }}
    @compose {{ {"".join(f"t{k + 1} = turn(t{k}); " for k in range(300))} }}
}}
operator turn {{
    @input {{ x: real[n, n]; }}
    @output {{ y: real[n, n]; }}
    @lower {{ y[i, j] += x[j, k] * x[k, i], i < n, j < n, k < n; }}
}}
"""
BUILT_IN = {"net": RESIDUAL, "large": LARGE, "loop": LOOP}

SCRIPT = """
<script>
(() => {
  const found = { errors: window.failures, checks: [] };
  const check = (name, holds) => found.checks.push([name, Boolean(holds)]);
  const press = () => new MouseEvent("click", { bubbles: true, cancelable: true });
  const click = (x) => x.dispatchEvent(press());
  const shown = () => [...document.querySelectorAll("#details article")]
    .filter((x) => getComputedStyle(x).display !== "none").map((x) => x.dataset.kernel);
  try {
    const boxes = [...document.querySelectorAll(".graph .kernel")];
    check("there are kernels", boxes.length > 0);
    check("no kernel is described before a click", shown().length === 0);
    for (const box of boxes.slice(0, 5).concat(boxes.slice(-1))) {
      click(box.querySelector("rect"));
      check("a click on a box describes it", String(shown()) === box.dataset.kernel);
      check("the box is marked", box.classList.contains("chosen"));
    }
    const rows = [...document.querySelectorAll("tr[data-kernel]")];
    click(rows[0].cells[1]);
    check("a click on a row describes it", String(shown()) === rows[0].dataset.kernel);
    click(rows[rows.length - 1].querySelector("a"));
    check("so does its link", String(shown()) === rows[rows.length - 1].dataset.kernel);
    const view = document.querySelector(".view"), frame = view.getBoundingClientRect();
    const place = boxes[boxes.length - 1].getBoundingClientRect();
    check("the drawing shows it", place.bottom > frame.top && place.top < frame.bottom);
    const life = document.querySelector(".life");
    if (life) {
      click(life);
      check("so does a block of memory", String(shown()) === life.dataset.kernel);
    }
    const graph = document.getElementById("graph"), width = graph.getBoundingClientRect().width;
    click(document.getElementById("larger"));
    check("larger", graph.getBoundingClientRect().width > width * 1.2);
    click(document.getElementById("fit"));
    check("fit", Math.abs(graph.getBoundingClientRect().width - view.clientWidth) < 20);
    const find = document.getElementById("find");
    find.value = "no kernel has this name";
    find.dispatchEvent(new Event("input"));
    check("nothing is found", boxes.every((x) => x.classList.contains("faded")));
    find.value = "";
    find.dispatchEvent(new Event("input"));
    check("all are found", !boxes.some((x) => x.classList.contains("faded")));
    const head = document.querySelector(".sortable th");
    click(head);
    click(head);
    const order = [...document.querySelectorAll("tr[data-kernel]")].map((x) => +x.dataset.kernel);
    check("sorted by number", order.every((n, k) => n === k));
    const boxesOf = boxes.map((x) => x.querySelector(".box").getBoundingClientRect());
    check("boxes are apart", boxesOf.every((a, k) => !k || boxesOf[k - 1].bottom <= a.top));
    check("texts are within boxes", boxes.every((x) => {
      const box = x.querySelector(".box").getBoundingClientRect();
      return [...x.querySelectorAll("text")].every((t) => {
        const text = t.getBoundingClientRect();
        const across = text.left >= box.left && text.right <= box.right + 1;
        return across && text.bottom <= box.bottom + 1;
      });
    }));
    check("nothing was loaded", performance.getEntriesByType("resource").length === 0);
  } catch (problem) {
    found.errors.push(String(problem));
  }
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
})();
</script>
"""
WATCH = """
<script>
window.failures = [];
addEventListener("error", (event) => failures.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => failures.push(event.violatedDirective));
for (const kind of ["error", "warn"]) console[kind] = (...words) => failures.push(words.join(" "));
</script>
"""
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--window-size=1400,1100", "--enable-logging=stderr",
]  # fmt: skip


def browse(page: Path, *options: str) -> tuple[str, str]:
    """What the browser prints about a page, and what it writes to its console."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            ["chromium", *OPTIONS, f"--user-data-dir={profile}", *options, page.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    return done.stdout, "\n".join(x for x in done.stderr.splitlines() if "CONSOLE" in x)


def inspect(page: Path) -> dict[str, Any]:
    """What the script behind a page has found."""
    text = page.read_text("utf-8")
    watched = text.replace("<style>", WATCH + "<style>", 1)
    copy = page.with_suffix(".inspected.html")
    copy.write_text(watched.replace("</body>", SCRIPT + "</body>"), "utf-8")
    printed, console = browse(copy, "--dump-dom")
    match = re.search(r'<pre id="found">(.*?)</pre>', printed, re.S)
    if match is None:
        return {"errors": ["the script has not ended", console], "checks": []}
    found: dict[str, Any] = json.loads(html.unescape(match[1]))
    found["errors"] += [console] if console else []
    return found


def pages(models: list[str], folder: Path) -> dict[str, Path]:
    """A page of each model, those of programs that are part of this without and with times."""
    out = {}
    paths = {Path(m).stem: m for m in models}
    for name, text in BUILT_IN.items() if not models else ():
        file = folder / f"{name}.sknd"
        file.write_text(text)
        ricci(["init", str(file)])
        paths[name] = str(file)
    for name, path in paths.items():
        for kind, options in (("plain", []), ("timed", ["--profile", "--calls", "2"])):
            page = folder / f"{name}-{kind}.html"
            if ricci(["show", path, "--html", "-o", str(page), *options]) == 0:
                out[f"{name}, {kind}"] = page
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*")
    parser.add_argument("--shots", type=Path)
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, page in pages(options.model, Path(folder)).items():
            found = inspect(page)
            wrong = [check for check, holds in found["checks"] if not holds] + found["errors"]
            failures += len(wrong) + (not found["checks"])
            print(f"{name}: {len(found['checks'])} checks" + "".join(f"\n  {w}" for w in wrong))
            if options.shots:
                take_pictures(page, options.shots)
    return 1 if failures else 0


def take_pictures(page: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for scheme, value in (("light", 1), ("dark", 0)):
        target = folder.resolve() / f"{page.stem}-{scheme}.png"
        setting = f"--blink-settings=preferredColorScheme={value}"
        browse(page, f"--screenshot={target}", setting)


if __name__ == "__main__":
    sys.exit(main())
