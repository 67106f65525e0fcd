import { longestScan } from './limits.ts'
import { senders, tellingPaths } from './tables/senders.ts'

/** A number for each program and word of a subcommand that tells of sending. */
const telling: ReadonlyMap<string, number> = new Map(
  [
    ...new Set([...senders, ...[...tellingPaths].flatMap(([program, paths]) => [program, ...paths.flat()])]),
  ].map((word, number) => [word, number]),
)
const longestTelling = Math.max(...[...telling.keys()].map((word) => word.length))

/** The name of a sender among the words. Cannot tell data from commands: only for what cannot be parsed. */
export function scanForSenders(text: string): string | undefined {
  // The first and last position of each word; 0 if it is missing. A text can have tens of thousands of such words.
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
  const positionOf = (positions: Uint32Array, word: string): number => positions[telling.get(word) ?? 0] ?? 0
  for (const [program, paths] of tellingPaths) {
    const from = positionOf(first, program)
    if (from > 0 && paths.some((path) => path.every((word) => positionOf(last, word) > from))) return program
  }
  return undefined
}

/** Letters, digits and `_.+:-`. After the end of the text, the code is NaN. */
function inWord(code: number): boolean {
  if (code >= 97 && code <= 122) return true
  if (code >= 43 && code <= 58) return code !== 44 && code !== 47
  return (code >= 65 && code <= 90) || code === 95
}
