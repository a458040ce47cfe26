// The page of `qkv serve` in a real browser: every tool of it by mouse and by keyboard, no error in the console, nothing asked of
// other servers, axe-core finds no violation in light, dark and at the width of a phone.
//
//   node page.mjs URL METRICS.jsonl [SCREENSHOT-FOLDER]      METRICS.jsonl is the journal of the run that seems to be under way
import { appendFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { deflateSync } from "node:zlib";

const [url, journal, shots] = process.argv.slice(2);
const require = createRequire(pathToFileURL(resolve(process.cwd(), "package.json")));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const failures = [];
const check = (ok, what) => {
  console.log(`${ok ? "ok  " : "FAIL"} ${what}`);
  if (!ok) failures.push(what);
};

/** A picture of 20 × 20 pixels. */
function png() {
  const table = Array.from({ length: 256 }, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1; return n >>> 0; });
  const crc = (bytes) => { let c = ~0; for (const b of bytes) c = table[(c ^ b) & 255] ^ (c >>> 8); return ~c >>> 0; };
  const chunk = (name, data) => { const body = Buffer.concat([Buffer.from(name), data]), size = Buffer.alloc(4), sum = Buffer.alloc(4); size.writeUInt32BE(data.length); sum.writeUInt32BE(crc(body)); return Buffer.concat([size, body, sum]); };
  const head = Buffer.alloc(13); head.writeUInt32BE(20, 0); head.writeUInt32BE(20, 4); head[8] = 8; head[9] = 2;
  const rows = Buffer.concat(Array.from({ length: 20 }, (_, y) => Buffer.from([0, ...Array.from({ length: 20 }, (_, x) => [9 * x, 9 * y, 7]).flat()])));
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
async function open(scheme, viewport) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.faults = [];
  page.on("request", (r) => new URL(r.url()).origin !== url && !r.url().startsWith("data:") && page.faults.push(`asks ${r.url()}`));
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && page.faults.push(m.text()));
  page.on("pageerror", (e) => page.faults.push(String(e)));
  await page.goto(url);
  await page.waitForFunction(() => document.getElementById("model").options.length > 0);
  return page;
}
async function clean(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  check(violations.length === 0, `${name}: axe-core, ${violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 160)}`).join("; ") || "no violations"}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check(wide <= 0, `${name}: the page is not wider than the window (${wide})`);
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}
const done = (page) => page.waitForFunction(() => !document.getElementById("go").disabled && document.getElementById("out").textContent.length > 0);
async function ask(page, model, way, text, keyboard = false) {
  await page.selectOption("#model", model);
  if (way && await page.isVisible("#mode")) await page.selectOption("#mode", way);
  if (text !== undefined) await page.fill("#text", text);
  if (keyboard) { await page.focus("#text"); await page.keyboard.press("Control+Enter"); } else await page.click("#go");
  await done(page);
  return page.textContent("#out");
}

const order = (page) => page.$$eval("#steps .chip", (chips) => chips.map((chip) => chip.textContent.split(" ")[0]).join(" "));
/** The steps of the chain: dragged, moved by buttons, taken out, added to; and what each removes. */
async function stepsByMouse(page) {
  await page.selectOption("#mode", "text");
  check((await order(page)) === "temperature top_k top_p", `the numbers as steps: ${await order(page)}`);
  await page.dragAndDrop("#steps li:nth-child(3) .chip", "#steps li:nth-child(1) .chip");
  check((await order(page)) === "top_p temperature top_k" && (await page.inputValue("#chain")).startsWith("top_p"), `a step is dragged: ${await order(page)}`);
  await page.click("#steps li:nth-child(2) button[aria-label$=' up']");
  check((await order(page)) === "temperature top_p top_k", "a button moves a step");
  await page.fill("#text", "the quick brown fox");
  await page.click("#removes");
  await page.waitForFunction(() => /means over/.test(document.getElementById("steps-said").textContent));
  const effects = await page.$$eval("#steps .effect", (all) => all.map((one) => one.textContent));
  check(effects.length === 3 && effects.every((e) => e.startsWith("takes out")) && effects.some((e) => /with .* %/.test(e)), `what each removes: ${effects.join(" | ")}`);
  await page.selectOption("#more", "min_p");
  await page.click("#add");
  check((await order(page)) === "temperature top_p top_k min_p", "a step is added");
  await page.click("#steps li:nth-child(4) button[aria-label$=' out']");
  check((await order(page)) === "temperature top_p top_k", "and taken out");
  check((await ask(page, "llama", "text", "the quick brown fox")).length > 20, "the chain is asked as it stands");
  await clean(page, "light-steps");
  await page.fill("#chain", "");
}
// Every tool, with the mouse.
{
  const page = await open("light", { width: 1280, height: 900 });
  await page.fill("#max_tokens", "24");
  check((await ask(page, "llama", "text", "the quick brown fox")).length > 20, "a continuation comes");
  await page.click("#out .token >> nth=2");
  check((await page.$$("#top-list dt")).length >= 4, "a token tells what else was probable");
  await page.click("#inside");
  await page.waitForSelector("#seen table");
  check((await page.$$("#seen table.heat td")).length > 100, "where the heads look");
  await page.selectOption("#layer", "0");
  await page.selectOption("#head", "1");
  await page.waitForFunction(() => /head 1/.test(document.querySelector("#seen caption").textContent));
  await clean(page, "light-maps");
  for (const view of ["lens", "loss", "trace"]) {
    await page.selectOption("#view", view);
    await page.waitForFunction((v) => document.querySelector(v === "trace" ? "#seen details" : "#seen table:not(.heat)"), view);
    check(true, `the view ${view}`);
  }
  await page.click("#seen details summary");
  await clean(page, "light-trace");
  await page.fill("#chain", "top_k 3, greedy");
  check((await ask(page, "llama", "text", "the lazy dog")).length > 12, "by a chain");
  await page.fill("#chain", "nonsense 7");
  check((await ask(page, "llama", "text", "the lazy dog")).includes("nonsense"), "what is wrong is said");
  check(page.faults.splice(0).every((f) => f.includes("400")), "and the browser notes the refusal, nothing else");
  await page.fill("#chain", "");
  await stepsByMouse(page);
  check((await ask(page, "llama", "score", "the lazy dog")).includes("perplexity"), "probabilities of a text");
  check((await ask(page, "marian", "translate", "the quick brown fox")).length > 3, "a translation");
  check((await page.$$("#out table td")).length > 4, "with its alignment");
  check((await page.$$("#out svg.lines line")).length > 3 && (await page.$$("#out svg.lines .mark")).length > 8, "and as lines between the tokens");
  await page.click("#out svg.lines .mark >> nth=1");
  check((await page.$$("#out svg.lines line.strong")).length > 0, "a token shows its own lines");
  await page.click("#inside");
  await page.waitForSelector("#seen table");
  await page.selectOption("#view", "tree");
  await page.waitForSelector("#seen svg.tree");
  check((await page.$$("#seen svg.tree .mark.pruned")).length > 3 && (await page.$$("#seen svg.tree .mark.strong")).length > 0, "the beam as a tree");
  const told = await page.textContent("#seen .said");
  await page.click("#seen svg.tree .mark.pruned >> nth=0");
  check((await page.textContent("#seen .said")) !== told, "a token of it tells how it came to be");
  await clean(page, "light-translate");
  check((await ask(page, "bert-classify", "classify", "the fox")).includes("%"), "a class");
  check((await ask(page, "bert-tag", "tag", "Ada Lives In Rome")).length > 3, "tags");
  await page.selectOption("#model", "bert-answer");
  await page.fill("#question", "who?");
  check((await ask(page, "bert-answer", "answer", "the quick brown fox jumps")).length > 5, "an answer in a text");
  check((await ask(page, "bert-mlm", "fill", "the f[MASK]x")).includes("%"), "a missing word");
  check((await ask(page, "bert-mlm", "embed", "the fox\nthe dog")).includes("1.000"), "similarity");
  await page.selectOption("#model", "vit");
  await page.setInputFiles("#file", { name: "a.png", mimeType: "image/png", buffer: png() });
  check((await ask(page, "vit")).includes("%"), "a picture");
  await page.waitForSelector("#preview:not([hidden])");
  await page.setInputFiles("#file", []);
  await page.waitForSelector("#preview", { state: "hidden" });
  await page.evaluate(() => document.getElementById("out").replaceChildren());
  const files = await page.evaluateHandle((bytes) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], "b.png", { type: "image/png" }));
    return data;
  }, [...png()]);
  await page.dispatchEvent("#file-box", "dragover", { dataTransfer: files });
  check(await page.evaluate(() => document.getElementById("file-box").classList.contains("over")), "the place to drop shows itself");
  await page.dispatchEvent("#file-box", "drop", { dataTransfer: files });
  await done(page);
  await page.waitForSelector("#preview:not([hidden])");
  check((await page.textContent("#out")).includes("%"), "a picture that was dropped");
  // The run under way: its curve grows while the page is looked at.
  const before = await page.textContent("#run-what");
  check(/under way/.test(before) && (await page.$$("#curve path")).length === 2, `the run: ${before}`);
  appendFileSync(journal, '{"step": 410, "loss": 1.6}\n');
  await page.waitForFunction(() => /step 410/.test(document.getElementById("run-what").textContent));
  check(true, "its curve goes on by itself");
  check(page.faults.length === 0, `no errors in the console ${page.faults.join(" | ")}`);
  await clean(page, "light");
  await page.context().close();
}
// Every control by the keyboard alone, in the order of the page.
{
  const page = await open("dark", { width: 1280, height: 900 });
  const seen = new Set();
  await ask(page, "llama", "text", "the fox", true);
  await page.focus("#inside");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#seen table");
  await page.evaluate(() => document.activeElement.blur());
  for (let i = 0; i < 250; i++) {
    await page.keyboard.press("Tab");
    const id = await page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName);
    seen.add(id); // behind the last control comes the browser itself, and then the first again
  }
  const wanted = ["model", "mode", "text", "temperature", "top_p", "top_k", "max_tokens", "seed", "chain", "chip", "more", "step", "add", "removes", "go", "inside", "token", "view", "layer", "head", "run"];
  const missing = wanted.filter((id) => !seen.has(id));
  check(missing.length === 0, `every control is reached by Tab; missing: ${missing.join(" ") || "none"}`);
  await page.focus("#out .token");
  await page.keyboard.press("Enter");
  check((await page.$$("#top-list dt")).length >= 4, "a token is asked by Enter");
  // The steps of the chain.
  await page.focus("#steps .chip");
  await page.keyboard.press("ArrowDown");
  check((await order(page)) === "top_k temperature top_p", `an arrow key moves a step: ${await order(page)}`);
  await page.keyboard.press("ArrowDown");
  check((await order(page)) === "top_k top_p temperature", "and again, as it keeps the focus");
  await page.keyboard.press("Delete");
  check((await order(page)) === "top_k top_p", "Delete takes it out");
  await page.focus("#removes");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /means over/.test(document.getElementById("steps-said").textContent));
  check(/takes out/.test(await page.textContent("#steps")), "what each removes, by the keyboard");
  await page.fill("#chain", "");
  await page.focus("#view");
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => document.getElementById("view").selectedIndex > 0);
  check(true, "a view is chosen by an arrow key");
  // The pictures of a translation, by arrow keys.
  await ask(page, "marian", "translate", "the quick brown fox", true);
  await page.focus("#out svg.lines .mark >> nth=0");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  check(/^source/.test(await page.evaluate(() => document.activeElement.getAttribute("aria-label"))), "from a token to what it looks at");
  await page.focus("#inside");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#seen table");
  await page.selectOption("#view", "tree");
  await page.waitForSelector("#seen svg.tree");
  await page.focus("#seen svg.tree .mark >> nth=0");
  const before = await page.textContent("#seen .said");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  check((await page.textContent("#seen .said")) !== before, "arrow keys walk through the tree");
  await clean(page, "dark-tree");
  await ask(page, "llama", "text", "the fox", true);
  // Escape stops a long answer.
  await page.fill("#max_tokens", "60");
  await page.focus("#text");
  await page.keyboard.press("Control+Enter");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.getElementById("go").disabled);
  check(true, "Escape comes to an end");
  check(page.faults.length === 0, `dark: no errors in the console ${page.faults.join(" | ")}`);
  await clean(page, "dark");
  await page.context().close();
}
// The width of a phone.
{
  const page = await open("light", { width: 360, height: 740 });
  await ask(page, "llama", "text", "the quick brown fox", true);
  await page.click("#inside");
  await page.waitForSelector("#seen table");
  await clean(page, "phone");
  await ask(page, "marian", "translate", "the quick brown fox");
  await page.click("#inside");
  await page.waitForSelector("#seen table");
  await page.selectOption("#view", "tree");
  await page.waitForSelector("#seen svg.tree");
  await clean(page, "phone-tree");
  check(page.faults.length === 0, `phone: no errors in the console ${page.faults.join(" | ")}`);
  await page.context().close();
}
await browser.close();
if (failures.length > 0) {
  console.error(`${failures.length} checks failed`);
  process.exit(1);
}
