import { longestScan } from './limits.ts'
import { senders, tellingPaths } from './tables/senders.ts'

/** Words that say something here: senders, and programs with their sending subcommands. */
const telling: ReadonlySet<string> = new Set([
  ...senders,
  ...[...tellingPaths].flatMap(([program, paths]) => [program, ...paths.flat()]),
])
const longestTelling = Math.max(...[...telling].map((word) => word.length))

/**
 * Looks for a program that sends data out anywhere in a text, by its words alone: quotes and backslashes left out, as the
 * shell leaves them out. It takes data for commands, so it is only asked about what cannot be read otherwise.
 */
export function scanForSenders(text: string): string | undefined {
  const first = new Map<string, number>()
  const last = new Map<string, number>()
  let position = 0
  const bare = text.slice(0, longestScan).replaceAll(/\\\r?\n|["'\\\0]/g, '')
  let start = 0
  for (let at = 0; at <= bare.length; at += 1) {
    if (inWord(bare.charCodeAt(at))) continue
    if (at > start + 1 && at - start <= longestTelling) {
      const word = bare.slice(start, at).toLowerCase()
      if (senders.has(word)) return word
      if (telling.has(word)) {
        position += 1
        if (!first.has(word)) first.set(word, position)
        last.set(word, position)
      }
    }
    start = at + 1
  }
  for (const [program, from] of first) {
    const follows = (word: string): boolean => (last.get(word) ?? 0) > from
    if (tellingPaths.get(program)?.some((path) => path.every(follows)) === true) return program
  }
  return undefined
}

/** Letters, digits and `_.+:-`, which names of programs and subcommands are made of; false for NaN behind the end. */
function inWord(code: number): boolean {
  if (code >= 97 && code <= 122) return true
  if (code >= 43 && code <= 58) return code !== 44 && code !== 47
  return (code >= 65 && code <= 90) || code === 95
}
