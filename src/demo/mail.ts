import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface CaughtMail {
  readonly file: string
  /** The recipient in the envelope, to whom the server delivers. */
  readonly to: string
  readonly subject: string
  readonly messageId: string
}

/**
 * Returns every message that the mail server has accepted. The server writes a message to disk before it answers the
 * sender, so no accepted message is missing.
 */
export function caughtMail(dir: string): CaughtMail[] {
  if (!existsSync(dir)) return []
  return readdirSync(dir)
    .filter((name) => name.endsWith('.eml'))
    .map((name) => {
      const file = join(dir, name)
      const text = readFileSync(file, 'utf8')
      const headers = text.slice(0, text.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ')
      const header = (field: string) => new RegExp(`^${field}: *(.*)$`, 'im').exec(headers)?.[1]?.trim() ?? ''
      return {
        file,
        to: header('x-envelope-to'),
        subject: header('subject'),
        messageId: header('message-id'),
      }
    })
}
