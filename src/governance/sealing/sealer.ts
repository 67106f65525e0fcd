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

/** For one place (places.ts). */
export type Seal = (place: string, plain: string) => Buffer

/** Encrypts values at rest (docs/encryption.md). */
export interface Sealer {
  /** Seals with the present data key. Use it at once: `npm run rotate-key` assumes old keys are soon unused. */
  sealing(): Promise<Seal>
  /** The sealed bytes open in no other place. Bytes must be UTF-8, because `open` returns a text. */
  seal(place: string, plain: string | Uint8Array): Promise<Buffer>
  /** Throws UnsealError if the bytes were changed, are of another place, or of an unknown key. */
  open(place: string, sealed: Buffer): Promise<string>
  /** Throws WrongKey. */
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

/** Limits count the unsealed bytes. Call this before you take a lock. */
export async function sealText(sealer: Sealer, place: string, plain: string): Promise<SealedText> {
  return { sealed: await sealer.seal(place, plain), bytes: Buffer.byteLength(plain) }
}

/** null without a value. Throws UnsealError. */
export async function openKept(sealer: Sealer, place: string, sealed: Buffer | null): Promise<string | null> {
  return sealed === null ? null : sealer.open(place, sealed)
}
