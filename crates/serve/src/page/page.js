"use strict";
const $ = id => document.getElementById(id);
const make = (name, text, cls) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const percent = p => (100 * p).toFixed(p < 0.1 ? 2 : 1) + " %";
let models = [], running = null;

const headers = () => Object.assign({"content-type": "application/json"}, $("key").value ? {authorization: "Bearer " + $("key").value} : {});
async function ask(path, body, signal) {
  const reply = await fetch(path, {method: body === undefined ? "GET" : "POST", headers: headers(), body: body === undefined ? undefined : JSON.stringify(body), signal});
  if (!reply.ok) {
    const said = await reply.json().catch(() => ({}));
    if (reply.status === 401) { $("key-box").hidden = false; $("key").focus(); }
    throw new Error(said.error && said.error.message || "status " + reply.status);
  }
  return reply;
}

const TASKS = {
  "next-token": m => m.chat ? ["chat", "text", "score"] : ["text", "score"],
  "translate": () => ["translate"], "classify": () => ["classify", "embed"], "tag": () => ["tag", "embed"],
  "answer": () => ["answer", "embed"], "masked": () => ["fill", "embed"], "image": () => ["image"],
};
const NAMES = {chat: "an answer", text: "a continuation", score: "probabilities", translate: "a translation", classify: "its class", tag: "names and labels", answer: "an answer in a text", fill: "missing words", embed: "similarity", image: "what is seen"};
const HINTS = {chat: "What to say", text: "Text to go on with", score: "Text to judge", translate: "Text to translate", classify: "Text", tag: "Text", answer: "Text to look in", fill: "Text with [MASK] where a word is missing", embed: "Texts to compare, one a line"};

const model = () => models.find(m => m.id === $("model").value) || models[0];
const mode = () => $("mode").value;
function choose() {
  const m = model();
  if (!m) return;
  const ways = (TASKS[m.task] || (() => m.embeds ? ["embed"] : []))(m);
  $("mode").replaceChildren(...ways.map(w => { const o = make("option", NAMES[w]); o.value = w; return o; }));
  $("mode-box").hidden = ways.length < 2;
  $("what").textContent = `${m.family}, ${m.task || "embeddings"}` + (m.context ? `, ${m.context} tokens` : "");
  show();
}
function show() {
  const way = mode();
  $("question-box").hidden = way !== "answer";
  $("text-box").hidden = way === "image";
  $("file-box").hidden = way !== "image";
  $("sampling").hidden = $("chain-box").hidden = $("steps-box").hidden = !["chat", "text"].includes(way);
  $("beams").hidden = way !== "translate";
  $("text-name").textContent = HINTS[way] || "Text";
  $("inside").hidden = !canLook();
  $("look").hidden = true;
}

function bars(list, into) {
  into.replaceChildren();
  for (const [name, p] of list) {
    const bar = make("progress"); bar.max = 1; bar.value = p; bar.setAttribute("aria-label", `${name}: ${percent(p)}`);
    const cell = make("dd"); cell.append(bar);
    into.append(make("dt", name), cell, make("dd", percent(p)));
  }
}
const asBars = list => { const dl = make("dl", undefined, "bars"); bars(list, dl); return dl; };
function token(piece) {
  const p = Math.exp(piece.logprob), b = make("span", piece.token || "∅", "token");
  b.tabIndex = 0; b.setAttribute("role", "button");
  b.style.borderBottomColor = `hsl(${Math.round(120 * p)} 70% 45%)`;
  b.title = percent(p);
  b.addEventListener("keydown", event => { if (event.key === "Enter" && !event.ctrlKey && !event.metaKey || event.key === " ") { event.preventDefault(); b.click(); } });
  b.addEventListener("click", () => {
    $("tops").hidden = false;
    const all = piece.top_logprobs.some(t => t.token === piece.token) ? piece.top_logprobs : [piece, ...piece.top_logprobs];
    bars(all.map(t => [JSON.stringify(t.token), Math.exp(t.logprob)]), $("top-list"));
  });
  return b;
}

async function stream(way, signal) {
  const body = {model: model().id, stream: true, max_tokens: +$("max_tokens").value};
  if ($("seed").value !== "") body.seed = +$("seed").value;
  if ($("chain").value.trim()) body.chain = $("chain").value.trim();
  else for (const name of ["temperature", "top_p", "top_k"]) if ($(name).value !== "") body[name] = +$(name).value;
  const chat = way === "chat";
  if (chat) Object.assign(body, {messages: [{role: "user", content: $("text").value}], logprobs: true, top_logprobs: 8});
  else Object.assign(body, {prompt: $("text").value, logprobs: 8});
  const reply = await ask(chat ? "/v1/chat/completions" : "/v1/completions", body, signal);
  const said = make("div", undefined, "said");
  if (!chat) said.append(make("span", $("text").value));
  $("out").replaceChildren(said);
  const began = performance.now(), reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", n = 0;
  for (;;) {
    const {value, done} = await reader.read();
    if (done) break;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
      const data = JSON.parse(event.slice(6));
      if (data.error) throw new Error(data.error.message);
      const choice = data.choices[0], l = choice && choice.logprobs;
      if (!l) continue;
      const pieces = chat ? l.content : l.tokens.map((t, i) => ({token: t, logprob: l.token_logprobs[i], top_logprobs: Object.entries((l.top_logprobs || [])[i] || {}).map(([token, logprob]) => ({token, logprob})).sort((a, b) => b.logprob - a.logprob)}));
      for (const piece of pieces) { said.append(token(piece)); n += 1; }
      $("note").textContent = `${n} tokens, ${(1000 * n / (performance.now() - began)).toFixed(1)} a second; a token tells what else was probable`;
    }
  }
}

function marked(text, spans) {
  const out = make("div", undefined, "said"), letters = Array.from(text);
  let at = 0;
  for (const s of spans) {
    out.append(letters.slice(at, s.start).join(""));
    const m = make("mark", letters.slice(s.start, s.end).join(""));
    m.append(make("small", `${s.label ?? ""} ${percent(s.score)}`));
    out.append(m);
    at = s.end;
  }
  out.append(letters.slice(at).join(""));
  return out;
}
function alignment(source, translation) {
  const box = make("div", undefined, "wide"), table = make("table"), head = make("tr");
  head.append(make("td", ""), ...source.map(t => make("th", visible(t))));
  table.append(head);
  translation.alignment.soft.forEach((row, i) => {
    const tr = make("tr");
    tr.append(make("th", visible(translation.tokens[i])));
    for (const w of row) { const td = make("td", Math.round(100 * w)); td.style.backgroundColor = `color-mix(in srgb, var(--mark) ${Math.round(45 * w)}%, transparent)`; tr.append(td); }
    table.append(tr);
  });
  box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "which source tokens each token looked at");
  box.append(table);
  return box;
}

async function picture() {
  const file = $("file").files[0];
  if (!file) throw new Error("choose a picture");
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}

const once = {
  async translate(signal) {
    const n = Math.min(+$("best").value, +$("beam").value);
    const data = await (await ask("/v1/translate", {model: model().id, input: $("text").value, beam: +$("beam").value, n, alignments: true}, signal)).json();
    const one = data.data[0], list = make("ol");
    for (const t of one.translations) { const li = make("li", t.text); li.append(make("small", "  " + t.score.toFixed(3))); list.append(li); }
    if (!one.translations.length) return [make("p", "nothing")];
    const details = make("details"), best = one.translations[0];
    details.append(make("summary", "the same in numbers"), alignment(one.source_tokens, best));
    return [list, alignmentLines(one.source_tokens, best), details];
  },
  async classify(signal) {
    const data = await (await ask("/v1/classify", {model: model().id, input: $("text").value}, signal)).json();
    return [asBars(data.data[0].labels.map(l => [l.label, l.score]))];
  },
  async tag(signal) {
    const text = $("text").value, data = await (await ask("/v1/tag", {model: model().id, input: text}, signal)).json();
    return [data.data[0].entities.length ? marked(text, data.data[0].entities) : make("p", "nothing was found")];
  },
  async answer(signal) {
    const text = $("text").value, data = await (await ask("/v1/answer", {model: model().id, question: $("question").value, context: text, top: 3}, signal)).json();
    return [marked(text, data.answers.slice(0, 1)), asBars(data.answers.map(a => [a.text, a.score]))];
  },
  async fill(signal) {
    const data = await (await ask("/v1/fill", {model: model().id, input: $("text").value, top: 8}, signal)).json();
    return data.data[0].gaps.map(gap => asBars(gap.map(c => [c.text, c.probability])));
  },
  async embed(signal) {
    const texts = $("text").value.split("\n").filter(t => t.trim());
    const data = await (await ask("/v1/embeddings", {model: model().id, input: texts}, signal)).json();
    const v = data.data.map(d => d.embedding), dot = (a, b) => a.reduce((s, x, i) => s + x * b[i], 0);
    const table = make("table"), box = make("div", undefined, "wide");
    v.forEach((a, i) => { const tr = make("tr"); tr.append(make("th", texts[i].slice(0, 40))); v.forEach(b => tr.append(make("td", (dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))).toFixed(3)))); table.append(tr); });
    box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "similarities"); box.append(table);
    return [box];
  },
  async score(signal) {
    const data = await (await ask("/v1/score", {model: model().id, input: $("text").value}, signal)).json();
    const said = make("div", undefined, "said");
    for (const t of data.data[0].tokens) said.append(token({token: t.text, logprob: t.logprob, top_logprobs: []}));
    return [said, make("p", `log-probability ${data.data[0].logprob.toFixed(3)}, perplexity ${data.data[0].perplexity.toFixed(3)}`)];
  },
  async image(signal) {
    const data = await (await ask("/v1/image", {model: model().id, image: await picture(), top: 8}, signal)).json();
    return [asBars(data.labels.map(l => [l.label, l.score]))];
  },
};

$("form").addEventListener("submit", async event => {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  $("go").disabled = true; $("stop").disabled = false;
  $("answer").hidden = false; $("tops").hidden = true;
  $("out").replaceChildren(); $("note").textContent = "";
  try {
    const way = mode();
    if (way === "chat" || way === "text") await stream(way, running.signal);
    else $("out").replaceChildren(...await once[way](running.signal));
  } catch (error) {
    if (error.name === "AbortError") $("note").textContent = "stopped";
    else $("out").append(make("p", error.message, "error"));
  }
  running = null;
  $("go").disabled = false; $("stop").disabled = true;
  $("inside").hidden = !canLook();
});
$("stop").addEventListener("click", () => running && running.abort());
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && running) running.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
});
document.addEventListener("dragover", event => { event.preventDefault(); $("file-box").classList.add("over"); });
for (const name of ["dragleave", "drop", "dragend"]) document.addEventListener(name, () => $("file-box").classList.remove("over"));
document.addEventListener("drop", event => {
  event.preventDefault();
  if (mode() !== "image" || !event.dataTransfer.files.length) return;
  $("file").files = event.dataTransfer.files;
  preview();
  $("form").requestSubmit();
});
function preview() {
  const file = $("file").files[0], reader = new FileReader();
  $("preview").hidden = true;
  if (!file) return;
  reader.addEventListener("load", () => { $("preview").src = reader.result; $("preview").hidden = false; });
  reader.readAsDataURL(file);
}
$("file").addEventListener("change", preview);
$("model").addEventListener("change", choose);
$("mode").addEventListener("change", show);
$("key").addEventListener("change", load);

async function load() {
  try {
    models = (await (await ask("/v1/models")).json()).data;
    $("model").replaceChildren(...models.map(m => { const o = make("option", m.id); o.value = m.id; return o; }));
    choose();
    runs();
    moreSteps();
  } catch (error) {
    $("what").textContent = error.message;
  }
}
