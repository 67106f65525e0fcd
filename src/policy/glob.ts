/**
 * Whether a tool's name matches a glob with `*` (any text) and `?` (one character). Takes at most |glob|·|name|
 * steps, whatever the glob is.
 */
export function matchesGlob(glob: string, name: string): boolean {
  let g = 0
  let n = 0
  let star = -1
  let resume = 0
  while (n < name.length) {
    if (g < glob.length && glob[g] === '*') {
      star = g++
      resume = n
    } else if (g < glob.length && (glob[g] === '?' || glob[g] === name[n])) {
      g++
      n++
    } else if (star >= 0) {
      g = star + 1
      n = ++resume
    } else return false
  }
  while (glob[g] === '*') g++
  return g === glob.length
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
