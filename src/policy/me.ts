import { Hole, type Partial, isList } from './values.ts'

/** This word stands for the requester in parameters that name people. */
const word = 'me'

/**
 * Returns whether a value in a rule's condition is the word `me`. Conditions on parameters that name people may not use
 * this word. The reason is that in a workflow's call, the requester's address replaces the word before rules are
 * evaluated.
 */
export function isMe(value: unknown): boolean {
  return typeof value === 'string' && value.trim() === word
}

// The scan must be fast, because it reads the same long text again for each item of a `for_each`. So it compares the
// codes of characters.
const [quote, comma, semicolon, backslash] = [0x22, 0x2c, 0x3b, 0x5c]

/**
 * Returns whether a character of the text is white space. Letters, digits and signs of ASCII are recognized without the
 * slow `trim`.
 */
function isBlank(text: string, at: number): boolean {
  const char = text.charCodeAt(at)
  return char <= 0x20 || char > 0x7e ? text.charAt(at).trim() === '' : false
}

/**
 * Returns the positions of the items in a list of addresses. Commas and semicolons outside quotes separate items. White
 * space around an item is left out. After an unclosed quote, the rest of the text belongs to the last item. The mail
 * tool splits its recipients with this function too.
 */
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

/**
 * Replaces each `me` in parameters that name people with the requester's address. So rules and the tool see the same
 * values. If `email` is null, the address is not known, and the text from the first `me` on becomes unknown.
 * @param people names of the tool's parameters that name people; each is a text or a list of texts
 */
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
 * Replaces each `me` in the known beginning of a text. If the last item of this beginning could become `me` together
 * with the unknown rest, only the text before this item counts as known. Example: of `a@b.com, m`, only `a@b.com, `
 * counts as known. In the later pieces, all that could be a `me` or a part of a `me` counts as unknown.
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

/** Finds what could be a `me`, or the beginning or end of a `me`. Other text may stand before and after the piece. */
const meInside = /(?:(?<=^|[\s,;])me|^e)(?=$|[\s,;])|(?<=^|[\s,;])m$/
/** Like `meInside`, but for the last piece of a text. No other text stands after this piece. */
const meAtEnd = /(?:(?<=^|[\s,;])me|^e)(?=$|[\s,;])/
