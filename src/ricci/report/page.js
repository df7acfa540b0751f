"use strict";
(() => {
  const all = (what, root = document) => [...root.querySelectorAll(what)];
  document.documentElement.classList.add("script");

  // A kernel that is chosen anywhere is shown everywhere.
  const choose = (number, origin) => {
    all(".chosen").forEach((x) => x.classList.remove("chosen"));
    all(`[data-kernel="${number}"]`).forEach((x) => x.classList.add("chosen"));
    all(".flow").forEach((x) => {
      if (x.dataset.rows.split(" ").includes(number)) x.classList.add("chosen");
    });
    all("#details .hint").forEach((x) => x.remove());
    document.getElementById("details").scrollTop = 0;
    const box = document.querySelector(`.graph .kernel[data-kernel="${number}"]`);
    if (box && !box.contains(origin)) {
      const view = document.querySelector(".view");
      const place = box.getBoundingClientRect(), frame = view.getBoundingClientRect();
      view.scrollTop += place.top - frame.top - frame.height / 3;
    }
  };
  const numberOf = (target) => target.closest("[data-kernel]")?.dataset.kernel;
  let moved = false;
  document.addEventListener("click", (event) => {
    const number = numberOf(event.target);
    if (number === undefined || moved || event.target.closest("#details")) return;
    if (event.target.closest("a")) event.preventDefault();
    choose(number, event.target);
  });
  document.addEventListener("keydown", (event) => {
    const number = numberOf(event.target);
    if (number === undefined || (event.key !== "Enter" && event.key !== " ")) return;
    if (event.target.closest("#details, a")) return;
    event.preventDefault();
    choose(number, event.target);
  });

  // The drawing can be made larger and smaller, and moved with the mouse.
  const view = document.querySelector(".view"), graph = document.getElementById("graph");
  if (graph) {
    const width = Number(graph.getAttribute("width")), height = Number(graph.getAttribute("height"));
    let scale = 1;
    const zoom = (factor) => {
      const next = Math.min(4, Math.max(0.1, factor));
      const x = (view.scrollLeft + view.clientWidth / 2) / scale;
      const y = (view.scrollTop + view.clientHeight / 2) / scale;
      scale = next;
      graph.setAttribute("width", width * scale);
      graph.setAttribute("height", height * scale);
      view.scrollLeft = x * scale - view.clientWidth / 2;
      view.scrollTop = y * scale - view.clientHeight / 2;
    };
    document.getElementById("larger").addEventListener("click", () => zoom(scale * 1.25));
    document.getElementById("smaller").addEventListener("click", () => zoom(scale / 1.25));
    document.getElementById("fit").addEventListener("click", () => zoom(view.clientWidth / width));
    view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(scale * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
    }, { passive: false });
    let from = null;
    view.addEventListener("pointerdown", (event) => {
      moved = false;
      if (event.button === 0) from = [event.clientX, event.clientY, view.scrollLeft, view.scrollTop];
    });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
      if (Math.abs(x) + Math.abs(y) > 5) moved = true;
      if (!moved) return;
      view.classList.add("moving");
      view.scrollLeft = from[2] - x;
      view.scrollTop = from[3] - y;
    });
    addEventListener("pointerup", () => {
      from = null;
      view.classList.remove("moving");
      setTimeout(() => { moved = false; });
    });
    document.getElementById("find").addEventListener("input", (event) => {
      const wanted = event.target.value.toLowerCase();
      const boxes = all(".kernel", graph);
      boxes.forEach((x) => x.classList.toggle("faded", !x.textContent.toLowerCase().includes(wanted)));
      const first = wanted && boxes.find((x) => !x.classList.contains("faded"));
      if (first) view.scrollTop += first.getBoundingClientRect().top - view.getBoundingClientRect().top - 40;
    });
  }

  // Tables are sorted by the column that is clicked, and the other way round by the next click.
  all(".sortable th").forEach((head) => head.addEventListener("click", () => {
    const column = [...head.parentNode.children].indexOf(head);
    const body = head.closest("table").tBodies[0];
    const down = head.dataset.order !== "down";
    head.dataset.order = down ? "down" : "up";
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)], numbers = Number(x) - Number(y);
      return Number.isNaN(numbers) ? x.localeCompare(y) : numbers;
    };
    const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(a, b));
    body.append(...rows);
  }));

  const first = location.hash.match(/^#kernel-(\d+)$/);
  if (first) choose(first[1]);
})();
