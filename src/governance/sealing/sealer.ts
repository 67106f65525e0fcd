import {
  keyIdOf,
  openInSlices,
  openWith,
  sealInSlices,
  sealWith,
  sliceBytes,
  type SealedText,
} from './format.ts'
import type { Keyring } from './keyring.ts'

/** Seals one text for one place (places.ts). */
export type Seal = (place: string, plain: string) => Buffer

/** Encrypts values at rest (docs/encryption.md). */
export interface Sealer {
  /**
   * Returns a function that seals synchronously with the present data key. Use the function at once, because `npm run
   * rotate-key` assumes that processes stop using old keys soon.
   */
  sealing(): Promise<Seal>
  /**
   * Seals a value. `place` names the row and column of the value and is authenticated. So the sealed bytes cannot be
   * opened in another row or column. If `plain` is bytes, they must be UTF-8, because `open` returns a text.
   */
  seal(place: string, plain: string | Uint8Array): Promise<Buffer>
  /**
   * Opens a sealed value. Throws UnsealError if the bytes were changed, belong to another place, or were sealed with an
   * unknown key.
   */
  open(place: string, sealed: Buffer): Promise<string>
  /** Throws WrongKey if this process cannot open values that other processes have sealed. */
  check(): Promise<void>
}

export function sealerOf(keyring: Keyring): Sealer {
  const sealing = async (): Promise<Seal> => {
    const key = await keyring.current()
    return (place, plain) => sealWith(key, place, plain)
  }
  return {
    sealing,
    async seal(place, plain) {
      const key = await keyring.current()
      if (typeof plain === 'string' && plain.length <= sliceBytes) return sealWith(key, place, plain)
      return sealInSlices(key, place, typeof plain === 'string' ? Buffer.from(plain) : plain)
    },
    async open(place, sealed) {
      const open = sealed.length <= sliceBytes ? openWith : openInSlices
      return open(await keyring.find(keyIdOf(sealed)), place, sealed)
    },
    check: async () => void (await keyring.current()),
  }
}

/**
 * Seals a text. Returns the sealed bytes, and the number of bytes that the text has unsealed. Limits count the unsealed
 * bytes. Call this function before you take a lock.
 */
export async function sealText(sealer: Sealer, place: string, plain: string): Promise<SealedText> {
  return { sealed: await sealer.seal(place, plain), bytes: Buffer.byteLength(plain) }
}

/** Returns the text of an optional value, or null if there is no value. Throws UnsealError. */
export async function openKept(sealer: Sealer, place: string, sealed: Buffer | null): Promise<string | null> {
  return sealed === null ? null : sealer.open(place, sealed)
}
