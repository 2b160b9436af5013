// Requests to the gateway, with the admin key where one was typed in.
//
// The key stays in this tab and goes out as a header. There is no cookie, so no other site can have a
// browser send it along.

const NAME = "lifesign.admin-key";

export const key = {
  get: () => sessionStorage.getItem(NAME),
  set: (value) => sessionStorage.setItem(NAME, value),
  forget: () => sessionStorage.removeItem(NAME),
};

export function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  const known = key.get();
  if (known) headers.set("authorization", `Bearer ${known}`);
  return fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
}

// Does something. No form of another site's can send this content type without asking first.
export async function act(path) {
  const headers = { "content-type": "application/json" };
  const response = await ask(path, { method: "POST", headers, body: "{}" });
  if (response.ok) return null;
  const body = await response.json().catch(() => null);
  return body?.error?.message ?? `the gateway answered ${response.status}`;
}
