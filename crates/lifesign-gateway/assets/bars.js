// Bars that move between what the gateway says.

const STEP_MS = 100;
// Bars that nobody confirms any more stand still rather than tell a story.
const STALE_MS = 4_000;

const mayMove = matchMedia("(prefers-reduced-motion: no-preference)");
let told = performance.now();
let drawn = 0;

// Takes the ages that stand in the page as those of now.
export function start() {
  told = performance.now();
  draw(told);
}

function draw(now) {
  drawn = now;
  const since = now - told;
  for (const bar of document.querySelectorAll("svg[data-age]")) {
    const age = Number(bar.dataset.age) + since;
    const part = Math.min(100, (age * 100) / Number(bar.dataset.limit));
    bar.firstElementChild?.setAttribute("width", `${part.toFixed(2)}%`);
  }
}

function frame(now) {
  if (mayMove.matches && now - drawn >= STEP_MS && now - told < STALE_MS) draw(now);
  requestAnimationFrame(frame);
}

requestAnimationFrame(frame);
