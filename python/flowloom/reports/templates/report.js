"use strict";
document.documentElement.classList.add("js");

// Tables: a button in each head sorts the rows by its column; cells with data-order are numbers.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent || "name";
    if (!head.textContent) button.setAttribute("aria-label", "Sort by name");
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numeric = [...body.rows].some((row) => row.cells[column].dataset.order !== undefined);
      const key = (row) => {
        const cell = row.cells[column];
        return numeric ? (cell.dataset.order === undefined ? null : Number(cell.dataset.order)) : cell.textContent.trim();
      };
      const rows = [...body.rows].map((row) => [key(row), row]);
      const compare = (a, b) => (numeric ? a - b : a.localeCompare(b, "en", { numeric: true }));
      // What has no number stays last, whatever the direction.
      rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : (down ? -1 : 1) * compare(a, b)));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
}

const filter = document.querySelector(".filter");
if (filter) {
  const items = [...document.querySelectorAll("[data-verdict]")];
  const apply = () => {
    const { paper, verdict } = Object.fromEntries(new FormData(filter));
    for (const item of items) {
      const { paper: own, verdict: found, stale } = item.dataset;
      item.hidden = Boolean((paper && own !== paper) || (verdict && found !== verdict && stale !== verdict));
    }
    const rows = items.filter((item) => item.tagName === "TR");
    filter.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
  };
  filter.hidden = false;
  filter.addEventListener("change", apply);
  filter.addEventListener("submit", (event) => event.preventDefault());
  apply();
}

// A link to a claim opens it.
const reveal = () => {
  const card = location.hash && document.getElementById(location.hash.slice(1))?.closest("details");
  if (!card) return;
  card.open = true;
  card.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();

// Plots. Python gives the numbers; colours of axes and text are those of the page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const entity = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text) => text.replace(/[&<>]/g, (c) => entity[c]);
const shown = (value) => (value === null ? "none" : Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 12 }));
const bytes = (value) => {
  const [unit, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([unit]) => value >= unit) ?? [1, "B"];
  return `${Number((value / unit).toPrecision(4))} ${name}`;
};
// Breaks a text with entities at spaces.
const broken = (text, characters) => {
  const lines = [];
  for (const word of text.split(" ")) {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + word.length < characters) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines.join("<br>");
};

// Lines of the page's colour across a bar.
const pattern = (trace) => trace.pattern && { shape: trace.pattern, fillmode: "overlay", fgcolor: color("--paper"), fgopacity: 0.6, size: 7, solidity: 0.22 };
// The steps between the labels of a logarithmic axis that spans this factor: powers of ten, 1, 2 and 5, or whatever suits.
const steps = (factor) => (factor > 300 ? 1 : factor > 4 ? "D2" : undefined);

// The labels of an axis of sizes between two powers of ten: each power, or 1, 2 and 5, if few powers are shown.
const sizes = (low, high) => {
  const factors = high - low > 2.5 ? [1] : [1, 2, 5];
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, at) => 10 ** (Math.floor(low) + at));
  const ticks = powers.flatMap((power) => factors.map((factor) => factor * power)).filter((tick) => tick >= 1);
  return { tickmode: "array", tickvals: ticks, ticktext: ticks.map(bytes) };
};

class Group {
  constructor(figure) {
    const data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
    this.data = data;
    this.off = new Set();
    this.plots = [...figure.querySelectorAll(".plot")];
    this.drawn = new Set();
    for (const item of figure.querySelectorAll(".legend li")) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(...item.childNodes);
      item.append(button);
      button.addEventListener("click", () => {
        const key = Number(item.dataset.key);
        if (!this.off.delete(key)) this.off.add(key);
        button.setAttribute("aria-pressed", String(!this.off.has(key)));
        this.redraw();
      });
    }
  }

  draw(plot) {
    this.drawn.add(plot);
    const panel = this.data.panels[this.plots.indexOf(plot)];
    const lying = panel.traces.some((trace) => trace.lying || trace.kind === "span");
    const traces = panel.traces.filter((trace) => !this.off.has(trace.key)).flatMap((trace) => this.trace(trace, panel));
    const first = !plot.data;
    const drawn = Plotly.react(plot, traces, this.layout(panel, plot.clientWidth, lying), {
      displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
    if (first) drawn.then(() => plot.on("plotly_relayout", () => this.refine(plot)));
    return drawn;
  }

  // After a zoom, a logarithmic axis may need closer labels.
  refine(plot) {
    const changes = {};
    for (const name of ["xaxis", "yaxis"]) {
      const axis = plot._fullLayout[name];
      if (name === "xaxis" && this.data.panels[this.plots.indexOf(plot)].x.sizes) {
        const wanted = sizes(...axis.range);
        if (wanted.tickvals.length !== axis.tickvals.length || wanted.tickvals[0] !== axis.tickvals[0]) {
          for (const [key, value] of Object.entries(wanted)) changes[`${name}.${key}`] = value;
        }
      }
      if (axis.type !== "log" || axis.tickmode === "array") continue;
      const wanted = steps(10 ** Math.abs(axis.range[1] - axis.range[0])) ?? null;
      if ((plot.layout[name].dtick ?? null) !== wanted) {
        changes[`${name}.dtick`] = wanted;
        changes[`${name}.tickmode`] = wanted === null ? "auto" : "linear";
      }
    }
    if (Object.keys(changes).length) Plotly.relayout(plot, changes);
  }

  redraw() {
    for (const plot of this.drawn) this.draw(plot);
  }

  trace(trace, panel) {
    const own = (dark.matches ? this.data.dark : this.data.light)[trace.key];
    const name = escaped(this.data.keys[trace.key]);
    const say = (x, y, at) => {
      const spread = trace.e?.[at] ? ` ± ${shown(trace.e[at])}` : "";
      const place = panel.x.groups ? panel.x.labels[Math.round(x)] : panel.x.sizes ? bytes(x) : `${panel.x.title} ${shown(x)}`;
      return [`<b>${name}</b>`, place, `${panel.y.title || "value"} ${panel.y.percent ? `${shown(100 * y)} %` : shown(y)}${spread}`].filter(Boolean).join("<br>");
    };
    const common = { name, hoverinfo: "text", hoverlabel: { align: "left" }, showlegend: false };
    const error = trace.e ? { type: "data", array: trace.e, color: own, thickness: 1.4, width: 3 } : undefined;
    const mark = { color: own, size: 9, symbol: trace.symbol ?? "circle", line: { color: own, width: trace.symbol?.includes("open") ? 2 : 0 } };
    if (trace.kind === "line" || trace.kind === "dots") {
      const alone = trace.x.length === 1 && !trace.symbol && !trace.letter;
      const marks = trace.letter ? "text" : (trace.markers || trace.kind === "dots") && (trace.symbol || trace.kind === "dots") ? "markers" : "";
      const mode = [trace.kind === "line" ? "lines" : "", alone ? "markers" : marks].filter(Boolean).join("+");
      return [{
        ...common, type: "scatter", mode: mode || "lines", x: trace.x, y: trace.y, error_y: error, connectgaps: false,
        text: trace.letter ? trace.x.map(() => trace.letter) : undefined, textfont: { color: own, size: 14 },
        hovertext: trace.x.map((x, at) => say(x, trace.y[at], at)),
        line: { color: own, width: trace.thin ? 1.4 : 2, dash: trace.dash, shape: trace.steps ? "hv" : "linear" },
        marker: alone ? { ...mark, symbol: "line-ew-open", size: 16 } : mark,
      }];
    }
    if (trace.kind === "span") {
      return [{
        ...common, type: "bar", orientation: "h", base: trace.base, x: trace.y, y: trace.at, width: 0.72,
        hovertext: trace.text.map((text, at) => `<b>${name}</b><br>${text}<br>${shown(trace.base[at])} to ${shown(trace.base[at] + trace.y[at])}, ${panel.x.title}`),
        marker: { color: own, pattern: pattern(trace) },
        text: trace.label, textposition: "outside", cliponaxis: false, textfont: { color: color("--ink"), size: 12.5 },
      }];
    }
    return this.grouped(trace, panel, common, own, mark, error);
  }

  grouped(trace, panel, common, own, mark, error) {
    const groups = trace.lying ? panel.y : panel.x;
    const values = trace.lying ? panel.x : panel.y;
    const width = 0.8 / (trace.slots ?? 1);
    const places = trace.y.map((_, at) => at + ((trace.slot ?? 0) - ((trace.slots ?? 1) - 1) / 2) * width);
    const text = trace.y.map((value, at) => {
      const spread = trace.e?.[at] ? ` ± ${shown(trace.e[at])}` : "";
      return [`<b>${common.name}</b>`, groups.labels[at], `${values.title} ${values.percent ? `${shown(100 * value)} %` : shown(value)}${spread}`].filter(Boolean).join("<br>");
    });
    const along = (across, up) => (trace.lying ? { x: up, y: across } : { x: across, y: up });
    const spread = error && { [trace.lying ? "error_x" : "error_y"]: { ...error, color: trace.kind === "bar" ? color("--ink") : own } };
    if (trace.kind === "bound") {
      const across = trace.y.flatMap((_, at) => [at - 0.45, at + 0.45, null]);
      return [{ ...common, type: "scatter", mode: "lines", ...along(across, trace.y.flatMap((value) => [value, value, null])),
        hovertext: text.flatMap((each) => [each, each, ""]), line: { color: own, width: 2, dash: trace.dash } }];
    }
    if (trace.kind === "mark") {
      return [{ ...common, type: "scatter", mode: trace.letter ? "text" : "markers", ...along(places, trace.y), ...spread, hovertext: text, marker: mark }];
    }
    const lengths = trace.y.map((value) => (value === null ? null : value - trace.base));
    return [{
      ...common, type: "bar", orientation: trace.lying ? "h" : "v", base: trace.base, ...along(places, lengths), width: width * 0.9, ...spread,
      hovertext: text, marker: { color: own, pattern: pattern(trace) },
    }];
  }

  layout(panel, width, lying) {
    const ink = color("--ink"), soft = color("--soft"), grid = color("--grid");
    const characters = Math.max(20, Math.floor(width / 6.6));
    const title = (text) => ({ text: broken(text, characters), font: { size: 13, color: soft } });
    const above = panel.y.title ? broken(panel.y.title, characters) : "";
    const lines = above ? above.split("<br>").length : 0;
    const count = panel.x.labels?.length ?? 1;
    return {
      height: Number.parseFloat(panel.height), autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: color("--sans"), size: 12.5, color: soft }, barmode: "overlay", bargap: 0.1,
      uirevision: "kept", // what the reader has zoomed stays when something else changes
      margin: { l: 46, r: 14, t: above ? 14 + 17 * lines : 14, b: 44 }, hovermode: "closest",
      // A finger scrolls the page; its plots are zoomed with the buttons.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      hoverlabel: { bgcolor: color("--raised"), bordercolor: color("--line"), font: { family: color("--sans"), size: 13, color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: ink, orientation: "h" },
      annotations: above ? [{ text: above, xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", xshift: -40, yshift: 6, showarrow: false, align: "left", font: { size: 13, color: soft } }] : [],
      xaxis: { ...this.axis(panel, "x", grid, lying), title: panel.x.title ? { ...title(panel.x.title), standoff: 8 } : undefined,
        ...(panel.x.groups ? { ticktext: panel.x.labels.map((label) => broken(label, Math.max(6, Math.floor(characters / count) - 1))) } : {}) },
      yaxis: this.axis(panel, "y", grid, lying),
    };
  }

  axis(panel, name, grid, lying) {
    const axis = panel[name];
    const values = panel.traces.flatMap((trace) => this.values(trace, name, lying)).filter((value) => value !== null && Number.isFinite(value) && !(axis.log && value <= 0));
    const least = values.reduce((a, b) => Math.min(a, b), Infinity), most = values.reduce((a, b) => Math.max(a, b), -Infinity);
    const found = {
      type: axis.log ? "log" : "linear", gridcolor: grid, zeroline: false, automargin: true, linecolor: color("--line"), tickcolor: color("--line"),
      tickformat: axis.percent ? ",.4~%" : ",.6~g", nticks: name === "x" ? 7 : 6, fixedrange: false,
    };
    if (axis.ticks) Object.assign(found, { tickmode: "array", tickvals: axis.ticks, ticktext: axis.labels });
    else if (axis.sizes && values.length) Object.assign(found, sizes(Math.log10(least), Math.log10(most)));
    else if (axis.log) found.dtick = steps(most / least);
    if (axis.groups) {
      const ends = [-0.5, axis.ticks.length - 0.5];
      return { ...found, range: axis.down ? ends.reverse() : ends, showgrid: false, ticks: "" };
    }
    const end = (value) => (value === undefined || value === null ? null : axis.log ? Math.log10(value) : value);
    let low = end(axis.low), high = end(axis.high);
    if (axis.one && !axis.log) [low, high] = [1, Math.max(1.1, 1 + (most - 1) * 1.06)];
    else if (axis.zero && !axis.log && values.length) [low, high] = [0, high ?? (most > 0 ? most * (panel.traces.some((trace) => trace.label) ? 1.12 : 1.06) : 1)];
    else if (axis.log && values.length) {
      // An axis that ends with the data would cut its lines off.
      const room = Math.max(0.04 * Math.log10(most / least), 0.01);
      low ??= Math.log10(least) - room;
      high ??= Math.log10(most) + room;
    }
    if (low !== null || high !== null) found.range = [low, high];
    return found;
  }

  values(trace, name, lying) {
    if (trace.kind === "span") return name === "x" ? trace.y.map((length, at) => trace.base[at] + length) : [];
    if ((trace.kind === "line" || trace.kind === "dots") && name === "x") return trace.x;
    if (name !== (trace.lying ? "x" : "y")) return [];
    return trace.y.flatMap((value, at) => (value === null ? [] : [value, value + (trace.e?.[at] ?? 0)]));
  }
}

const groups = [...document.querySelectorAll(".plots")].filter((figure) => figure.querySelector(".plot")).map((figure) => new Group(figure));
const group = new Map(groups.flatMap((each) => each.plots.map((plot) => [plot, each])));
// A long page draws what comes near the window.
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    group.get(target).draw(target);
  }
}, { rootMargin: "600px" });
for (const plot of group.keys()) near.observe(plot);
dark.addEventListener("change", () => groups.forEach((each) => each.redraw()));
addEventListener("beforeprint", () => group.forEach((each, plot) => each.draw(plot)));
