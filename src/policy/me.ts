import { Hole, type Partial, isList } from './values.ts'

/** In parameters that name people, it stands for the requester. */
const word = 'me'

/** The requester's address replaces `me` before rules see it, so conditions must not compare with it. */
export function isMe(value: unknown): boolean {
  return typeof value === 'string' && value.trim() === word
}

// Compares codes of characters, because the same long text is read again for each item of a `for_each`.
const [quote, comma, semicolon, backslash] = [0x22, 0x2c, 0x3b, 0x5c]

/** ASCII needs no slow `trim`. */
function isBlank(text: string, at: number): boolean {
  const char = text.charCodeAt(at)
  return char <= 0x20 || char > 0x7e ? text.charAt(at).trim() === '' : false
}

/** Items between commas and semicolons outside quotes; after an unclosed quote, one. The mail tool uses this too. */
export function addressItems(text: string): { readonly start: number; readonly end: number }[] {
  const items: { start: number; end: number }[] = []
  let from = 0
  let isQuoted = false
  const add = (to: number): void => {
    let start = from
    let end = to
    while (start < end && isBlank(text, start)) start++
    while (end > start && isBlank(text, end - 1)) end--
    items.push({ start, end })
  }
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (isQuoted && char === backslash) at++
    else if (char === quote) isQuoted = !isQuoted
    else if (!isQuoted && (char === comma || char === semicolon)) {
      add(at)
      from = at + 1
    }
  }
  add(text.length)
  return items
}

/** So rules and the tool see the requester's address, not `me`. Null: unknown from the first `me` on. */
export function fillInMe(params: Partial, people: readonly string[], email: string | null): Partial {
  if (typeof params !== 'object' || params === null || params instanceof Hole || isList(params)) return params
  if (!people.some((name) => Object.hasOwn(params, name))) return params
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [
      name,
      people.includes(name) ? fillInParam(value, email) : value,
    ]),
  )
}

function fillInParam(value: Partial, email: string | null): Partial {
  return isList(value) ? value.map((each) => fillInOne(each, email)) : fillInOne(value, email)
}

function fillInOne(value: Partial, email: string | null): Partial {
  if (typeof value === 'string') return inText(value, email)
  return value instanceof Hole && value.prefix !== null ? inPieces(value, value.prefix, email) : value
}

function inText(text: string, email: string | null): string | Hole {
  if (!text.includes(word)) return text
  const pieces: string[] = []
  let at = 0
  for (const { start, end } of addressItems(text)) {
    if (end - start !== word.length || !text.startsWith(word, start)) continue
    const before = text.slice(at, start)
    if (email === null) return new Hole(before, { from: [word], isWhole: text.trim() === word })
    pieces.push(before)
    at = end
  }
  if (email === null || pieces.length === 0) return text
  pieces.push(text.slice(at))
  return pieces.join(email)
}

/**
 * If the last item of the known beginning could become `me` with the unknown rest, only the text before it counts as
 * known: of `a@b.com, m`, only `a@b.com, `. In later pieces, all that could be a part of a `me` is unknown.
 */
function inPieces(hole: Hole, prefix: string, email: string | null): Hole {
  const item = addressItems(prefix).at(-1) ?? { start: 0, end: 0 }
  const mayBeMe = word.startsWith(prefix.slice(item.start, item.end))
  const filled = inText(mayBeMe ? prefix.slice(0, item.start) : prefix, email)
  const last = hole.after.length - 1
  const after = hole.after.flatMap((piece, index) => piece.split(index === last ? meAtEnd : meInside))
  if (!(filled instanceof Hole)) return hole.with(filled, { after })
  return new Hole(filled.prefix, { after, from: [...filled.from, ...hole.from] })
}

/** What could be a `me`, or its beginning or end, where other text may stand around the piece. */
const meInside = /(?:(?<=^|[\s,;])me|^e)(?=$|[\s,;])|(?<=^|[\s,;])m$/
/** For the last piece of a text. */
const meAtEnd = /(?:(?<=^|[\s,;])me|^e)(?=$|[\s,;])/
