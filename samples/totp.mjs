/*
 * `node samples/totp.mjs URI [NEXT]` prints the code that an authenticator app shows for an `otpauth:` address (RFC 6238). NEXT
 * is 1 for the code that comes after the present one.
 */

import { createHmac } from 'node:crypto'

const [uri, next = '0'] = process.argv.slice(2)
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
const secret = new URL(uri).searchParams.get('secret')
const bits = secret
  .split('')
  .map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0'))
  .join('')
const key = Buffer.from(bits.match(/.{8}/g).map((byte) => Number.parseInt(byte, 2)))

const counter = Buffer.alloc(8)
counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + Number(next)))
const mac = createHmac('sha1', key).update(counter).digest()
const code = (mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1_000_000
console.log(String(code).padStart(6, '0'))
