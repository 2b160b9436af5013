// Makes a part of the page look like another, and leaves what is the same untouched: focus, selection
// and open details stay where they are.

export function morph(from, to) {
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  attributes(from, to);
  children(from, to);
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) {
    const isReaders = name === "open" && from.localName === "details";
    if (!to.hasAttribute(name) && !isReaders) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
}

function children(from, to) {
  const keyed = new Map();
  for (const child of from.children) {
    const key = keyOf(child);
    if (key) keyed.set(key, child);
  }
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    let found = key ? keyed.get(key) : nextAlike(at, wanted);
    if (found && found.localName !== wanted.localName) found = undefined;
    if (!found) {
      from.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    keyed.delete(key);
    if (found === at) {
      at = at.nextSibling;
    } else {
      from.insertBefore(found, at);
    }
    morph(found, wanted);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// What has no key is matched with what stands at its place, if that is of its kind.
function nextAlike(at, wanted) {
  const isAlike = at && at.nodeType === wanted.nodeType && at.nodeName === wanted.nodeName;
  return isAlike && !keyOf(at) ? at : undefined;
}

function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return undefined;
  return node.id || node.dataset.key;
}
