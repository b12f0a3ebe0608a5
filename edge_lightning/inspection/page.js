"use strict";
// Every text of the record goes through textContent; nothing is ever parsed as markup.
const { run, groups, open } = JSON.parse(document.getElementById("data").textContent);
const PROVENANCES = ["sampled", "reflected", "answer_injected", "reference"];
const shown = new Set(PROVENANCES);
const choice = { right: "any", before: "any", after: "any" };
let current = null;

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handle] of Object.entries(value)) node.addEventListener(event, handle);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const words = (name) => name.replaceAll("_", " ");
const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits));
const signed = (value) => (value > 0 ? "+" : "") + number(value);

// A state of a group, before or after correction.
const STATES = {
  any: () => true,
  "all wrong": (right) => right === 0,
  mixed: (right, size) => right > 0 && right < size,
  "all right": (right, size) => right === size,
};
const REWARDS = {
  any: () => true,
  right: (r) => r.right,
  wrong: (r) => !r.right,
  "wrong, then right": (r) => !r.right_sampled && r.right,
  "wrong, still wrong": (r) => !r.right_sampled && !r.right,
};
const passes = (response) => shown.has(response.provenance) && REWARDS[choice.right](response);
const passing = () =>
  groups.filter((g) => {
    const size = g.responses.length;
    return STATES[choice.before](g.right_sampled, size) && STATES[choice.after](g.right, size) && g.responses.some(passes);
  });

// Entropy that is shaded fully: the 95th percentile of the page's tokens.
const entropies = groups.flatMap((g) => g.responses.flatMap((r) => r.pieces.map((p) => p[2]))).filter((h) => h !== null);
entropies.sort((a, b) => a - b);
const FULL = Math.max(entropies[Math.floor(entropies.length * 0.95)] ?? 0, 1e-3);

const told = make("div", { id: "told", role: "tooltip" });
function tell(event, piece) {
  const [text, kind, entropy, logprob, advantage] = piece;
  const who = { s: "sampled by the policy", w: "sampled, in front of what was put in", i: "put in by correction" }[kind[0]];
  told.textContent =
    `${JSON.stringify(text)}  ${who}\nentropy ${number(entropy)} nats   log p ${number(logprob)}   advantage ${signed(advantage)}`;
  const place = event.target.getBoundingClientRect();
  told.style.visibility = "visible";
  told.style.left = `${Math.max(4, Math.min(place.left, innerWidth - told.offsetWidth - 12))}px`;
  told.style.top = `${place.top > told.offsetHeight + 12 ? place.top - told.offsetHeight - 6 : place.bottom + 6}px`;
}
const untell = () => (told.style.visibility = "hidden");

function token(piece) {
  const [text, kind, entropy] = piece;
  const special = kind.endsWith("*");
  const node = make("span", { class: `token ${kind[0]}${special ? " special" : ""}` }, special ? `⟨${text}⟩` : text);
  if (entropy !== null) node.style.backgroundColor = `rgba(var(--heat), ${(0.75 * Math.min(1, entropy / FULL)).toFixed(3)})`;
  node.addEventListener("mouseenter", (event) => tell(event, piece));
  node.addEventListener("mouseleave", untell);
  return node;
}

const BECAME = {
  reflected: "what is trained on: its own working, a cue, and what it went on to say",
  answer_injected: "what is trained on: its own working and the answer",
  reference: "what is trained on: a reference solution in its place",
};
function card(response) {
  const verdict = (right, reward) => make("span", { class: right ? "yes" : "no-good" }, `${right ? "right" : "wrong"} ${+reward.toFixed(3)}`);
  const changed = response.sampled_text !== null;
  const sum = (name, title, text) =>
    text === null ? [] : [make("dt", { title }, name), make("dd", { class: name === "Â" ? "result" : null }, text)];
  const { advantage, phat, final } = response.sums;
  const text = make("p", { class: "text now" }, ...response.pieces.map(token));
  text.style.setProperty("--own", `var(--${response.provenance})`);
  return make(
    "article",
    { class: `card ${response.provenance}`, "data-index": response.index },
    make(
      "div",
      { class: "head" },
      make("span", { class: "no" }, `#${response.index}`),
      make("span", { class: `chip ${response.provenance}` }, words(response.provenance)),
      response.finish === "length" ? make("span", { class: "end" }, "cut off") : null,
      make(
        "span",
        { class: "verdict" },
        ...(changed ? [verdict(response.right_sampled, response.reward_sampled), " → "] : []),
        verdict(response.right, response.reward),
      ),
    ),
    make(
      "dl",
      { class: "sums" },
      ...sum("A", "group-relative advantage, after correction", advantage ?? signed(response.advantage)),
      ...sum("P", "mean entropy of its tokens, nats", response.entropy === null ? null : number(response.entropy)),
      ...sum("P̂", "entropy relative to its group", phat ?? (response.phat === null ? null : number(response.phat))),
      ...sum("Â", "what credit made of A: the advantage of its tokens", final),
    ),
    changed ? make("p", { class: "what" }, "what the policy sampled") : null,
    changed ? make("p", { class: "text before" }, response.sampled_text) : null,
    make("p", { class: "what" }, BECAME[changed ? response.provenance : ""] ?? (changed ? "what is trained on" : "as sampled")),
    text,
  );
}

function legend() {
  const sample = (kind, text) => make("span", {}, make("span", { class: `token ${kind}` }, text));
  const shade = entropies.length ? make("span", {}, "entropy 0", make("span", { class: "scale" }), `${number(FULL, 2)} nats and more`) : null;
  return make("div", { class: "legend" }, shade, sample("i", "put in by correction"), sample("w", "sampled, in front of it"));
}

function show(group, { scroll = true } = {}) {
  current = group;
  const main = document.querySelector("main");
  untell();
  if (group === null) {
    main.replaceChildren(make("p", { class: "empty" }, "No group passes these filters."));
    return;
  }
  const size = group.responses.length;
  const visible = group.responses.filter(passes);
  main.replaceChildren(
    make(
      "div",
      { class: "problem" },
      make("h2", {}, `step ${group.step}, problem ${group.problem}`),
      make(
        "span",
        { class: "turn" },
        make("button", { id: "previous", title: "key k", on: { click: () => turn(-1) } }, "‹ previous"),
        make("button", { id: "next", title: "key j", on: { click: () => turn(1) } }, "next ›"),
      ),
    ),
    group.prompt ? make("div", { class: "prompt" }, group.prompt) : null,
    make(
      "p",
      { class: "facts" },
      ...(group.gold.length ? ["answer ", make("b", {}, group.gold.join(" or ")), "; "] : []),
      make("b", {}, `${group.right_sampled} of ${size}`), " right as sampled, ",
      make("b", {}, `${group.right} of ${size}`), " after correction",
      visible.length < size ? `; ${size - visible.length} hidden by filters` : "",
    ),
    legend(),
    make("div", { class: "group" }, ...visible.map(card)),
  );
  for (const button of document.querySelectorAll("nav button"))
    button.setAttribute("aria-current", String(button.dataset.place === String(groups.indexOf(group))));
  const nav = document.querySelector("nav"), here = nav.querySelector('[aria-current="true"]');
  if (here && (here.offsetTop < nav.scrollTop || here.offsetTop + here.offsetHeight > nav.scrollTop + nav.clientHeight))
    nav.scrollTop = here.offsetTop - nav.clientHeight / 2;
  if (scroll) scrollTo(0, 0);
  history.replaceState(null, "", `#step=${group.step}&problem=${encodeURIComponent(group.problem)}`);
}

function turn(by) {
  const list = passing();
  const there = list[list.indexOf(current) + by];
  if (there) show(there);
}

function refresh() {
  const list = passing();
  const nav = document.querySelector("nav");
  const items = [];
  let step = null;
  for (const group of list) {
    if (group.step !== step) items.push(make("h2", {}, `step ${(step = group.step)}`));
    const count = (right) => make("span", { class: right ? "some" : "none" }, String(right));
    items.push(
      make(
        "button",
        { "data-place": groups.indexOf(group), title: `${group.right_sampled} right as sampled, ${group.right} after correction`,
          on: { click: () => show(group) } },
        make("span", { class: "name" }, group.problem),
        make("span", { class: "count" }, count(group.right_sampled), " → ", count(group.right), ` / ${group.responses.length}`),
      ),
    );
  }
  nav.replaceChildren(...items);
  document.getElementById("found").textContent = `${list.length} of ${groups.length} groups`;
  show(list.includes(current) ? current : (list[0] ?? null), { scroll: false });
}

function menu(name, label, options) {
  const select = make("select", { id: name, on: { change: () => { choice[name] = select.value; refresh(); } } });
  select.append(...Object.keys(options).map((option) => make("option", {}, option)));
  return make("label", {}, label, select);
}

function chip(provenance) {
  const flip = () => {
    if (!shown.delete(provenance)) shown.add(provenance);
    button.setAttribute("aria-pressed", String(shown.has(provenance)));
    refresh();
  };
  const button = make("button", { class: `chip ${provenance}`, "aria-pressed": "true", on: { click: flip } }, words(provenance));
  return button;
}

const there = new Set(groups.flatMap((g) => g.responses.map((r) => r.provenance)));
document.getElementById("app").append(
  make(
    "header",
    {},
    make("h1", {}, run.name),
    make("p", {}, run.told),
    make(
      "div",
      { class: "filters" },
      make("span", { class: "chips" }, "responses", ...PROVENANCES.filter((p) => there.has(p)).map(chip)),
      menu("right", "verdict", REWARDS),
      menu("before", "group as sampled", STATES),
      menu("after", "after correction", STATES),
      make("span", { id: "found" }),
    ),
  ),
  make("div", { class: "body" }, make("nav", { "aria-label": "groups" }), make("main")),
  told,
);
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") turn(1);
  if (event.key === "k") turn(-1);
});
const asked = new URLSearchParams(location.hash.slice(1));
const step = Number(asked.get("step") ?? open.step), problem = asked.get("problem") ?? open.problem;
const ofStep = groups.filter((g) => g.step === step);
current = (problem === null ? ofStep.find((g) => g.responses.some((r) => r.sampled_text !== null)) : ofStep.find((g) => g.problem === problem)) ?? ofStep[0] ?? null;
refresh();
