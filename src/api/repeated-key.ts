interface Level {
  /** Keys of an object so far; null in a list. */
  readonly keys: Set<string> | null
  /** The key or index that is being read. */
  at: string | number
}

const [quote, backslash] = [0x22, 0x5c]

/**
 * The path of the first key that an object of this JSON text has twice, or null. `text` must be JSON that was read already.
 * `JSON.parse` keeps the last of them and tells nobody, and others who read the same text keep the first: a rule could
 * mean one thing to its reviewer and another to us.
 */
export function repeatedKey(text: string): (string | number)[] | null {
  const levels: Level[] = []
  let keyFollows = false
  for (let place = 0; place < text.length; place += 1) {
    const level = levels.at(-1)
    switch (text.charCodeAt(place)) {
      case 0x7b: // {
        levels.push({ keys: new Set(), at: '' })
        keyFollows = true
        break
      case 0x5b: // [
        levels.push({ keys: null, at: 0 })
        keyFollows = false
        break
      case 0x7d: // }
      case 0x5d: // ]
        levels.pop()
        keyFollows = false
        break
      case 0x2c: // ,
        keyFollows = level?.keys != null
        if (typeof level?.at === 'number') level.at += 1
        break
      case quote: {
        const end = endOfString(text, place)
        if (keyFollows && level?.keys != null) {
          const key = stringOf(text.slice(place, end))
          level.at = key
          if (level.keys.has(key)) return levels.map(({ at }) => at)
          level.keys.add(key)
          keyFollows = false
        }
        place = end - 1
        break
      }
    }
  }
  return null
}

/** What a key says, escapes read: `"\\u0061"` is `a`. */
const stringOf = (written: string): string =>
  written.includes('\\') ? (JSON.parse(written) as string) : written.slice(1, -1)

/** One past the closing quote of the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let place = start + 1
  while (text.charCodeAt(place) !== quote) place += text.charCodeAt(place) === backslash ? 2 : 1
  return place + 1
}
