/** Whether a tool's name matches a glob of `*` (any text) and `?` (one character). Linear, so no glob is a trap. */
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
