// Pictures of a translation: lines from source to target, and the tree of the beam. Stands behind page.js; `draw` is in inside.js.
const wide = text => Array.from(text).length;

// One of several marks of a picture has the focus; arrow keys go from one to the next that `to` names.
function walked(marks, to, chosen) {
  marks.forEach((mark, i) => {
    mark.setAttribute("tabindex", i === 0 ? "0" : "-1");
    mark.setAttribute("role", "button");
    mark.addEventListener("keydown", event => {
      const next = to(i, event.key);
      if (next === undefined || !marks[next]) return;
      event.preventDefault();
      marks.forEach(m => m.setAttribute("tabindex", "-1"));
      marks[next].setAttribute("tabindex", "0");
      marks[next].focus();
    });
    for (const name of ["focus", "click", "mouseenter"]) mark.addEventListener(name, () => chosen(i));
  });
}

function alignmentLines(source, translation) {
  const soft = translation.alignment.soft, target = translation.tokens, size = 8.5, gap = 14;
  const places = list => { let x = 8; return list.map(t => { const w = Math.max(1, wide(visible(t))) * size, at = x + w / 2; x += w + gap; return at; }); };
  const [xs, ys] = [places(source), places(target)];
  const last = (list, at) => at.length ? at[at.length - 1] + wide(visible(list[list.length - 1])) * size : 0;
  const W = Math.max(last(source, xs), last(target, ys)) + 16, H = 150;
  const svg = draw("svg", {viewBox: `0 0 ${W} ${H}`, width: W, height: H, class: "lines", role: "group", "aria-label": "lines from source tokens to the tokens of the translation that looked at them"});
  const lines = [];
  soft.forEach((row, i) => row.forEach((w, j) => {
    if (w < 0.03) return;
    const line = draw("line", {x1: xs[j], y1: 32, x2: ys[i], y2: H - 32, "stroke-width": 1 + 4 * w, opacity: (0.15 + 0.85 * w).toFixed(2)});
    lines.push([line, i, j]);
    svg.append(line);
  }));
  const mark = (t, x, y, about) => { const g = draw("g", {class: "mark", "aria-label": about}); g.append(draw("rect", {x: x - wide(visible(t)) * size / 2 - 4, y: y - 16, width: wide(visible(t)) * size + 8, height: 24, rx: 4}), draw("text", {x, y, "text-anchor": "middle"}, visible(t))); svg.append(g); return g; };
  const most = row => row.indexOf(Math.max(...row));
  const above = source.map((t, j) => mark(t, xs[j], 20, `source ${t}`));
  const below = target.map((t, i) => mark(t, ys[i], H - 12, `${t} looks most at ${soft[i] && source[most(soft[i])] || "nothing"}`));
  const marks = [...below, ...above], n = below.length;
  const strong = i => lines.forEach(([line, a, b]) => line.classList.toggle("strong", i < n ? a === i : b === i - n));
  const to = (i, key) => ({ArrowLeft: i === n ? undefined : i - 1, ArrowRight: i === n - 1 ? undefined : i + 1, ArrowUp: i < n ? n + most(soft[i] || [0]) : undefined, ArrowDown: i >= n ? Math.max(0, soft.findIndex(row => most(row) === i - n)) : undefined})[key];
  walked(marks, to, strong);
  const box = make("div", undefined, "wide drawn");
  box.append(svg);
  return box;
}

function beamTree(nodes) {
  const said = make("p", "", "said"), box = make("div", undefined, "wide drawn");
  said.setAttribute("aria-live", "polite");
  if (!nodes.length) return [make("p", "there is no tree", "dim")];
  const columns = [];
  nodes.forEach((node, i) => (columns[node.step] = columns[node.step] || []).push(i));
  const label = node => visible(node.text ?? String(node.id)), most = Math.max(...columns.map(c => (c || []).length));
  const size = 8.5, row = 30, at = [];
  let x = 10;
  for (const column of columns) {
    if (!column) continue;
    column.sort((a, b) => nodes[b].total - nodes[a].total);
    const w = Math.max(...column.map(i => Math.max(1, wide(label(nodes[i]))))) * size + 14;
    column.forEach((i, r) => { at[i] = {x, y: 16 + r * row, w: Math.max(1, wide(label(nodes[i]))) * size + 10}; });
    x += w + 34;
  }
  const H = most * row + 16, svg = draw("svg", {viewBox: `0 0 ${x} ${H}`, width: x, height: H, class: "tree", role: "group", "aria-label": "everything that the beam considered, a column for each token"});
  const lines = nodes.map((node, i) => {
    if (node.parent === null) return null;
    const p = at[node.parent], a = at[i], line = draw("path", {class: node.fate, d: `M${p.x + p.w} ${p.y + 4}C${p.x + p.w + 20} ${p.y + 4} ${a.x - 20} ${a.y + 4} ${a.x} ${a.y + 4}`});
    svg.append(line);
    return line;
  });
  const fate = node => node.fate === "finished" ? `, ended with ${node.score.toFixed(3)}` : node.fate === "pruned" ? ", others were better" : "";
  const about = node => `${label(node)}, score ${node.total.toFixed(3)}${fate(node)}`;
  const marks = nodes.map((node, i) => {
    const a = at[i], g = draw("g", {class: `mark ${node.fate}`, "aria-label": about(node)});
    g.append(draw("rect", {x: a.x, y: a.y - 9, width: a.w, height: 26, rx: 4}), draw("text", {x: a.x + a.w / 2, y: a.y + 9, "text-anchor": "middle"}, label(node)));
    svg.append(g);
    return g;
  });
  const path = i => { const all = []; for (let k = i; k !== null && k !== undefined; k = nodes[k].parent) all.unshift(k); return all; };
  const chosen = i => {
    const mine = new Set(path(i));
    marks.forEach((m, k) => m.classList.toggle("strong", mine.has(k)));
    lines.forEach((l, k) => l && l.classList.toggle("strong", mine.has(k)));
    said.textContent = `${path(i).map(k => nodes[k].text ?? nodes[k].id).join("")}  (${about(nodes[i])})`;
  };
  const children = nodes.map(() => []);
  nodes.forEach((node, i) => { if (node.parent !== null) children[node.parent].push(i); });
  const beside = (i, by) => { const column = columns[nodes[i].step]; return column[column.indexOf(i) + by]; };
  const best = list => list.slice().sort((a, b) => nodes[b].total - nodes[a].total)[0];
  walked(marks, (i, key) => ({ArrowLeft: nodes[i].parent ?? undefined, ArrowRight: best(children[i]), ArrowUp: beside(i, -1), ArrowDown: beside(i, 1)})[key], chosen);
  box.append(svg);
  const ended = nodes.map((node, i) => [node, i]).filter(([node]) => node.fate === "finished").sort((a, b) => b[0].score - a[0].score)[0];
  chosen(ended ? ended[1] : 0);
  return [make("p", "A column for each token, the best above; what ended is framed, what was given up is grey. Arrow keys walk through it.", "dim"), box, said];
}
