/**
 * Returns whether a tool's name matches a glob. In a glob, `*` stands for any text, and `?` stands for one character.
 * Each piece between two stars is matched at the first position where it fits. Only the search for a piece with `?` can
 * take |piece|·|name| steps.
 */
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

/** Returns whether the name has the piece at this position. The piece contains no star. */
function fits(piece: string, name: string, at: number): boolean {
  for (let i = 0; i < piece.length; i++) {
    const char = piece.charCodeAt(i)
    if (char !== anyOne && char !== name.charCodeAt(at + i)) return false
  }
  return true
}

const anyOne = '?'.charCodeAt(0)

/** Returns the first position, from `at` on, where the piece is in the name. Returns -1 if there is none. */
function placeOf(piece: string, name: string, at: number): number {
  if (!piece.includes('?')) return name.indexOf(piece, at)
  for (let from = at; from + piece.length <= name.length; from++) if (fits(piece, name, from)) return from
  return -1
}

/** Whether some name matches both globs. Takes |a|·|b| steps. */
export function globsMeet(a: string, b: string): boolean {
  // meets[j]: whether some text matches both the rest of `a` from i and the rest of `b` from j. i runs backwards from
  // the end.
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

/**
 * Returns whether every name that matches `glob` certainly matches `other`. The answer `false` can be wrong. Example:
 * `?*` and `*?` match the same names, but the answer is `false`. Takes |glob|·|other| steps.
 */
export function isWithinGlob(glob: string, other: string): boolean {
  // fits[i]: whether the first i characters of `glob` fit the part of `other` that was read so far.
  let fits = Array.from({ length: glob.length + 1 }, (_, i) => i === 0)
  for (const char of other.split('')) {
    let fitsBefore = false
    fits = fits.map((isFit, i) => {
      fitsBefore ||= isFit
      if (char === '*') return fitsBefore
      const last = glob[i - 1]
      return i > 0 && fits[i - 1] === true && (char === last || (char === '?' && last !== '*'))
    })
  }
  return fits[glob.length] === true
}
