import { createHmac } from 'node:crypto'
import type { Context } from '../../context.ts'
import { takeGuess } from './guesses.ts'

/**
 * Whether one more mail of this kind may go to an address: strangers can cause them, from as many addresses of their own as
 * they like. Ten at once and then one every five minutes, counted like wrong passwords. Each kind has its own: whoever uses one
 * up has sent the person ten mails that all serve.
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
