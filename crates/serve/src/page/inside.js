// Looking inside what was just asked, and the runs of this machine. Stands behind page.js and uses its helpers.
const VIEWS = {maps: "where heads look", heads: "numbers for each head", lens: "what each layer would say", loss: "how surprised it is", gradients: "what the answer hangs on", rollout: "attention through all layers", align: "source and target", patches: "where it looks in the picture", trace: "what the chain did", tree: "the beam as a tree"};
const viewsOf = m => (m.views || []).map(v => v === "trace" && m.pair ? "tree" : v);
const canLook = () => { const m = model(); return !!m && viewsOf(m).length > 0 && !["embed", "answer"].includes(mode()); };

const options = (select, list) => select.replaceChildren(...list.map(([value, name]) => { const o = make("option", name); o.value = value; return o; }));
const count = (n, first) => [...(first ? [["", first]] : []), ...Array.from({length: n}, (_, i) => [String(i), String(i)])];

function region(name, table) {
  const box = make("div", undefined, "scroll seen");
  box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", name);
  box.append(table);
  return box;
}
const visible = name => name === "" ? "∅" : name.trim() === "" ? "␣" : name;
function heat(grid) {
  const table = make("table", undefined, "heat"), head = make("thead"), row = make("tr"), body = make("tbody");
  table.append(make("caption", grid.title));
  const corner = make("td", ""); row.append(corner);
  for (const name of grid.columns) { const th = make("th", visible(name)); th.scope = "col"; row.append(th); }
  head.append(row); table.append(head, body);
  const high = Math.max(1e-9, ...grid.values.flat());
  grid.values.forEach((values, i) => {
    const tr = make("tr"), th = make("th", visible(grid.rows[i])); th.scope = "row"; tr.append(th);
    values.forEach((v, j) => { const td = make("td"); td.style.backgroundColor = `color-mix(in srgb, var(--mark) ${Math.round(100 * Math.sqrt(Math.max(v, 0) / high))}%, var(--card))`; td.title = `${grid.rows[i]} → ${grid.columns[j]}: ${v.toFixed(3)}`; td.setAttribute("aria-label", v.toFixed(3)); tr.append(td); });
    body.append(tr);
  });
  return region(grid.title, table);
}
const cell = v => v === null || v === undefined ? "" : typeof v === "object" ? v.shown : String(v);
function asTable(data) {
  const table = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
  table.append(make("caption", data.title));
  for (const name of [data.corner, ...data.columns]) { if (name === "") head.append(make("td", "")); else { const th = make("th", visible(name)); th.scope = "col"; head.append(th); } }
  top.append(head); table.append(top, body);
  for (const row of data.rows) { const tr = make("tr"), th = make("th", visible(row.label)); th.scope = "row"; tr.append(th, ...row.cells.map(c => make("td", cell(c)))); body.append(tr); }
  return region(data.title, table);
}
function chain(trace) {
  const out = [make("p", "Every step of the chain: how many tokens are left, and what is the likeliest of them.", "dim")];
  for (const t of trace.tokens || []) {
    const d = make("details"), chosen = t.text ?? String(t.picked.id);
    d.append(make("summary", `${JSON.stringify(chosen)}  ${percent(t.picked.probability)}`));
    for (const s of t.stages) {
      d.append(make("p", `${s.step}: ${s.left} left` + (s.removed ? `, ${s.removed} taken out with ${percent(s.mass_removed)}` : ""), "dim"));
      d.append(asBars(s.candidates.slice(0, 5).map(c => [JSON.stringify(c.text ?? String(c.id)), c.probability])));
    }
    out.push(d);
  }
  if (trace.tokens && trace.tokens.length) removed(trace);
  return out;
}
function told(data) {
  const out = [];
  for (const [, grid] of data.grids || []) out.push(heat(grid));
  for (const [, table] of data.tables || []) out.push(asTable(table));
  if (data.trace && data.trace.nodes) out.push(...beamTree(data.trace.nodes));
  else if (data.trace) out.push(...chain(data.trace));
  return out.length ? out : [make("p", "there is nothing to be seen")];
}

// The server looks at one thing at a time and goes on looking when nobody waits any more: a wish that comes meanwhile waits for its turn.
let looking = false, again = false;
async function look() {
  again = looking;
  if (looking) return;
  looking = true;
  try { do { again = false; await lookOnce(); } while (again); } finally { looking = false; }
}
async function lookOnce() {
  const view = $("view").value, m = model(), body = {model: m.id, views: [view === "tree" ? "trace" : view]};
  $("layer-box").hidden = $("head-box").hidden = view !== "maps";
  $("kind-box").hidden = view !== "maps" || !m.pair;
  try {
    if (m.task === "image") body.image = await picture();
    else body.input = $("text").value;
    if (view === "maps") {
      if (m.pair) body.kind = $("kind").value;
      if ($("layer").value !== "") body.layer = +$("layer").value;
      if ($("head").value !== "") body.head = +$("head").value;
    }
    if (view === "tree") Object.assign(body, {beam: Math.max(2, +$("beam").value), n: 1, max_tokens: 32});
    if (view === "trace") {
      body.max_tokens = Math.min(+$("max_tokens").value || 16, 32);
      if ($("chain").value.trim()) body.chain = $("chain").value.trim();
      else for (const name of ["temperature", "top_p", "top_k"]) if ($(name).value !== "") body[name] = +$(name).value;
      if ($("seed").value !== "") body.seed = +$("seed").value;
    }
    $("look-note").textContent = "…";
    const data = await (await ask("/v1/see", body)).json();
    $("seen").replaceChildren(...told(data));
    $("look-note").textContent = (data.notes || []).join(" ");
  } catch (error) {
    $("seen").replaceChildren(make("p", error.message, "error"));
    $("look-note").textContent = "";
  }
}
$("inside").addEventListener("click", () => {
  const m = model(), writes = ["chat", "text"].includes(mode());
  options($("view"), viewsOf(m).filter(v => VIEWS[v] && (v !== "trace" || writes)).map(v => [v, VIEWS[v]]));
  options($("kind"), [["cross", "target looks at source"], ["encoder", "source"], ["decoder", "target"]]);
  options($("layer"), count(m.layers, "last"));
  options($("head"), count(m.heads, "all, their mean"));
  $("look").hidden = false;
  look();
});
for (const id of ["view", "kind", "layer", "head"]) $(id).addEventListener("change", look);

const SVG = "http:" + "//www.w3.org/2000/svg";
const draw = (name, set, text) => { const e = document.createElementNS(SVG, name); for (const [k, v] of Object.entries(set)) e.setAttribute(k, v); if (text !== undefined) e.textContent = text; return e; };
function plot(curves) {
  const W = Math.max(280, Math.min(640, $("curve").clientWidth || 640)), H = 240, left = 48, right = 8, top = 10, bottom = 28;
  const named = [["train", curves.loss || []], ["valid", curves.valid_loss || []]].filter(([, c]) => c.length);
  const all = named.flatMap(([, c]) => c);
  if (!all.length) return make("p", "nothing was written down yet", "dim");
  const xs = all.map(p => p[0]), ys = all.map(p => p[1]);
  const x1 = Math.max(...xs, 1), y0 = Math.min(...ys, 0), y1 = Math.max(...ys, y0 + 1e-6);
  const x = s => left + (W - left - right) * s / x1, y = v => H - bottom - (H - top - bottom) * (v - y0) / (y1 - y0);
  const svg = draw("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": named.map(([name, c]) => `${name} loss ${c[c.length - 1][1].toFixed(3)} at step ${c[c.length - 1][0]}`).join(", ")});
  svg.append(draw("line", {class: "axis", x1: left, x2: W - right, y1: H - bottom, y2: H - bottom}), draw("line", {class: "axis", x1: left, x2: left, y1: top, y2: H - bottom}));
  for (const [v, at] of [[y0, H - bottom], [(y0 + y1) / 2, y((y0 + y1) / 2)], [y1, top + 4]]) svg.append(draw("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, v.toFixed(2)));
  svg.append(draw("text", {x: left, y: H - 8}, "0"), draw("text", {x: W - right, y: H - 8, "text-anchor": "end"}, `step ${x1}`));
  named.forEach(([name, c], i) => {
    svg.append(draw("path", {class: name, d: c.map((p, j) => `${j ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("")}));
    svg.append(draw("text", {x: W - right - 4, y: top + 12 + 16 * i, "text-anchor": "end"}, `${name === "train" ? "grey: training" : "blue: validation"} loss ${c[c.length - 1][1].toFixed(3)}`));
  });
  return svg;
}
let timer = null;
async function curve() {
  clearTimeout(timer);
  const name = $("run").value;
  if (!name) return;
  try {
    const run = await (await ask("/v1/runs/" + encodeURIComponent(name))).json();
    $("run-what").textContent = `${run.task}, step ${run.step}` + (run.steps ? ` of ${run.steps}` : "") + (run.score === null ? "" : `, ${run.metric} ${run.score.toFixed(2)}`) + (run.live ? ", under way" : "");
    $("curve").replaceChildren(plot(run.curves));
    if (run.live) timer = setTimeout(curve, 2000);
  } catch (error) {
    $("run-what").textContent = error.message;
  }
}
async function runs() {
  try {
    const list = (await (await ask("/v1/runs")).json()).data;
    options($("run"), list.map(r => [r.name, r.name + (r.live ? " (under way)" : "")]));
    $("runs").hidden = !list.length;
    if (list.length) curve();
  } catch { $("runs").hidden = true; }
}
$("run").addEventListener("change", curve);
load();
