import type { SkeletonStep, WaitReason } from '../../contract/messages.ts'
import type { CallResult } from './call.ts'

/* Texts for operators in Temporal's UI. They never contain a parameter. */

/** This also limits the values of the search attribute (`searchedBy`). */
const mostNamed = 10

const things: Readonly<Record<WaitReason['kind'], string>> = {
  approval: 'approval',
  resolution: 'resolution',
  slot: 'slot',
  time: 'time',
  answer: 'answer',
}

interface Thing {
  readonly what: string
  /** Empty for a step without `for_each`. */
  readonly items: number[]
}

/** E.g. `approval of send`. A slot belongs to the whole run, so its words name no step. */
function wordsOf(key: string, { kind }: WaitReason): { what: string; item: number | null } {
  if (kind === 'slot') return { what: things.slot, item: null }
  if (key === '') return { what: `${things[kind]} of the run`, item: null }
  const cut = key.lastIndexOf('#')
  const item = Number(key.slice(cut + 1))
  return { what: `${things[kind]} of ${key.slice(0, cut)}`, item: item < 0 ? null : item }
}

/** E.g. `approval of each, item 3`. `key` is the wake key of the call. */
export function nameOf(key: string, call: WaitReason): string {
  const { what, item } = wordsOf(key, call)
  return item === null ? what : `${what}, item ${item}`
}

function thingsOf(calls: readonly (readonly [string, WaitReason])[]): Thing[] {
  const found = new Map<string, Thing>()
  for (const [key, call] of calls) {
    const { what, item } = wordsOf(key, call)
    const thing = found.get(what) ?? { what, items: [] }
    found.set(what, thing)
    if (item !== null) thing.items.push(item)
  }
  return [...found.values()].toSorted((a, b) => (a.what < b.what ? -1 : 1))
}

/** E.g. `approval of each (items 3, 7), resolution of send, slot`. */
export function detailsOf(calls: readonly (readonly [string, WaitReason])[]): string {
  const all = thingsOf(calls).map(({ what, items }) => {
    if (items.length === 0) return what
    const numbers = items.toSorted((a, b) => a - b)
    return `${what} (${numbers.length === 1 ? 'item' : 'items'} ${shortened(numbers)})`
  })
  return shortened(all)
}

/** The newest ones, e.g. `- send, item 3: mail_send completed after 12 ms`. */
export class Tries {
  readonly #lines: string[] = []
  #earlier = 0

  /** `since` is in milliseconds since 1970. */
  add({ id, activity }: SkeletonStep, itemIndex: number | null, result: CallResult, since: number): void {
    const name = itemIndex === null ? id : `${id}, item ${itemIndex}`
    this.#lines.push(`- ${name}: ${activity} ${wordsOfResult(result, since)}`)
    if (this.#lines.length <= 20) return
    this.#lines.shift()
    this.#earlier += 1
  }

  toString(): string {
    const earlier = this.#earlier > 0 ? [`- ${this.#earlier} earlier`] : []
    return [...earlier, ...this.#lines].map((line) => `\n${line}`).join('')
  }
}

function wordsOfResult(result: CallResult, since: number): string {
  if (result.kind === 'done' || result.kind === 'ended')
    return `${result.outcome} after ${Date.now() - since} ms`
  return `waits for ${things[result.kind]} since ${new Date().toISOString()}`
}

/** The kinds, such as `approval`, come before the things themselves, such as `approval of send`. */
export function searchedBy(calls: readonly (readonly [string, WaitReason])[]): string[] {
  const kinds = calls.map(([, { kind }]) => things[kind])
  const values = [...kinds.toSorted(), ...thingsOf(calls).map(({ what }) => what)]
  return [...new Set(values)].slice(0, Object.keys(things).length + mostNamed)
}

function shortened(words: readonly (string | number)[]): string {
  const more = words.length - mostNamed
  return more > 0 ? `${words.slice(0, mostNamed).join(', ')} and ${more} more` : words.join(', ')
}
