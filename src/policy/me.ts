import { Hole, type Partial, isList } from './values.ts'

/** The word that stands for the person who runs, in parameters that name people (contract section 9). */
const word = 'me'

/** These parameters, by tool of the catalogue; its definitions take them from here. */
export const peopleOf = { mail_send: ['to', 'cc', 'bcc'] } as const

/** Whether a rule's value is the word: nothing equals it where `me` has become an address before rules look. */
export function isMe(value: unknown): boolean {
  return typeof value === 'string' && value.trim() === word
}

/**
 * Where the items of a list of addresses are: between commas and semicolons outside of quotes, without the white space
 * around them. An open quote stays in the last item. The mail tool reads its recipients with the same function.
 */
export function addressItems(text: string): { readonly start: number; readonly end: number }[] {
  const items: { start: number; end: number }[] = []
  let from = 0
  let isQuoted = false
  const add = (to: number): void => {
    const item = text.slice(from, to)
    const start = to - item.trimStart().length
    items.push({ start, end: start + item.trim().length })
  }
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isQuoted && char === '\\') at++
    else if (char === '"') isQuoted = !isQuoted
    else if (!isQuoted && (char === ',' || char === ';')) {
      add(at)
      from = at + 1
    }
  }
  add(text.length)
  return items
}

/**
 * Parameters with the address of the person who runs in place of each `me` among the parameters that name people: what
 * the rules judge and what the tool is called with are the same. Without an address what follows `me` is unknown. A
 * concrete call (no holes, an address) comes back without holes.
 *
 * @param people names of the tool's parameters that name people: text, or a list of texts
 */
export function fillInMe(params: Partial, people: readonly string[], email: string | null): Partial {
  if (typeof params !== 'object' || params === null || params instanceof Hole || isList(params)) return params
  if (!people.some((name) => Object.hasOwn(params, name))) return params
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, people.includes(name) ? of(value, email) : value]),
  )
}

function of(value: Partial, email: string | null): Partial {
  return isList(value) ? value.map((each) => ofOne(each, email)) : ofOne(value, email)
}

function ofOne(value: Partial, email: string | null): Partial {
  if (typeof value === 'string') return inText(value, email)
  return value instanceof Hole && value.prefix !== null ? inPrefix(value.prefix, email) : value
}

function inText(text: string, email: string | null): string | Hole {
  if (!text.includes(word)) return text
  let filled = ''
  let at = 0
  for (const { start, end } of addressItems(text)) {
    if (text.slice(start, end) !== word) continue
    filled += text.slice(at, start)
    if (email === null) return new Hole(filled)
    filled += email
    at = end
  }
  return filled + text.slice(at)
}

/** The last item of a text that goes on may still become `me`: then it is known only up to there. */
function inPrefix(prefix: string, email: string | null): Hole {
  const last = addressItems(prefix).at(-1) ?? { start: 0, end: 0 }
  const mayBeMe = word.startsWith(prefix.slice(last.start, last.end))
  const filled = inText(mayBeMe ? prefix.slice(0, last.start) : prefix, email)
  return filled instanceof Hole ? filled : new Hole(filled)
}
