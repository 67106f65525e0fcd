import { keyIdOf, openWith, sealWith, type SealedText } from './format.ts'
import { createKeyring, type Keyring, type KeyringOptions } from './keyring.ts'

/** Seals one text for one place. */
export type Seal = (place: string, plain: string) => Buffer

/** Encrypts what must not be readable at rest (docs/encryption.md). */
export interface Sealer {
  /**
   * Seals with the key of this moment, for where nothing can be waited for. Use it at once: a key that is held for long
   * is one that `npm run rotate-key` counts as given up.
   */
  sealing(): Promise<Seal>
  /** `place` names row and column and is authenticated, so that sealed bytes cannot be moved. */
  seal(place: string, plain: string): Promise<Buffer>
  /** Throws UnsealError when the bytes were changed, moved, or sealed with a key that is not ours. */
  open(place: string, sealed: Buffer): Promise<string>
  /** Throws WrongKey for a process that cannot open what others seal. */
  check(): Promise<void>
}

export function createSealer(options: KeyringOptions): Sealer {
  return sealerOf(createKeyring(options))
}

export function sealerOf(keyring: Keyring): Sealer {
  const sealing = async (): Promise<Seal> => {
    const key = await keyring.current()
    return (place, plain) => sealWith(key, place, plain)
  }
  return {
    sealing,
    seal: async (place, plain) => (await sealing())(place, plain),
    async open(place, sealed) {
      const id = keyIdOf(sealed)
      if (id === null) return keyring.unwrap(place, sealed).toString('utf8')
      return openWith(await keyring.find(id), place, sealed)
    },
    check: async () => void (await keyring.current()),
  }
}

/** A text, sealed before any lock is taken; with its size, which limits count. */
export async function sealText(sealer: Sealer, place: string, plain: string): Promise<SealedText> {
  return { sealed: await sealer.seal(place, plain), bytes: Buffer.byteLength(plain) }
}

/** A value as a row holds it: sealed, or in the clear where an older version wrote it. */
export interface Kept {
  readonly sealed: Buffer | null
  readonly plain: string | null
}

/** The text of a value that may be there; null if there is none. Throws UnsealError. */
export async function openKept(sealer: Sealer, place: string, kept: Kept): Promise<string | null> {
  return kept.sealed === null ? kept.plain : sealer.open(place, kept.sealed)
}
