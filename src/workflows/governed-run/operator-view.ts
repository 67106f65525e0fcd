import type { SkeletonStep, WaitReason } from '../../contract/messages.ts'
import type { CallResult } from './call.ts'

/*
 * Texts for operators in Temporal's UI. They describe the calls of a run and the things for which the run waits. They
 * contain step ids, tools and item numbers, but never a parameter.
 */

/**
 * The texts name at most this many things for which the run waits, such as `approval of send`. For each thing, they
 * name at most this many items of a `for_each` step. The maximum number of values of the search attribute also depends
 * on this number (`searchedBy`).
 */
const mostNamed = 10

const things: Readonly<Record<WaitReason['kind'], string>> = {
  approval: 'approval',
  resolution: 'resolution',
  slot: 'slot',
  time: 'time',
}

interface Thing {
  readonly what: string
  /** The item numbers of a `for_each` step. Is empty for other steps. */
  readonly items: number[]
}

/**
 * Returns the words for the thing that a call waits for, e.g. `approval of send`. A slot belongs to the whole run, so
 * the words for a slot name no step.
 */
function wordsOf(key: string, { kind }: WaitReason): { what: string; item: number | null } {
  if (kind === 'slot') return { what: things.slot, item: null }
  if (key === '') return { what: `${things[kind]} of the run`, item: null }
  const cut = key.lastIndexOf('#')
  const item = Number(key.slice(cut + 1))
  return { what: `${things[kind]} of ${key.slice(0, cut)}`, item: item < 0 ? null : item }
}

/** Returns the words for a waiting call, e.g. `approval of each, item 3`. `key` is the wake key of the call. */
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

/**
 * Returns the words for everything that the run waits for. Example: `approval of each (items 3, 7), resolution of send,
 * slot`.
 */
export function detailsOf(calls: readonly (readonly [string, WaitReason])[]): string {
  const all = thingsOf(calls).map(({ what, items }) => {
    if (items.length === 0) return what
    const numbers = items.toSorted((a, b) => a - b)
    return `${what} (${numbers.length === 1 ? 'item' : 'items'} ${shortened(numbers)})`
  })
  return shortened(all)
}

/** Temporal's UI shows at most this many tries of a run. */
const mostListed = 20

/** The newest tries of a run's calls, e.g. `- send, item 3: mail_send completed after 12 ms`. */
export class Tries {
  readonly #lines: string[] = []
  #earlier = 0

  /** `since` is the start of the try, in milliseconds since 1970. */
  add({ id, activity }: SkeletonStep, itemIndex: number | null, result: CallResult, since: number): void {
    const name = itemIndex === null ? id : `${id}, item ${itemIndex}`
    this.#lines.push(`- ${name}: ${activity} ${wordsOfResult(result, since)}`)
    if (this.#lines.length <= mostListed) return
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

/**
 * Returns the values of the search attribute. The first values are the kinds of things for which the run waits, such as
 * `approval`. The other values are the things themselves, such as `approval of send`.
 */
export function searchedBy(calls: readonly (readonly [string, WaitReason])[]): string[] {
  const kinds = calls.map(([, { kind }]) => things[kind])
  const values = [...kinds.toSorted(), ...thingsOf(calls).map(({ what }) => what)]
  return [...new Set(values)].slice(0, Object.keys(things).length + mostNamed)
}

function shortened(words: readonly (string | number)[]): string {
  const more = words.length - mostNamed
  return more > 0 ? `${words.slice(0, mostNamed).join(', ')} and ${more} more` : words.join(', ')
}
