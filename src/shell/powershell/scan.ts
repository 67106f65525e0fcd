import { scanForSenders } from '../scan.ts'
import type { Shell } from '../types.ts'
import { senders } from './cmdlets.ts'

/**
 * Searches a text that was not read: a sender, a path to another machine, or a `certutil` that fetches. Case does not
 * count, nor do back-ticks, carets and quotes in a name.
 */
export function scanPowerShell(command: string, shell: Shell): void {
  const bare = command.slice(0, 1_000_000).replaceAll(/[`^'"]|\0/g, '')
  for (const word of bare.toLowerCase().split(/[^a-z0-9_.-]+/)) {
    const parts = [word, ...(word.includes('.') ? word.split('.') : [])]
    const found = parts.find((part) => senders.has(part) || senders.has(part.replace(/\.exe$/, '')))
    if (found !== undefined) return shell.note('egress', `\`${found}\` sends data out`)
  }
  const sender = scanForSenders(bare.replaceAll(/\.exe\b/gi, ''))
  if (sender !== undefined) return shell.note('egress', `\`${sender}\` sends data out`)
  if (/(^|[\s=(,;])\\\\[\w.${}()-]+\\[\w${]/.test(bare)) shell.note('egress', elsewhere)
  // `certutil -urlcache` fetches an address.
  if (bare.split(/[\n\r\u2028\u2029]/).some(asksCertutil)) shell.note('egress', '`certutil` sends data out')
}

export const elsewhere = 'a path leads to another machine'

/** Two searches one after the other: one expression for both takes quadratic time in a line that repeats `certutil`. */
function asksCertutil(line: string): boolean {
  const at = line.search(/\bcertutil\b/i)
  return at >= 0 && /-(?:urlcache|verifyctl)\b/i.test(line.slice(at))
}
