// What a screen reader is told without being asked: changes of state, never the passing of time.

const place = document.getElementById("said");
let counted;

export function say(text) {
  // The same again has to be another text to be read again.
  place.textContent = place.textContent === text ? `${text}\u00a0` : text;
}

// Tells what has become worse since the last time.
export function compare() {
  const bad = [...document.querySelectorAll("nav.views .count.is-bad")];
  const now = new Map(bad.map((count) => [count.lastElementChild.textContent.trim(), parseInt(count.textContent, 10)]));
  if (counted) {
    const worse = [...now].filter(([what, count]) => count > (counted.get(what) ?? 0));
    if (worse.length > 0) say(worse.map(([what, count]) => `${count} ${what}`).join(", "));
  }
  counted = now;
}
