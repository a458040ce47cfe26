"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  // Unpack: base64 → deflate → a length, JSON, bytes of √p.
  const text = atob($("data").textContent);
  const packed = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(raw.buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + size)));
  let from = 4 + size;
  for (const map of about.maps) {
    const n = map.layers * map.heads * map.queries.length * map.keys.length;
    map.bytes = raw.subarray(from, from + n);
    from += n;
  }
  const stops = about.stops;
  const colours = Array.from({ length: 256 }, (_, v) => {
    const x = (v / 255) * (stops.length - 1);
    const at = Math.min(Math.floor(x), stops.length - 2);
    return stops[at].map((c, i) => Math.round(c + (x - at) * (stops[at + 1][i] - c)));
  });
  const css = (v) => `rgb(${colours[v].join(",")})`;

  const state = { kind: 0, layer: 0, head: 0, row: 0 };
  const map = () => about.maps[state.kind];
  const start = (layer, head) => (layer * map().heads + head) * map().queries.length * map().keys.length;
  const clamp = (x, n) => Math.max(0, Math.min(n - 1, x));

  function readHash() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const kind = about.maps.findIndex((m) => m.name === asked.get("maps"));
    state.kind = kind < 0 ? state.kind : kind;
    for (const key of ["layer", "head", "row"]) {
      const n = Number.parseInt(asked.get(key), 10);
      if (Number.isInteger(n)) state[key] = n;
    }
  }

  function keep() {
    state.layer = clamp(state.layer, map().layers);
    state.head = clamp(state.head, map().heads);
    state.row = clamp(state.row, map().queries.length);
    const hash = `#maps=${encodeURIComponent(map().name)}&layer=${state.layer}&head=${state.head}&row=${state.row}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }

  function options(select, names, chosen) {
    select.replaceChildren(...names.map((name, i) => {
      const option = document.createElement("option");
      option.value = i;
      option.textContent = name;
      option.selected = i === chosen;
      return option;
    }));
  }

  function paint(canvas, cell, layer, head, x0, y0) {
    const { queries, keys, bytes } = map();
    const at = start(layer, head);
    const g = canvas.getContext("2d");
    for (let i = 0; i < queries.length; i++) {
      for (let j = 0; j < keys.length; j++) {
        g.fillStyle = css(bytes[at + i * keys.length + j]);
        g.fillRect(x0 + j * cell, y0 + i * cell, cell, cell);
      }
    }
  }

  // One pixel for each weight, scaled up: the overview stays cheap for many heads.
  function thumbnail(layer, head) {
    const { queries, keys, bytes } = map();
    const image = new ImageData(keys.length, queries.length);
    const at = start(layer, head);
    for (let i = 0; i < queries.length * keys.length; i++) {
      const [r, g, b] = colours[bytes[at + i]];
      image.data.set([r, g, b, 255], 4 * i);
    }
    const small = document.createElement("canvas");
    small.width = keys.length;
    small.height = queries.length;
    small.getContext("2d").putImageData(image, 0, 0);
    return small;
  }

  const all = $("all");
  const one = $("map");
  let box = 40;
  let cell = 8;

  function drawAll() {
    const { layers, heads } = map();
    box = Math.max(18, Math.min(64, Math.floor(560 / heads)));
    all.width = heads * box;
    all.height = layers * box;
    const g = all.getContext("2d");
    g.imageSmoothingEnabled = false;
    for (let l = 0; l < layers; l++) {
      for (let h = 0; h < heads; h++) {
        g.drawImage(thumbnail(l, h), h * box + 1, l * box + 1, box - 2, box - 2);
      }
    }
  }

  function frameOn(g, x, y, w, h) {
    g.lineWidth = 2;
    g.strokeStyle = "#ffffff";
    g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    g.setLineDash([3, 3]);
    g.strokeStyle = "#000000";
    g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    g.setLineDash([]);
  }

  function draw() {
    keep();
    const { queries, keys, layers, heads, bytes, name } = map();
    options($("kind"), about.maps.map((m) => m.name), state.kind);
    options($("layer"), Array.from({ length: layers }, (_, i) => i), state.layer);
    options($("head"), Array.from({ length: heads }, (_, i) => i), state.head);
    drawAll();
    frameOn(all.getContext("2d"), state.head * box, state.layer * box, box, box);
    cell = Math.max(4, Math.min(48, Math.floor(560 / Math.max(queries.length, keys.length))));
    one.width = keys.length * cell;
    one.height = queries.length * cell;
    paint(one, cell, state.layer, state.head, 0, 0);
    const g = one.getContext("2d");
    g.fillStyle = "#ffffff";
    // The chosen row: a mark left and right, so that its colours stay as they are.
    g.fillRect(0, state.row * cell, 2, cell);
    g.fillRect(one.width - 2, state.row * cell, 2, cell);
    $("caption").textContent = `${name}, layer ${state.layer}, head ${state.head}: rows look at columns`;
    one.setAttribute("aria-label", `${name}, layer ${state.layer}, head ${state.head}, ${queries.length} by ${keys.length} tokens; row ${state.row}, ${queries[state.row]}`);
    // The names of the rows, where they are high enough to be read; the table has them all.
    $("names").replaceChildren(...(cell < 12 ? [] : queries.map((query, i) => {
      const name = document.createElement("div");
      name.style.height = `${cell}px`;
      name.className = i === state.row ? "chosen" : "";
      name.textContent = query;
      return name;
    })));
    const at = start(state.layer, state.head) + state.row * keys.length;
    const table = $("row");
    const caption = document.createElement("caption");
    caption.textContent = `row ${state.row}: ${queries[state.row]} looks at (8 bits of √p: each number ± 0.004)`;
    const head = document.createElement("thead");
    head.innerHTML = '<tr><th scope="col">place</th><th scope="col">token</th><th scope="col">weight</th><th scope="col">bar</th></tr>';
    const body = document.createElement("tbody");
    let best = 0;
    keys.forEach((key, j) => {
      const p = (bytes[at + j] / 255) ** 2;
      if (bytes[at + j] > bytes[at + best]) best = j;
      const line = document.createElement("tr");
      const place = document.createElement("td");
      place.className = "n";
      place.textContent = j;
      const token = document.createElement("th");
      token.scope = "row";
      token.textContent = key;
      const weight = document.createElement("td");
      weight.className = "n";
      weight.textContent = p.toFixed(3);
      const bar = document.createElement("td");
      const ink = document.createElement("span");
      ink.className = "bar";
      ink.style.width = `${(p * 8).toFixed(2)}rem`;
      bar.append(ink);
      line.append(place, token, weight, bar);
      body.append(line);
    });
    table.replaceChildren(caption, head, body);
    $("status").textContent = `${queries[state.row]} looks most at ${keys[best]} (${((bytes[at + best] / 255) ** 2).toFixed(3)}), layer ${state.layer}, head ${state.head}`;
  }

  const scale = $("scale").getContext("2d");
  for (let x = 0; x < 160; x++) {
    scale.fillStyle = css(Math.round(Math.sqrt(x / 159) * 255));
    scale.fillRect(x, 0, 1, 10);
  }
  for (const key of ["kind", "layer", "head"]) {
    $(key).addEventListener("change", (event) => {
      state[key] = Number(event.target.value);
      draw();
    });
  }
  const keysOn = (canvas, moves) => canvas.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
    draw();
  });
  keysOn(one, {
    ArrowDown: () => state.row++,
    ArrowUp: () => state.row--,
    ArrowRight: () => state.head++,
    ArrowLeft: () => state.head--,
    Home: () => { state.row = 0; },
    End: () => { state.row = Infinity; },
  });
  keysOn(all, {
    ArrowDown: () => state.layer++,
    ArrowUp: () => state.layer--,
    ArrowRight: () => state.head++,
    ArrowLeft: () => state.head--,
  });
  const spot = (canvas, event) => {
    const r = canvas.getBoundingClientRect();
    return [(event.clientX - r.left) * (canvas.width / r.width), (event.clientY - r.top) * (canvas.height / r.height)];
  };
  all.addEventListener("click", (event) => {
    const [x, y] = spot(all, event);
    state.head = Math.floor(x / box);
    state.layer = Math.floor(y / box);
    draw();
  });
  one.addEventListener("click", (event) => {
    state.row = Math.floor(spot(one, event)[1] / cell);
    draw();
  });
  addEventListener("hashchange", () => { readHash(); draw(); });
  state.layer = map().layers - 1;
  readHash();
  draw();
  document.documentElement.dataset.ready = "true";
})();
