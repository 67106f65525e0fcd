import {
  createCipheriv,
  createDecipheriv,
  createHash,
  randomBytes,
  type CipherGCM,
  type DecipherGCM,
} from 'node:crypto'
import { freeBytes } from '../../shared/free-bytes.ts'
import { nextTurn } from '../../shared/time-slices.ts'

/*
 * Sealed bytes have one of two formats (AES-256-GCM; sizes in bytes). The first byte is the number of the format. The
 * body is as long as the plain bytes.
 *
 * 1 | iv 12 | tag 16 | body            a data key, sealed with the installation's key
 * 2 | key id 8 | iv 12 | tag 16 | body a value, sealed with the data key of this id
 *
 * The binding (row and column of the bytes) is authenticated. In format 2, the first byte and the key id are
 * authenticated too.
 */

const byInstallation = 1
const byDataKey = 2
const idBytes = 8
const ivBytes = 12
const tagBytes = 16

/** Before the body of a value. `value_bytes` in the database relies on it. */
export const sealedOverhead = 1 + idBytes + ivBytes + tagBytes

/** They have the random iv, so they identify a value. A multiple of 3, to be cut from a base64 text. */
export const fingerprintBytes = 36

export interface DataKey {
  /** 16 hex digits: the beginning of its SHA-256. */
  readonly id: string
  readonly key: Buffer
}

/** With its number of bytes before sealing. */
export interface SealedText {
  readonly sealed: Buffer
  readonly bytes: number
}

/** The bytes cannot be opened for this binding with these keys. The message contains none of them. */
export class UnsealError extends Error {
  override readonly name = 'UnsealError'
}

export function dataKeyOf(key: Buffer): DataKey {
  return {
    id: createHash('sha256')
      .update(key)
      .digest('hex')
      .slice(0, idBytes * 2),
    key,
  }
}

/** What each value begins with that this key has sealed: the number of the format, and the key id. */
export const headerOf = ({ id }: Pick<DataKey, 'id'>): Buffer =>
  Buffer.concat([Buffer.from([byDataKey]), Buffer.from(id, 'hex')])

export function sealWith(key: DataKey, binding: string, plain: string): Buffer {
  return encrypt(key.key, headerOf(key), aad(headerOf(key), binding), Buffer.from(plain))
}

/** The thread handles other events between two slices. A text of 20 MiB in one piece would stop it for 0.1 s. */
export const sliceBytes = 256 * 1024

/** As `sealWith`, for long texts. */
export async function sealInSlices(key: DataKey, binding: string, plain: Uint8Array): Promise<Buffer> {
  const header = headerOf(key)
  const { cipher, iv } = cipherFor(key.key, aad(header, binding))
  const bodyAt = header.length + ivBytes + tagBytes
  const sealed = Buffer.allocUnsafe(bodyAt + plain.length)
  header.copy(sealed)
  iv.copy(sealed, header.length)
  await inSlices(cipher, plain, sealed.subarray(bodyAt))
  cipher.final()
  cipher.getAuthTag().copy(sealed, header.length + ivBytes)
  return sealed
}

/** GCM adds no padding, so both are as long. */
async function inSlices(cipher: CipherGCM | DecipherGCM, from: Uint8Array, to: Buffer): Promise<void> {
  for (let at = 0; at < from.length; at += sliceBytes) {
    await nextTurn()
    const slice = cipher.update(from.subarray(at, at + sliceBytes))
    to.set(slice, at)
    freeBytes(slice)
  }
}

/** The id of the data key that sealed the bytes. Throws UnsealError. */
export function keyIdOf(sealed: Buffer): string {
  requireFormat(byDataKey, sealed)
  if (sealed.length < sealedOverhead) throw new UnsealError('sealed data was cut')
  return sealed.toString('hex', 1, 1 + idBytes)
}

function requireFormat(format: number, [found]: Buffer): void {
  if (found !== format) throw new UnsealError(`sealed data of format \`${found}\` cannot be opened here`)
}

/** For a value. Throws UnsealError. */
export function openWith(key: DataKey, binding: string, sealed: Buffer): string {
  const header = headerOfKey(key, sealed)
  return decrypt(key.key, header.length, aad(header, binding), sealed).toString('utf8')
}

/** As `openWith`, for long texts. */
export async function openInSlices(key: DataKey, binding: string, sealed: Buffer): Promise<string> {
  const header = headerOfKey(key, sealed)
  const { decipher, body } = decipherFor(key.key, header.length, aad(header, binding), sealed)
  const plain = Buffer.allocUnsafe(body.length)
  await inSlices(decipher, body, plain)
  return authentic(decipher, plain).toString('utf8')
}

function headerOfKey(key: DataKey, sealed: Buffer): Buffer {
  if (keyIdOf(sealed) !== key.id) throw new UnsealError('sealed data names another key')
  return headerOf(key)
}

export function wrap(installationKey: Buffer, binding: string, plain: Buffer): Buffer {
  return encrypt(installationKey, Buffer.from([byInstallation]), Buffer.from(binding), plain)
}

/** For what `wrap` has sealed. Throws UnsealError. */
export function unwrap(installationKey: Uint8Array, binding: string, sealed: Buffer): Buffer {
  requireFormat(byInstallation, sealed)
  return decrypt(installationKey, 1, Buffer.from(binding), sealed)
}

const aad = (header: Buffer, binding: string): Buffer => Buffer.concat([header, Buffer.from(binding)])

function cipherFor(key: Buffer, authenticated: Buffer): { cipher: CipherGCM; iv: Buffer } {
  const iv = randomBytes(ivBytes)
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: tagBytes })
  cipher.setAAD(authenticated)
  return { cipher, iv }
}

function encrypt(key: Buffer, header: Buffer, authenticated: Buffer, plain: Buffer): Buffer {
  const { cipher, iv } = cipherFor(key, authenticated)
  const body = cipher.update(plain)
  cipher.final()
  return Buffer.concat([header, iv, cipher.getAuthTag(), body])
}

function decipherFor(
  key: Uint8Array,
  headerBytes: number,
  authenticated: Buffer,
  sealed: Buffer,
): { decipher: DecipherGCM; body: Buffer } {
  const [ivAt, tagAt, bodyAt] = [headerBytes, headerBytes + ivBytes, headerBytes + ivBytes + tagBytes]
  if (sealed.length < bodyAt) throw new UnsealError('sealed data was cut')
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(ivAt, tagAt), {
    authTagLength: tagBytes,
  })
  decipher.setAAD(authenticated)
  decipher.setAuthTag(sealed.subarray(tagAt, bodyAt))
  return { decipher, body: sealed.subarray(bodyAt) }
}

function decrypt(key: Uint8Array, headerBytes: number, authenticated: Buffer, sealed: Buffer): Buffer {
  const { decipher, body } = decipherFor(key, headerBytes, authenticated, sealed)
  return authentic(decipher, decipher.update(body))
}

/** GCM returns bytes before `final` has checked the tag. Nobody may use them before this returns them. */
function authentic(decipher: DecipherGCM, plain: Buffer): Buffer {
  try {
    decipher.final()
    return plain
  } catch (cause) {
    throw new UnsealError('sealed data was changed, moved from another row, or sealed with another key', {
      cause,
    })
  }
}
