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
    now.set(dataset.of, Number(dataset.bad));
  }
  const worse = [...now].filter(([of, count]) => count > (known?.get(of) ?? 0));
  if (known && worse.length > 0) say(worse.map(([of, count]) => `${count} ${of}`).join(", "));
  known = now;
}
