// A page in a real browser: nothing is asked of anybody, nothing is logged as an error, axe-core finds no violation, it opens
// within two seconds, it fits a phone, it is dark for who wants it dark and white on paper. And for a page of `qkv see`: the
// pixels of a map are the colours of its numbers, keys and links work.
//
//   node check.mjs PAGE.html MAPS.json [SCREENSHOT-FOLDER]
//
// PAGE.html and MAPS.json are written by `qkv see … -o` from the same model and text; `-` in the place of MAPS.json is for a
// page without maps: `qkv explain … --html`, the report of a run, a comparison, a trace. CHROMIUM names the browser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [page_file, maps_file, shots] = process.argv.slice(2);
// The packages lie where they were installed, which need not be beside this file.
const require = createRequire(pathToFileURL(resolve(process.cwd(), "package.json")));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const failures = [];
const check = (ok, what) => {
  console.log(`${ok ? "ok  " : "FAIL"} ${what}`);
  if (!ok) failures.push(what);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const url = pathToFileURL(resolve(page_file)).href;
const maps = maps_file === "-" ? [] : JSON.parse(readFileSync(maps_file, "utf8")).maps;

// Cividis as the program has it; the test draws its own conclusions from the numbers.
const stops = [[0, 32, 76], [0, 48, 110], [59, 73, 108], [90, 97, 112], [117, 121, 121], [149, 146, 117], [184, 173, 103], [220, 203, 80], [255, 234, 70]];
function colour(p) {
  const v = Math.round(Math.sqrt(p) * 255) / 255;
  const x = v * (stops.length - 1);
  const at = Math.min(Math.floor(x), stops.length - 2);
  return stops[at].map((c, i) => Math.round(c + (x - at) * (stops[at + 1][i] - c)));
}

async function open(scheme, hash = "", viewport = { width: 1280, height: 900 }) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  const page = await context.newPage();
  const requests = [];
  const errors = [];
  page.on("request", (r) => r.url().split("#")[0] !== url && requests.push(r.url()));
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && errors.push(m.text()));
  page.on("pageerror", (e) => errors.push(String(e)));
  const began = performance.now();
  await page.goto(url + hash);
  if (maps.length > 0) await page.waitForFunction(() => document.documentElement.dataset.ready === "true", null, { timeout: 10000 });
  return { page, requests, errors, seconds: (performance.now() - began) / 1000 };
}

// The first page of a browser pays for the browser's own start; the second is the reader's.
await (await open("light")).page.context().close();
for (const scheme of ["light", "dark"]) {
  const { page, requests, errors, seconds } = await open(scheme);
  check(requests.length === 0, `${scheme}: no requests ${requests.join(" ")}`);
  check(errors.length === 0, `${scheme}: no errors in the console ${errors.join(" | ")}`);
  check(seconds <= 2, `${scheme}: opens in ${seconds.toFixed(2)} s`);
  if (maps.length === 0) {
    // A page without scripts allows none: what remains to be seen is its form, which axe reads in a copy without the policy.
    await page.setContent((await page.content()).replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, ""));
  }
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document));
  check(violations.length === 0, `${scheme}: axe-core, ${violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 120)}`).join("; ") || "no violations"}`);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
  check(scheme === "dark" ? Math.max(...ground) < 60 : Math.min(...ground) > 230, `${scheme}: the paper is rgb(${ground.join(", ")})`);
  if (shots) await page.screenshot({ path: `${shots}/${scheme}.png`, fullPage: true });
  await page.context().close();
}
{
  const { page } = await open("light", "", { width: 390, height: 844 });
  const [wide, room] = await page.evaluate(() => [document.scrollingElement.scrollWidth, window.innerWidth]);
  check(wide <= room, `phone: the page is ${wide} wide in ${room}`);
  if (shots) await page.screenshot({ path: `${shots}/phone.png`, fullPage: true });
  await page.context().close();
}
{
  const { page } = await open("dark");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  check(ground === "rgb(255, 255, 255)", `print: the paper is ${ground}`);
  await page.context().close();
}

// Every map's pixels: each cell's middle has the colour of its number.
if (maps.length > 0) {
  const { page } = await open("light");
  let wrong = 0;
  let seen = 0;
  for (const map of maps) {
    const [layer, head] = [map.weights.length - 1, map.weights[0].length - 1];
    await page.evaluate((h) => { location.hash = h; }, `maps=${map.name}&layer=${layer}&head=${head}&row=0`);
    await page.waitForFunction(([name, l, h]) => document.getElementById("caption").textContent.startsWith(`${name}, layer ${l}, head ${h}`), [map.name, layer, head]);
    const rows = map.weights[layer][head];
    const pixels = await page.evaluate(([q, k]) => {
      const canvas = document.getElementById("map");
      const [w, h] = [canvas.width / k, canvas.height / q];
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const at = (i, j) => 4 * (Math.floor((i + 0.5) * h) * canvas.width + Math.floor((j + 0.5) * w));
      return Array.from({ length: q }, (_, i) => Array.from({ length: k }, (_, j) => Array.from(data.slice(at(i, j), at(i, j) + 3))));
    }, [rows.length, rows[0].length]);
    rows.forEach((row, i) => row.forEach((p, j) => {
      seen++;
      // One step of √p may fall to either side of a half.
      if (colour(p).some((c, n) => Math.abs(c - pixels[i][j][n]) > 3)) wrong++;
    }));
  }
  check(wrong === 0 && seen > 0, `${seen} cells have the colours of their numbers, ${wrong} do not`);

  // The table says the numbers, and the keys move the row.
  const first = maps[0];
  await page.evaluate((h) => { location.hash = h; }, `maps=${first.name}&layer=0&head=0&row=0`);
  await page.waitForFunction(() => document.getElementById("row").caption.textContent.startsWith("row 0:"));
  await page.focus("#map");
  await page.keyboard.press("ArrowDown");
  const caption = await page.textContent("#row caption");
  check(caption.startsWith("row 1:"), `an arrow key moves the row: ${caption}`);
  const said = await page.$$eval("#row tbody td:nth-child(3)", (cells) => cells.map((c) => Number(c.textContent)));
  const worst = Math.max(...said.map((s, j) => Math.abs(s - first.weights[0][0][1][j])));
  check(said.length === first.keys.length && worst <= 0.005, `the table's numbers are off by at most ${worst.toFixed(4)}`);
  await page.focus("#all");
  await page.keyboard.press("ArrowRight");
  check(new URL(page.url()).hash.includes("head=1") && new URL(page.url()).hash.includes("row=1"), `the link says what is seen: ${new URL(page.url()).hash}`);
  await page.context().close();
}
if (maps.length > 0) {
  const { page } = await open("light", `#maps=${maps[0].name}&layer=0&head=1&row=1`);
  check((await page.textContent("#caption")).includes("layer 0, head 1"), "a link shows what was seen");
  await page.emulateMedia({ media: "print" });
  check(await page.isHidden(".controls"), "printed without its controls");
  await page.context().close();
}
await browser.close();
if (failures.length > 0) {
  console.error(`${failures.length} checks failed`);
  process.exit(1);
}
