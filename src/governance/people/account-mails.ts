import { createHmac } from 'node:crypto'
import type { Context } from '../context.ts'
import { takeGuess } from './guesses.ts'

/**
 * Counts a mail of this kind to an address, and returns whether the mail may be sent. The limit is needed because
 * strangers can trigger such mails. An address gets ten mails at once, then one every five minutes (see `takeGuess`).
 * Each kind of mail has its own count, so a stranger who uses up one kind cannot block other kinds of mail.
 */
export async function takeAccountMail(
  { config, db }: Pick<Context, 'config' | 'db'>,
  address: string,
  kind: string,
): Promise<boolean> {
  const key = createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['account mails', kind, address.toLowerCase()]))
    .digest('hex')
  return (await takeGuess(db, key)) === null
}
