import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const version = 1
const ivBytes = 12
const tagBytes = 16

/** Sealed bytes that this installation's key does not open at this place. Its message holds nothing of them. */
export class UnsealError extends Error {
  override readonly name = 'UnsealError'
}

/** Encrypts what must not be readable at rest (resolved parameters). One 32-byte key per installation. */
export interface Sealer {
  /** AES-256-GCM; `place` names the row it belongs to and is authenticated, so that sealed bytes cannot be moved. */
  seal(place: string, plain: string): Buffer
  /** Throws UnsealError when the bytes were changed, moved to another row, or sealed with another key. */
  open(place: string, sealed: Buffer): string
}

export function createSealer(key: Buffer): Sealer {
  if (key.length !== 32) throw new Error('DATA_ENCRYPTION_KEY must be 32 bytes, base64')
  return {
    seal(place, plain) {
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes })
      cipher.setAAD(Buffer.from(place))
      const body = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      return Buffer.concat([Buffer.from([version]), iv, cipher.getAuthTag(), body])
    },
    open(place, sealed) {
      if (sealed.length <= ivBytes + tagBytes) throw new UnsealError('sealed data was cut')
      if (sealed[0] !== version)
        throw new UnsealError(`sealed data of version \`${sealed[0]}\` cannot be opened`)
      const iv = sealed.subarray(1, 1 + ivBytes)
      const tag = sealed.subarray(1 + ivBytes, 1 + ivBytes + tagBytes)
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes })
      decipher.setAAD(Buffer.from(place))
      decipher.setAuthTag(tag)
      const opened = decipher.update(sealed.subarray(1 + ivBytes + tagBytes))
      try {
        return Buffer.concat([opened, decipher.final()]).toString('utf8')
      } catch (cause) {
        const why =
          'sealed data was changed, moved from another row, or sealed with another DATA_ENCRYPTION_KEY'
        throw new UnsealError(why, { cause })
      }
    },
  }
}
