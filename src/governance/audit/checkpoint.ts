import { hkdfSync } from 'node:crypto'
import type { ChainPosition } from './entry.ts'
import {
  openNote,
  readVerifierKey,
  signingKey,
  signNote,
  verifierText,
  WrongNote,
  type SigningKey,
  type VerifierKey,
} from './signed-note.ts'

/*
 * How many entries a chain has, and the hash of the last one, which covers all others: a signed note in the form of
 * https://c2sp.org/tlog-checkpoint.
 */

export interface Checkpoint extends ChainPosition {
  readonly organizationId: string
}

/** The first line of an organization's checkpoints, and the name of the keys. */
export const originOf = (organizationId: string): string => `countersign/${organizationId}`

export const idPattern = /^[A-Za-z0-9_-]{1,100}$/
const origin = /^countersign\/([A-Za-z0-9_-]{1,100})$/
const size = /^(0|[1-9]\d{0,14})$/

export const checkpointText = ({ organizationId, seq, hash }: Checkpoint): string =>
  `${originOf(organizationId)}\n${seq}\n${Buffer.from(hash, 'hex').toString('base64')}\n`

/** Throws WrongNote. */
export function readCheckpoint(text: string): Checkpoint {
  const [first = '', second = '', third = '', end, ...more] = text.split('\n')
  const organizationId = origin.exec(first)?.[1]
  const hash = Buffer.from(third, 'base64')
  const isComplete = organizationId !== undefined && size.test(second) && end === '' && more.length === 0
  if (!isComplete || hash.length !== 32 || hash.toString('base64') !== third)
    throw new WrongNote('the note is not a checkpoint of an audit log')
  return { organizationId, seq: Number(second), hash: hash.toString('hex') }
}

export interface OpenedCheckpoint extends Checkpoint {
  readonly signers: readonly VerifierKey[]
}

/** Throws WrongNote. */
export function openCheckpoint(note: string, keys: readonly VerifierKey[]): OpenedCheckpoint {
  const { text, signers } = openNote(note, keys)
  const checkpoint = readCheckpoint(text)
  if (signers.some(({ name }) => name !== originOf(checkpoint.organizationId)))
    throw new WrongNote('the key of another audit log has signed the checkpoint')
  return { ...checkpoint, signers }
}

export interface CheckpointKeys {
  /** Signs with the earlier keys too, so that processes with only one of the keys accept the note. */
  sign(checkpoint: Checkpoint): string
  /** `isCurrent` says whether the present key has signed the note. Throws WrongNote. */
  open(organizationId: string, note: string): OpenedCheckpoint & { readonly isCurrent: boolean }
  verifierKey(organizationId: string): string
}

/** From the encryption keys (docs/decisions/0241): nobody who can only write to the database has them. */
export function checkpointKeys(encryptionKeys: readonly [Buffer, ...Buffer[]]): CheckpointKeys {
  const derived = encryptionKeys.map((key) =>
    signingKey(Buffer.from(hkdfSync('sha256', key, '', 'countersign audit checkpoint', 32))),
  ) as [SigningKey, ...SigningKey[]]
  const verifierKey = (organizationId: string, key: SigningKey): string =>
    verifierText(originOf(organizationId), key)
  return {
    sign: (checkpoint) => signNote(checkpointText(checkpoint), originOf(checkpoint.organizationId), derived),
    open: (organizationId, note) => {
      const keys = derived.map((key) => readVerifierKey(verifierKey(organizationId, key)))
      const opened = openCheckpoint(note, keys)
      return { ...opened, isCurrent: opened.signers.some((key) => key === keys[0]) }
    },
    verifierKey: (organizationId) => verifierKey(organizationId, derived[0]),
  }
}
