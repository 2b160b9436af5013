// Makes a picture small: one of few colours needs a byte for a pixel.

import { deflateSync, inflateSync, crc32 } from "node:zlib";

// Returns `png` (8 bits, RGB or RGBA) with at most 256 colours, the most frequent ones.
export function reduced(png) {
  const { width, height, pixels } = read(png);
  const { palette, indices } = quantised(pixels);
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    rows.set(indices.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    png.subarray(0, 8),
    chunk("IHDR", head),
    chunk("PLTE", Buffer.from(palette.flat())),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function read(png) {
  const parts = [];
  let width, height, channels;
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const type = png.toString("latin1", at + 4, at + 8);
    const data = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") {
      [width, height] = [data.readUInt32BE(0), data.readUInt32BE(4)];
      channels = { 2: 3, 6: 4 }[data[9]];
    }
    if (type === "IDAT") parts.push(data);
    at += 12 + length;
  }
  const filtered = inflateSync(Buffer.concat(parts));
  return { width, height, pixels: unfiltered(filtered, width, height, channels) };
}

// Undoes the filters of PNG, and returns each pixel as 0xRRGGBB.
function unfiltered(from, width, height, channels) {
  const stride = width * channels;
  const rows = new Uint8Array(stride * height);
  const pixels = new Uint32Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const filter = from[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const left = x >= channels ? rows[y * stride + x - channels] : 0;
      const up = y > 0 ? rows[(y - 1) * stride + x] : 0;
      const corner = x >= channels && y > 0 ? rows[(y - 1) * stride + x - channels] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      rows[y * stride + x] = from[y * (stride + 1) + 1 + x] + guess;
    }
  }
  for (let at = 0; at < pixels.length; at += 1) {
    const [r, g, b] = rows.subarray(at * channels, at * channels + 3);
    pixels[at] = (r << 16) | (g << 8) | b;
  }
  return pixels;
}

function paeth(left, up, corner) {
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(left + up - corner - value));
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

function quantised(pixels) {
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const byCount = [...counts].sort((one, other) => other[1] - one[1]).map(([pixel]) => pixel);
  const palette = byCount.slice(0, 256).map((pixel) => [pixel >> 16, (pixel >> 8) & 255, pixel & 255]);
  const index = new Map();
  for (const pixel of byCount) index.set(pixel, nearest(palette, pixel));
  return { palette, indices: Uint8Array.from(pixels, (pixel) => index.get(pixel)) };
}

function nearest(palette, pixel) {
  const [r, g, b] = [pixel >> 16, (pixel >> 8) & 255, pixel & 255];
  let best = 0;
  let least = Infinity;
  palette.forEach(([pr, pg, pb], at) => {
    const distance = (r - pr) ** 2 + (g - pg) ** 2 + (b - pb) ** 2;
    if (distance < least) [best, least] = [at, distance];
  });
  return best;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const whole = Buffer.alloc(body.length + 8);
  whole.writeUInt32BE(data.length, 0);
  whole.set(body, 4);
  whole.writeUInt32BE(crc32(body), body.length + 4);
  return whole;
}
