// The chain as a list of steps that can be dragged, moved by arrow keys, taken out and added to. Stands behind page.js.
const stepsOf = text => text.split(",").map(s => s.trim()).filter(Boolean);
const numbers = () => [["temperature", "temperature"], ["top_k", "top_k"], ["top_p", "top_p"]].filter(([id]) => $(id).value !== "").map(([id, name]) => `${name} ${$(id).value}`);
// What is asked: the chain, or the numbers in the order in which the server takes them.
const steps = () => $("chain").value.trim() ? stepsOf($("chain").value) : numbers();

function setSteps(list, focus) {
  $("chain").value = list.join(", ");
  showSteps(focus);
}
function move(from, to) {
  const list = steps();
  if (to < 0 || to >= list.length || from === to) return;
  const [step] = list.splice(from, 1);
  list.splice(to, 0, step);
  setSteps(list, to);
  $("steps-said").textContent = `${step} is now step ${to + 1} of ${list.length}`;
}
function takeOut(at) {
  const list = steps(), [step] = list.splice(at, 1);
  // An empty chain would mean the numbers again.
  setSteps(list.length ? list : ["temperature 1"], Math.min(at, list.length - 1));
  $("steps-said").textContent = `${step} was taken out`;
}
let dragged = null;
function stepItem(text, i, n) {
  const li = make("li"), chip = make("span", text, "chip"), effect = make("small", "", "effect");
  li.draggable = true;
  chip.tabIndex = 0; chip.setAttribute("role", "button");
  chip.setAttribute("aria-label", `${text}, step ${i + 1} of ${n}; arrow keys move it, Delete takes it out`);
  chip.addEventListener("keydown", event => {
    const by = {ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1}[event.key];
    if (by) { event.preventDefault(); move(i, i + by); }
    if (event.key === "Delete" || event.key === "Backspace") { event.preventDefault(); takeOut(i); }
  });
  const button = (sign, name, act, off) => {
    const b = make("button", sign); b.type = "button"; b.setAttribute("aria-label", name); b.disabled = off;
    b.addEventListener("click", act);
    return b;
  };
  li.append(chip, effect, button("↑", `move ${text} up`, () => move(i, i - 1), i === 0), button("↓", `move ${text} down`, () => move(i, i + 1), i === n - 1), button("×", `take ${text} out`, () => takeOut(i), false));
  li.addEventListener("dragstart", event => { dragged = i; event.dataTransfer.effectAllowed = "move"; event.dataTransfer.setData("text/plain", text); li.classList.add("dragged"); });
  li.addEventListener("dragend", () => { dragged = null; li.classList.remove("dragged"); });
  li.addEventListener("dragover", event => { if (dragged !== null) { event.preventDefault(); li.classList.add("over"); } });
  li.addEventListener("dragleave", () => li.classList.remove("over"));
  li.addEventListener("drop", event => { event.preventDefault(); li.classList.remove("over"); if (dragged !== null) move(dragged, i); dragged = null; });
  return li;
}
function showSteps(focus) {
  const list = steps();
  $("steps").replaceChildren(...list.map((text, i) => stepItem(text, i, list.length)));
  const chip = focus !== undefined && $("steps").children[Math.max(0, focus)];
  if (chip) chip.querySelector(".chip").focus();
}
for (const id of ["chain", "temperature", "top_p", "top_k"]) $(id).addEventListener("input", () => showSteps());

// What each step took out, as the mean over the tokens of a trace.
function removed(trace) {
  const rows = [...$("steps").children], tokens = trace.tokens, word = text => text.split(" ")[0];
  rows.forEach((li, i) => {
    const mine = tokens.map(t => t.stages.filter(s => word(s.step) === word(steps()[i]))[0]).filter(Boolean);
    if (!mine.length) { li.querySelector(".effect").textContent = ""; return; }
    const mean = f => mine.reduce((sum, s) => sum + f(s), 0) / mine.length;
    const out = mean(s => s.removed);
    li.querySelector(".effect").textContent = out > 0 ? `takes out ${out.toFixed(1)} tokens with ${percent(mean(s => s.mass_removed))}, leaves ${mean(s => s.left).toFixed(1)}` : `takes out none, entropy ${mean(s => s.entropy).toFixed(2)}`;
  });
}
$("removes").addEventListener("click", async () => {
  $("steps-said").textContent = "…";
  try {
    const body = {model: model().id, views: ["trace"], input: $("text").value, chain: steps().join(", "), max_tokens: Math.min(+$("max_tokens").value || 16, 16)};
    if ($("seed").value !== "") body.seed = +$("seed").value;
    const data = await (await ask("/v1/see", body)).json();
    removed(data.trace);
    $("steps-said").textContent = `means over ${data.trace.tokens.length} tokens; Look inside shows each of them`;
  } catch (error) {
    $("steps-said").textContent = error.message;
  }
});

let known = [];
async function moreSteps() {
  try {
    known = (await (await ask("/props")).json()).steps || [];
    options($("more"), known.map(s => [s.name, s.name]));
    more();
  } catch { $("more").replaceChildren(); }
  showSteps();
}
function more() {
  const step = known.find(s => s.name === $("more").value);
  $("step").value = step ? step.example : "";
  $("steps-said").textContent = step ? `${step.name}: ${step.about}` : "";
}
$("more").addEventListener("change", more);
$("add").addEventListener("click", () => {
  const step = $("step").value.trim();
  if (step) { setSteps([...steps(), step]); $("steps-said").textContent = `${step} is the last step now`; }
});
