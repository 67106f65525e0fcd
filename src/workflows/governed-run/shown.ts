import type { Waiting } from '../../contract/messages.ts'

/* What operators read in Temporal's UI of what a run waits for: step ids and numbers of items, never a parameter. */

/** Most steps, and most items of each, that the details name; most values of the search attribute. */
const mostNamed = 10

const things: Readonly<Record<Waiting['kind'], string>> = {
  approval: 'approval',
  resolution: 'resolution',
  slot: 'slot',
}

interface Thing {
  readonly what: string
  /** Of a `for_each` step; empty for any other. */
  readonly items: number[]
}

/** The same words for the same thing: `approval of send`; a slot is the whole run's. */
function wordsOf(key: string, { kind }: Waiting): { what: string; item: number | null } {
  if (kind === 'slot') return { what: things.slot, item: null }
  if (key === '') return { what: `${things[kind]} of the run`, item: null }
  const cut = key.lastIndexOf('#')
  const item = Number(key.slice(cut + 1))
  return { what: `${things[kind]} of ${key.slice(0, cut)}`, item: item < 0 ? null : item }
}

/** One wait, by its wake key: `approval of each, item 3`. */
export function nameOf(key: string, call: Waiting): string {
  const { what, item } = wordsOf(key, call)
  return item === null ? what : `${what}, item ${item}`
}

function thingsOf(calls: readonly (readonly [string, Waiting])[]): Thing[] {
  const found = new Map<string, Thing>()
  for (const [key, call] of calls) {
    const { what, item } = wordsOf(key, call)
    const thing = found.get(what) ?? { what, items: [] }
    found.set(what, thing)
    if (item !== null) thing.items.push(item)
  }
  return [...found.values()].toSorted((a, b) => (a.what < b.what ? -1 : 1))
}

/** All that it waits for, in words: `approval of each (items 3, 7), resolution of send, slot`. */
export function detailsOf(calls: readonly (readonly [string, Waiting])[]): string {
  const all = thingsOf(calls).map(({ what, items }) => {
    if (items.length === 0) return what
    const numbers = items.toSorted((a, b) => a - b)
    return `${what} (${numbers.length === 1 ? 'item' : 'items'} ${shortened(numbers)})`
  })
  return shortened(all)
}

/** The same to search by: what kinds of things (`approval`), and which (`approval of send`). */
export function searchedBy(calls: readonly (readonly [string, Waiting])[]): string[] {
  const kinds = calls.map(([, { kind }]) => things[kind])
  const values = [...kinds.toSorted(), ...thingsOf(calls).map(({ what }) => what)]
  return [...new Set(values)].slice(0, Object.keys(things).length + mostNamed)
}

function shortened(words: readonly (string | number)[]): string {
  const more = words.length - mostNamed
  return more > 0 ? `${words.slice(0, mostNamed).join(', ')} and ${more} more` : words.join(', ')
}
