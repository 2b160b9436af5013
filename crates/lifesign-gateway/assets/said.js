// What a screen reader is told without being asked: changes of state, never the passing of time.

const place = document.getElementById("said");
let known;

export function say(text) {
  // The same again has to be another text to be read again.
  place.textContent = place.textContent === text ? `${text}\u00a0` : text;
}

// Tells what has become worse since the last time.
export function compare() {
  const now = new Map();
  for (const { dataset } of document.querySelectorAll("[data-bad]")) {
    now.set(dataset.kind, [Number(dataset.bad), dataset.of]);
  }
  const worse = [...now].filter(([kind, [count]]) => count > (known?.get(kind)?.[0] ?? 0));
  if (known && worse.length > 0) say(worse.map(([, [count, of]]) => `${count} ${of}`).join(", "));
  known = now;
}
