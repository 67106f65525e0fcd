import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefix = 'csk_live_'
const form = /^csk_live_([0-9A-Za-z]{32})([0-9A-Za-z]{6})$/

/**
 * Returns the CRC32 as six base62 digits, the most significant digit first. Six digits are enough, because 62^6 is
 * larger than 2^32.
 */
function checksum(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let place = 0; place < 6; place += 1) {
    digits = `${alphabet[rest % 62]}${digits}`
    rest = Math.floor(rest / 62)
  }
  return digits
}

/**
 * Makes a new API key. The key consists of `csk_live_`, 32 base62 characters (190 random bits), and the CRC32 of these
 * two parts. The caller stores `hash` and `last4`, and shows `secret` once.
 */
export function newApiKey(): { secret: string; hash: string; last4: string } {
  const random = Array.from({ length: 32 }, () => alphabet[randomInt(alphabet.length)]).join('')
  const body = `${prefix}${random}`
  const secret = `${body}${checksum(body)}`
  return { secret, hash: hashApiKey(secret), last4: secret.slice(-4) }
}

/** Returns whether the text has the format of an API key and a correct checksum. Does not ask the database. */
export function isApiKey(text: string): boolean {
  const match = form.exec(text)
  return match !== null && checksum(`${prefix}${match[1]}`) === match[2]
}

/** Returns the lower-case hex SHA-256 of the whole key. The database stores this hash and not the key. */
export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex')
}
