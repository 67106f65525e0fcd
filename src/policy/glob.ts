/** `*` stands for any text, `?` for one character. Only a piece with `?` can take |piece|·|name| steps. */
export function matchesGlob(glob: string, name: string): boolean {
  const first = glob.indexOf('*')
  if (first < 0) return glob.length === name.length && fits(glob, name, 0)
  const last = glob.lastIndexOf('*')
  const end = name.length - (glob.length - last - 1)
  if (end < first || !fits(glob.slice(0, first), name, 0) || !fits(glob.slice(last + 1), name, end))
    return false
  let at = first
  for (let start = first + 1; start <= last;) {
    const star = glob.indexOf('*', start)
    const piece = glob.slice(start, star)
    at = placeOf(piece, name, at)
    if (at < 0 || at + piece.length > end) return false
    at += piece.length
    start = star + 1
  }
  return true
}

/** The piece has no star. */
function fits(piece: string, name: string, at: number): boolean {
  for (let i = 0; i < piece.length; i++) {
    const char = piece.charCodeAt(i)
    if (char !== anyOne && char !== name.charCodeAt(at + i)) return false
  }
  return true
}

const anyOne = '?'.charCodeAt(0)

/** -1 if the piece does not follow. */
function placeOf(piece: string, name: string, at: number): number {
  if (!piece.includes('?')) return name.indexOf(piece, at)
  for (let from = at; from + piece.length <= name.length; from++) if (fits(piece, name, from)) return from
  return -1
}

/** Whether some name matches both globs, in |a|·|b| steps. */
export function globsMeet(a: string, b: string): boolean {
  // Whether some text matches the rest of `a` from i and of `b` from j. i runs backwards.
  let below: boolean[] = []
  for (let i = a.length; i >= 0; i--) {
    const meets: boolean[] = Array.from({ length: b.length + 1 }, () => false)
    for (let j = b.length; j >= 0; j--) {
      if (i === a.length && j === b.length) meets[j] = true
      else if (a[i] === '*') meets[j] = below[j] === true || (j < b.length && meets[j + 1] === true)
      else if (b[j] === '*') meets[j] = meets[j + 1] === true || (i < a.length && below[j] === true)
      else if (i < a.length && j < b.length)
        meets[j] = (a[i] === '?' || b[j] === '?' || a[i] === b[j]) && below[j + 1] === true
    }
    below = meets
  }
  return below[0] === true
}

/** Surely every name of `glob` is one of `other`; `false` can be wrong (`?*`, `*?`). At most `stepsWithin` steps. */
export function isWithinGlob(glob: string, other: string): boolean {
  if (!isOpen(glob)) return matchesGlob(other, glob)
  if (!hasSameEnds(glob, other)) return false
  // Whether the first i characters of `glob` fit the part of `other` that was read so far.
  const fits = new Uint8Array(glob.length + 1)
  fits[0] = 1
  for (let at = 0; at < other.length; at++) {
    const char = other.charCodeAt(at)
    if (char === anyText) {
      for (let i = 1; i <= glob.length; i++) if (fits[i - 1] === 1) fits[i] = 1
      continue
    }
    // Backwards, because `fits[i - 1]` must not know `char` yet.
    for (let i = glob.length; i > 0; i--) {
      const last = glob.charCodeAt(i - 1)
      const isOne = char === last || (char === anyOne && last !== anyText)
      fits[i] = isOne ? (fits[i - 1] ?? 0) : 0
    }
    fits[0] = 0
  }
  return fits[glob.length] === 1
}

export function stepsWithin(glob: string, other: string): number {
  const isQuick = isOpen(glob) ? !hasSameEnds(glob, other) : !other.includes('?')
  return isQuick ? 1 : 1 + glob.length * other.length
}

const anyText = '*'.charCodeAt(0)

const isOpen = (glob: string): boolean => /[*?]/.test(glob)

/** Whether `glob` has the plain text at the ends of `other`. If not, `other` may miss some of its names. */
function hasSameEnds(glob: string, other: string): boolean {
  const [begin = ''] = /^[^*?]*/.exec(other) ?? []
  const last = Math.max(other.lastIndexOf('*'), other.lastIndexOf('?'))
  return glob.startsWith(begin) && glob.endsWith(other.slice(last + 1))
}
