import {
  UnsealError,
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
      const id = keyIdOf(sealed)
      if (id === null) return keyring.unwrap(place, sealed).toString('utf8')
      const open = sealed.length <= sliceBytes ? openWith : openInSlices
      return open(await keyring.find(id), place, sealed)
    },
    check: async () => void (await keyring.current()),
  }
}

/** Limits count the unsealed bytes. Call this before you take a lock. */
export async function sealText(sealer: Sealer, place: string, plain: string): Promise<SealedText> {
  return { sealed: await sealer.seal(place, plain), bytes: Buffer.byteLength(plain) }
}

/** null without a value. The service never writes `plain`: it comes from somebody else with access. */
export interface Kept {
  readonly sealed: Buffer | null
  readonly plain: string | null
}

/** null without a value. Throws UnsealError, also for a plain value. */
export async function openKept(sealer: Sealer, place: string, kept: Kept): Promise<string | null> {
  if (kept.plain !== null) throw new UnsealError('a value is not sealed, so the service has not written it')
  return kept.sealed === null ? null : sealer.open(place, kept.sealed)
}
