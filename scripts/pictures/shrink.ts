import { deflateSync, inflateSync, crc32 } from 'node:zlib'

/* Makes a picture of a page small: at most 256 colours, in the PNG format with a palette. */

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** Maps each colour type of PNG to its number of channels. Type 2 has red, green and blue. Type 6 also has opacity. */
const channelsOf: Readonly<Record<number, number>> = { 2: 3, 6: 4 }
const mostColours = 256
/**
 * This many of the most common colours are always in the palette. The backgrounds and the text of a page are among
 * them.
 */
const alwaysKept = 48

interface Pixels {
  readonly width: number
  readonly height: number
  /** One number of 24 bits for each pixel. */
  readonly colours: Uint32Array
}

/** Returns the picture as a smaller PNG with a palette. Opacity is left out, because a page has none. */
export function shrink(png: Buffer): Buffer {
  const pixels = read(png)
  const { palette, indexes } = paletteOf(pixels)
  const { width, height } = pixels
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // The picture has eight bits for each pixel, colour type 3 (palette), and no interlacing.
  header.set([8, 3, 0, 0, 0], 8)
  const rows = Buffer.alloc((width + 1) * height)
  for (let y = 0; y < height; y += 1)
    rows.set(indexes.subarray(y * width, (y + 1) * width), y * (width + 1) + 1)
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(body))
  return Buffer.concat([length, body, sum])
}

function read(png: Buffer): Pixels {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  const channels = channelsOf[png.readUInt8(25)]
  if (png.readUInt8(24) !== 8 || channels === undefined) throw new Error('not a PNG as Chromium writes it')
  const parts: Buffer[] = []
  for (let at = signature.length; at < png.length;) {
    const length = png.readUInt32BE(at)
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length))
    at += length + 12
  }
  const bytes = unfilter(inflateSync(Buffer.concat(parts)), width * channels, height, channels)
  const colours = new Uint32Array(width * height)
  for (let at = 0; at < colours.length; at += 1) colours[at] = bytes.readUIntBE(at * channels, 3)
  return { width, height, colours }
}

/**
 * Undoes the filter of each row (PNG, 9.2). A byte is stored as the difference from a value that is computed from the
 * bytes beside and above it.
 */
function unfilter(raw: Buffer, stride: number, height: number, channels: number): Buffer {
  const out = Buffer.alloc(stride * height)
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)] ?? 0
    for (let x = 0; x < stride; x += 1) {
      const at = y * stride + x
      const left = x < channels ? 0 : (out[at - channels] ?? 0)
      const above = y === 0 ? 0 : (out[at - stride] ?? 0)
      const corner = y === 0 || x < channels ? 0 : (out[at - stride - channels] ?? 0)
      out[at] = (raw[y * (stride + 1) + 1 + x] ?? 0) + predicted(filter, left, above, corner)
    }
  }
  return out
}

function predicted(filter: number, left: number, above: number, corner: number): number {
  if (filter === 0) return 0
  if (filter === 1) return left
  if (filter === 2) return above
  if (filter === 3) return (left + above) >> 1
  const [a, b, c] = [Math.abs(above - corner), Math.abs(left - corner), Math.abs(left + above - 2 * corner)]
  if (a <= b && a <= c) return left
  return b <= c ? above : corner
}

/**
 * Makes a palette of at most 256 common colours. A colour that is not in the palette is replaced by the nearest colour
 * of the palette. The allowed difference starts at 0 and grows until 256 colours are enough.
 */
function paletteOf({ colours }: Pixels): { palette: Buffer; indexes: Uint8Array } {
  const counts = new Map<number, number>()
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1)
  const common = [...counts.keys()].sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0))
  for (let near = 0; ; near += 4) {
    const palette: number[] = common.slice(0, alwaysKept)
    const places = new Map<number, number>()
    for (const colour of common) {
      const place = nearest(palette, colour)
      if (distance(palette[place] ?? 0, colour) <= near) places.set(colour, place)
      else if (palette.length < mostColours) places.set(colour, palette.push(colour) - 1)
      else break
    }
    if (places.size < common.length) continue
    const bytes = palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 0xff, colour & 0xff])
    return { palette: Buffer.from(bytes), indexes: Uint8Array.from(colours, (each) => places.get(each) ?? 0) }
  }
}

/** Returns the greatest difference in red, green or blue. */
const distance = (a: number, b: number): number =>
  Math.max(
    Math.abs((a >> 16) - (b >> 16)),
    Math.abs(((a >> 8) & 0xff) - ((b >> 8) & 0xff)),
    Math.abs((a & 0xff) - (b & 0xff)),
  )

function nearest(palette: readonly number[], colour: number): number {
  let [best, least] = [0, Infinity]
  for (const [place, each] of palette.entries()) {
    const far = distance(each, colour)
    if (far < least) [best, least] = [place, far]
  }
  return best
}
