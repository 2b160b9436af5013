// The events of a response, read as they come. An EventSource could send no key.

// The gateway sends an event each second, or every few seconds where there is very much to tell.
const PATIENCE_MS = 15_000;

export async function* events(response, abort) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    // A line that has died says nothing: that is what this page is about.
    const late = setTimeout(() => abort.abort(), PATIENCE_MS);
    const { value, done } = await reader.read();
    clearTimeout(late);
    if (done) return;
    waiting += value;
    for (let end = waiting.indexOf("\n\n"); end >= 0; end = waiting.indexOf("\n\n")) {
      yield data(waiting.slice(0, end));
      waiting = waiting.slice(end + 2);
    }
  }
}

function data(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data: "));
  return lines.map((line) => line.slice(6)).join("\n");
}
