import type { Budget } from './budget.ts'

/**
 * The longest pattern that V8 looks for in linear time. For a longer pattern, such as `ab` followed by many `a`, V8 can
 * take |text|·|pattern| steps.
 */
const longestForEngine = 250

/** Like `text.includes(pattern)`, but always takes linear time. */
export function includesText(text: string, pattern: string, budget: Budget): boolean {
  if (pattern.length <= longestForEngine) return text.includes(pattern)
  if (text.length < pattern.length) return false
  budget.spend((text.length + pattern.length) >> 5)
  return isFound(text, pattern)
}

/** Searches with the algorithm of Knuth, Morris and Pratt. */
function isFound(text: string, pattern: string): boolean {
  const overlaps = overlapsOf(pattern)
  let fits = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    while (fits > 0 && char !== pattern.charCodeAt(fits)) fits = overlaps[fits - 1] ?? 0
    if (char === pattern.charCodeAt(fits)) fits++
    if (fits === pattern.length) return true
  }
  return false
}

/**
 * For each beginning of the pattern, returns how many of its last characters are also the first characters of the
 * pattern. Example: the result for `abab` is 0, 0, 1, 2.
 */
function overlapsOf(pattern: string): Uint32Array {
  const overlaps = new Uint32Array(pattern.length)
  let fits = 0
  for (let at = 1; at < pattern.length; at++) {
    const char = pattern.charCodeAt(at)
    while (fits > 0 && char !== pattern.charCodeAt(fits)) fits = overlaps[fits - 1] ?? 0
    if (char === pattern.charCodeAt(fits)) fits++
    overlaps[at] = fits
  }
  return overlaps
}
