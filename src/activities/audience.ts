import { isWithinAudience, type Audience } from '../policy/audience.ts'
import { list, quote } from '../policy/words.ts'
import { readWith, type CallInHand } from './seen-state.ts'
import { ToolError } from '../tools/kit/executor.ts'
import { bodiesOf } from '../tools/bodies.ts'

/*
 * Some limits of tool policies depend on who can read the thing that a call writes to, such as a folder or a
 * spreadsheet. Only the service knows these readers. So Countersign asks the service right before a call is sent.
 * Countersign does not notice a later change of the readers.
 */

/**
 * Checks who can read the folder or file that the call writes to. Throws ToolError if a tool policy does not allow one
 * of these readers.
 */
export async function requireAudience(
  hand: CallInHand,
  signal: AbortSignal,
  audience: Audience,
): Promise<void> {
  if (audience.length === 0) return
  const { name } = hand.tool
  const read = (await bodiesOf(name))?.audience
  if (read === undefined) throw new Error(`no reader of the audience for tool \`${name}\``)
  if (isWithinAudience(audience, await readWith(hand, signal, read))) return
  const only = audience.map((domains) => `only people at ${list(domains.map(quote), 'and')}`).join(' and ')
  const message =
    `a tool policy lets \`${name}\` write to a place if ${only} can read it (\`allowed_domains\`), and other people ` +
    'can read this one: write to another place, or end that sharing'
  throw new ToolError('readers_outside_policy', message)
}
