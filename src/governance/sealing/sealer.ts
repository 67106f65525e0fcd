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

/** For one binding (bindings.ts). */
export type Seal = (binding: string, plain: string) => Buffer

/** Encrypts values at rest (docs/encryption.md). */
export interface Sealer {
  /** Seals with the present data key. Use it at once: `npm run rotate-key` assumes old keys are soon unused. */
  sealing(): Promise<Seal>
  /** The sealed bytes open under no other binding. Bytes must be UTF-8, because `open` returns a text. */
  seal(binding: string, plain: string | Uint8Array): Promise<Buffer>
  /** Throws UnsealError if the bytes were changed, have another binding, or of an unknown key. */
  open(binding: string, sealed: Buffer): Promise<string>
  /** Throws WrongKey. */
  check(): Promise<void>
}

export function sealerOf(keyring: Keyring): Sealer {
  const sealing = async (): Promise<Seal> => {
    const key = await keyring.current()
    return (binding, plain) => sealWith(key, binding, plain)
  }
  return {
    sealing,
    async seal(binding, plain) {
      const key = await keyring.current()
      if (typeof plain === 'string' && plain.length <= sliceBytes) return sealWith(key, binding, plain)
      return sealInSlices(key, binding, typeof plain === 'string' ? Buffer.from(plain) : plain)
    },
    async open(binding, sealed) {
      const open = sealed.length <= sliceBytes ? openWith : openInSlices
      return open(await keyring.find(keyIdOf(sealed)), binding, sealed)
    },
    check: async () => void (await keyring.current()),
  }
}

/** Limits count the unsealed bytes. Call this before you take a lock. */
export async function sealText(sealer: Sealer, binding: string, plain: string): Promise<SealedText> {
  return { sealed: await sealer.seal(binding, plain), bytes: Buffer.byteLength(plain) }
}

/** null without a value. Throws UnsealError. */
export async function openKept(
  sealer: Sealer,
  binding: string,
  sealed: Buffer | null,
): Promise<string | null> {
  return sealed === null ? null : sealer.open(binding, sealed)
}
