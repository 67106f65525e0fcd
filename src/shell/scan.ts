import { longestScan } from './limits.ts'
import { senders, tellingPaths } from './tables/senders.ts'

/** Words that say something here, numbered: senders, and programs with their sending subcommands. */
const telling: ReadonlyMap<string, number> = new Map(
  [
    ...new Set([...senders, ...[...tellingPaths].flatMap(([program, paths]) => [program, ...paths.flat()])]),
  ].map((word, number) => [word, number]),
)
const longestTelling = Math.max(...[...telling.keys()].map((word) => word.length))

/**
 * Looks for a program that sends data out anywhere in a text, by its words alone: quotes and backslashes left out, as the
 * shell leaves them out. It takes data for commands, so it is only asked about what cannot be read otherwise.
 */
export function scanForSenders(text: string): string | undefined {
  // Places of each telling word; 0 is nowhere. A text can hold tens of thousands of them.
  const [first, last] = [new Uint32Array(telling.size), new Uint32Array(telling.size)]
  const bare = text
    .slice(0, longestScan)
    .replaceAll(/\\\r?\n|["'\\\0]/g, '')
    .toLowerCase()
  let start = 0
  for (let at = 0; at <= bare.length; at += 1) {
    if (inWord(bare.charCodeAt(at))) continue
    if (at > start + 1 && at - start <= longestTelling) {
      const word = bare.slice(start, at)
      const number = telling.get(word)
      if (number !== undefined) {
        if (senders.has(word)) return word
        first[number] ||= at
        last[number] = at
      }
    }
    start = at + 1
  }
  const of = (places: Uint32Array, word: string): number => places[telling.get(word) ?? 0] ?? 0
  for (const [program, paths] of tellingPaths) {
    const from = of(first, program)
    if (from > 0 && paths.some((path) => path.every((word) => of(last, word) > from))) return program
  }
  return undefined
}

/** Letters, digits and `_.+:-`, which names of programs and subcommands are made of; false for NaN behind the end. */
function inWord(code: number): boolean {
  if (code >= 97 && code <= 122) return true
  if (code >= 43 && code <= 58) return code !== 44 && code !== 47
  return (code >= 65 && code <= 90) || code === 95
}
