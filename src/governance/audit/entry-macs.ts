import { hash as digest, hkdfSync } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { UnsealError, type DataKey } from '../sealing/format.ts'
import type { Keyring } from '../sealing/keyring.ts'
import { chainStart, type ChainPosition } from './entry.ts'

/*
 * Each entry has a code that only this service can make: an HMAC-SHA256 of its position and hash, cut to 128 bits. Its
 * key is derived from a data key, for each organization (docs/decisions/0268). The code begins with the data key's id,
 * so it stays valid after `npm run rotate-key`. `chain_head` has the code of the newest entry.
 */

export type SignEntry = (entry: ChainPosition) => string

const idDigits = 16
const codeDigits = 32
const blockBytes = 64
const hashBytes = 32

/** Makes the HMAC from two plain hashes (RFC 2104): `createHmac` takes twice as long for so few bytes. */
export function entrySigner({ id, key }: DataKey, organizationId: string): SignEntry {
  const derived = Buffer.from(
    hkdfSync('sha256', key, '', `countersign audit entry\n${organizationId}`, hashBytes),
  )
  const inner = Buffer.alloc(blockBytes + 128)
  const outer = Buffer.alloc(blockBytes + hashBytes)
  for (let at = 0; at < blockBytes; at += 1) {
    inner[at] = 0x36 ^ (derived[at] ?? 0)
    outer[at] = 0x5c ^ (derived[at] ?? 0)
  }
  return ({ seq, hash }) => {
    const end = blockBytes + inner.write(`${seq}\n${hash}`, blockBytes, 'latin1')
    outer.write(digest('sha256', inner.subarray(0, end), 'hex'), blockBytes, 'hex')
    return id + digest('sha256', outer, 'hex').slice(0, codeDigits)
  }
}

/** null for a text that is no code. */
export const keyIdOfMac = (mac: string | null): string | null =>
  mac?.length === idDigits + codeDigits ? mac.slice(0, idDigits) : null

export interface EntryMacs {
  /** Makes codes with the present data key. Use it at once, as `Sealer.sealing`. */
  signer(organizationId: string): Promise<SignEntry>
  /** The start of a chain needs no code. */
  isOurs(organizationId: string, entry: ChainPosition, mac: string | null): Promise<boolean>
}

export function createEntryMacs(keyring: Pick<Keyring, 'current' | 'find'>): EntryMacs {
  const signers = new LRUCache<string, SignEntry>({ max: 10_000 })
  const signerOf = (key: DataKey, organizationId: string): SignEntry => {
    const name = `${key.id} ${organizationId}`
    const known = signers.get(name) ?? entrySigner(key, organizationId)
    signers.set(name, known)
    return known
  }
  return {
    signer: async (organizationId) => signerOf(await keyring.current(), organizationId),
    async isOurs(organizationId, entry, mac) {
      if (entry.seq === chainStart.seq) return entry.hash === chainStart.hash
      const id = keyIdOfMac(mac)
      if (id === null) return false
      try {
        return signerOf(await keyring.find(id), organizationId)(entry) === mac
      } catch (error) {
        if (error instanceof UnsealError) return false
        throw error
      }
    },
  }
}
