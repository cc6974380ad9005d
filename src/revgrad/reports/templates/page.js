/* What a pointer shows. Everything is drawn before this runs; text is set as text, never as html. */
"use strict";
(() => {
  const tip = document.getElementById("tip");
  let data = null;

  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const percent = (share) => (100 * share).toFixed(1) + "%";
  const sure = (share) => share > 0.9994 ? ">99.9%" : percent(share);
  const number = (value) =>
    Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  const called = (classes, index) => classes[index] ?? String(index);

  function show(x, y, ...parts) {
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = x + 18 + box.width > innerWidth ? x - box.width - 14 : x + 18;
    const below = y + 14 + box.height > innerHeight ? y - box.height - 12 : y + 14;
    tip.style.transform = `translate(${Math.max(right, 6)}px, ${Math.max(below, 6)}px)`;
  }
  const hide = () => { tip.hidden = true; };

  /* A tile of the sheet, as large as `side` pixels at its longest. */
  function tile(index, side) {
    const s = data.sheet;
    const scale = side / Math.max(s.width, s.height);
    const frame = make("span", "shown");
    frame.style.cssText = `display:block;width:${s.width * scale}px;height:${s.height * scale}px;overflow:hidden`;
    const inner = make("span", "tile");
    const left = (index % s.columns) * s.strideX, top = Math.floor(index / s.columns) * s.strideY;
    inner.style.cssText = `width:${s.width}px;height:${s.height}px;transform:scale(${scale});background-position:-${left}px -${top}px`;
    frame.append(inner);
    return frame;
  }

  const stroke = (look) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 26 10");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("class", "line " + look);
    path.setAttribute("d", "M1 5H25");
    svg.append(path);
    return svg;
  };

  const inside = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const onScreen = (svg, x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());

  function nearest(steps, step) {
    let best = 0;
    for (let i = 1; i < steps.length; i++) if (Math.abs(steps[i] - step) < Math.abs(steps[best] - step)) best = i;
    return best;
  }

  function chart(one) {
    const svg = document.getElementById(one.id);
    if (!svg) return;
    const cursor = svg.querySelector(".cursor");
    const every = [...new Set(one.series.flatMap((line) => line.steps))].sort((a, b) => a - b);
    if (!every.length) return;
    let at = every.length - 1;
    const read = (x, y) => {
      const step = every[at];
      const px = one.left + (one.right - one.left) * step / one.last;
      cursor.setAttribute("x1", px); cursor.setAttribute("x2", px); cursor.classList.add("on");
      const lines = one.series.map((line) => {
        const i = nearest(line.steps, step);
        const value = line.values[i];
        const read = make("div", "pair-line");
        const shown = value === null ? "not finite" : one.share ? percent(value) : number(value);
        const other = line.steps[i] === step ? "" : ` (step ${line.steps[i].toLocaleString("en")})`;
        read.append(stroke(line.look), make("span", "", line.name + other), make("b", "", shown));
        return read;
      });
      show(x, y, make("div", "of", "step " + step.toLocaleString("en")), ...lines);
    };
    const byKey = () => {
      const spot = onScreen(svg, one.left + (one.right - one.left) * every[at] / one.last, 60);
      read(spot.x, spot.y);
    };
    const follow = (event) => {
      const x = inside(svg, event).x;
      at = nearest(every, (x - one.left) / (one.right - one.left) * one.last);
      read(event.clientX, event.clientY);
    };
    const leave = () => { cursor.classList.remove("on"); hide(); };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move) return;
      event.preventDefault();
      at = Math.min(Math.max(at + move, 0), every.length - 1);
      byKey();
    });
  }

  function clouds(all) {
    const pictures = all.panels.map((panel) => document.getElementById(panel.id));
    const rings = pictures.map((svg) => svg.querySelector(".ring"));
    const only = document.getElementById("only");
    const kind = (point, panel) => point < all.sources ? (all.labels.length ? all.labels[point] : panel.predicted[point]) : panel.predicted[point];
    const seen = (point, panel) => !only || only.value === "" || kind(point, panel) === Number(only.value);
    /* What other runs predict for the same sample; of very many, how many agree. */
    const others = (number, point) => {
      const own = all.panels[number].predicted[point];
      const rest = all.panels.filter((panel, i) => panel.name && i !== number);
      if (rest.length > 8) {
        const same = rest.filter((panel) => panel.predicted[point] === own).length;
        return [make("div", "of others", `${same} of ${rest.length} other runs predict the same`)];
      }
      const lines = rest.map((panel) => {
        const line = make("div", "pair-line");
        const predicted = make("b", panel.predicted[point] === own ? "same" : "", called(all.classes, panel.predicted[point]));
        line.append(stroke(panel.look), make("span", "", panel.name), predicted);
        return line;
      });
      if (lines.length) lines[0].classList.add("others");
      return lines;
    };
    const read = (number, point, x, y) => {
      const panel = all.panels[number];
      const fromSource = point < all.sources;
      const parts = [];
      if (data.sheet && all.tiles[point] >= 0) parts.push(tile(all.tiles[point], 112));
      parts.push(make("div", "of", `${fromSource ? "source" : "target"} sample ${all.indices[point]}`));
      parts.push(make("div", "", `predicted ${called(all.classes, panel.predicted[point])}, ${sure(panel.sure[point])} sure`));
      if (fromSource && all.labels.length) parts.push(make("div", "", `label ${called(all.classes, all.labels[point])}`));
      parts.push(...others(number, point));
      rings.forEach((ring, i) => {
        ring.setAttribute("cx", all.panels[i].x[point]);
        ring.setAttribute("cy", all.panels[i].y[point]);
        ring.classList.add("on");
      });
      show(x, y, ...parts);
    };
    const leave = () => { rings.forEach((ring) => ring.classList.remove("on")); hide(); };
    pictures.forEach((svg, i) => {
      const panel = all.panels[i];
      let at = -1;
      const follow = (event) => {
        const p = inside(svg, event);
        let best = -1, least = 60 * 60;
        for (let k = 0; k < panel.x.length; k++) {
          const d = (panel.x[k] - p.x) ** 2 + (panel.y[k] - p.y) ** 2;
          if (d < least && seen(k, panel)) { least = d; best = k; }
        }
        at = best;
        if (best < 0) leave(); else read(i, best, event.clientX, event.clientY);
      };
      svg.addEventListener("pointermove", follow);
      svg.addEventListener("pointerdown", follow);
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("blur", leave);
      svg.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!move) return;
        event.preventDefault();
        for (let tries = 0; tries < panel.x.length; tries++) {
          at = (at + move + panel.x.length) % panel.x.length;
          if (seen(at, panel)) break;
        }
        const spot = onScreen(svg, panel.x[at], panel.y[at]);
        read(i, at, spot.x, spot.y);
      });
    });
    const choose = () => document.querySelectorAll(".cloud path[data-class]").forEach((path) =>
      path.classList.toggle("dim", only.value !== "" && path.dataset.class !== only.value));
    if (only) { only.addEventListener("change", choose); choose(); }
  }

  function confusion(one) {
    const svg = document.getElementById(one.id);
    if (!svg || !one.counts) return;
    const kinds = one.counts.length;
    const cell = one.extent / kinds;
    const follow = (event) => {
      const p = inside(svg, event);
      const column = Math.floor((p.x - one.margin) / cell), line = Math.floor(p.y / cell);
      if (column < 0 || line < 0 || column >= kinds || line >= kinds) return hide();
      const total = one.counts[line].reduce((a, b) => a + b, 0), count = one.counts[line][column];
      const share = total ? ` (${percent(count / total)})` : "";
      show(event.clientX, event.clientY, make("div", "of", `label ${called(data.classes, line)}, predicted ${called(data.classes, column)}`),
        make("div", "", `${count} of ${total} samples${share}`));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", hide);
  }

  function middle(element) {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  }
  function hovers(element, parts) {
    element.addEventListener("pointermove", (event) => show(event.clientX, event.clientY, ...parts()));
    element.addEventListener("focus", () => { if (element.matches(":focus-visible")) show(...middle(element), ...parts()); });
    element.addEventListener("pointerleave", hide);
    element.addEventListener("blur", hide);
  }

  function images() {
    document.querySelectorAll("[data-tile]").forEach((frame) => {
      const d = frame.dataset;
      hovers(frame, () => [tile(Number(d.tile), 140), make("div", "of", `target sample ${d.index}`),
        make("div", "", `predicted ${d.predicted}, ${sure(Number(d.confidence))} sure`), make("div", "of", `next likely: ${d.runnerUp}`)]);
    });
    document.querySelectorAll("[data-tip]").forEach((bar) => hovers(bar, () => [make("div", "", bar.dataset.tip)]));
  }

  function sorting() {
    document.querySelectorAll("table.runs").forEach((table) => {
      const body = table.tBodies[0];
      table.querySelectorAll("[data-sort]").forEach((heading) => {
        heading.tabIndex = 0;
        const sort = () => {
          const down = heading.getAttribute("aria-sort") !== "descending";
          table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
          heading.setAttribute("aria-sort", down ? "descending" : "ascending");
          const value = (row) => { const v = row.cells[heading.cellIndex].dataset.value; return v === "" ? NaN : Number(v); };
          const order = (a, b) => isNaN(a) ? 1 : isNaN(b) ? -1 : down ? b - a : a - b;
          body.append(...[...body.rows].sort((a, b) => order(value(a), value(b))));
        };
        heading.addEventListener("click", sort);
        heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
      });
    });
    const lines = document.querySelectorAll(".chart .line, .chart .marks");
    document.querySelectorAll("[data-run]").forEach((row) => {
      const looks = row.dataset.run.split(" ");
      row.addEventListener("pointerenter", () => lines.forEach((line) =>
        line.classList.toggle("faint", !looks.every((look) => line.classList.contains(look)))));
      row.addEventListener("pointerleave", () => lines.forEach((line) => line.classList.remove("faint")));
    });
  }

  function start() {
    data = JSON.parse(document.getElementById("data").textContent);
    hide();
    data.charts.forEach(chart);
    data.clouds.forEach(clouds);
    if (data.confusion) confusion(data.confusion);
    images();
    sorting();
  }

  /* A page that is served asks whether there is a newer one, and takes its place without moving. */
  async function watch() {
    const said = document.getElementById("watch");
    const { every, version } = data.refreshing;
    try {
      const now = await (await fetch("version", { cache: "no-store" })).text();
      if (now !== version) {
        said.textContent = "refreshing …";
        const fresh = new DOMParser().parseFromString(await (await fetch("./", { cache: "no-store" })).text(), "text/html");
        const chosen = document.getElementById("only")?.value;
        const opened = [...document.querySelectorAll("details")].map((one) => one.open);
        document.getElementById("page").replaceWith(document.adoptNode(fresh.getElementById("page")));
        document.title = fresh.title;
        document.querySelectorAll("details").forEach((one, i) => { one.open = opened[i] ?? one.open; });
        const only = document.getElementById("only");
        if (only && chosen) only.value = chosen;
        start();
      }
      said.textContent = "watching · " + new Date().toLocaleTimeString();
    } catch (error) {
      said.textContent = "the server has stopped; this is the last it said";
    }
    setTimeout(watch, 1000 * every);
  }

  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  start();
  if (data.refreshing) setTimeout(watch, 1000 * data.refreshing.every);
})();
