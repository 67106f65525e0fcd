import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'

/*
 * Signed notes (https://c2sp.org/signed-note) with Ed25519 keys: a text, an empty line, and a line for each signature.
 * The Go package golang.org/x/mod/sumdb/note reads the same notes and verifier keys.
 */

/** Malformed, a wrong signature, or none of a known key. The message is one sentence. */
export class WrongNote extends Error {
  override readonly name = 'WrongNote'
}

/** Signs notes under any name. */
export interface SigningKey {
  readonly privateKey: KeyObject
  /** 32 bytes. */
  readonly publicKey: Buffer
}

/** Checks the notes of one name. */
export interface VerifierKey {
  readonly name: string
  /** Four bytes, with which each signature of this key begins. */
  readonly id: Buffer
  readonly publicKey: KeyObject
}

/** Names the algorithm Ed25519 in key ids and verifier keys. */
const ed25519 = Buffer.from([1])
/** The DER bytes before the 32 bytes of an Ed25519 key. */
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex')

const idBytes = 4
const signatureLine = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/

/** The same 32 bytes always give the same key. */
export function signingKey(seed: Buffer): SigningKey {
  const privateKey = createPrivateKey({
    key: Buffer.concat([privatePrefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const der = createPublicKey(privateKey).export({ format: 'der', type: 'spki' })
  return { privateKey, publicKey: der.subarray(publicPrefix.length) }
}

function keyId(name: string, publicKey: Buffer): Buffer {
  const hash = createHash('sha256').update(`${name}\n`).update(ed25519).update(publicKey)
  return hash.digest().subarray(0, idBytes)
}

/** What other people need to check the notes: `name+id+key`. */
export function verifierText(name: string, { publicKey }: SigningKey): string {
  const key = Buffer.concat([ed25519, publicKey]).toString('base64')
  return `${name}+${keyId(name, publicKey).toString('hex')}+${key}`
}

/** Throws WrongNote. */
export function readVerifierKey(text: string): VerifierKey {
  const [, name = '', id = '', key = ''] =
    /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? []
  const bytes = Buffer.from(key, 'base64')
  const publicKey = bytes.subarray(1)
  if (bytes.length !== 33 || bytes[0] !== 1 || keyId(name, publicKey).toString('hex') !== id)
    throw new WrongNote('the verifier key is not complete: it has the form `name+id+key`')
  return {
    name,
    id: Buffer.from(id, 'hex'),
    publicKey: createPublicKey({
      key: Buffer.concat([publicPrefix, publicKey]),
      format: 'der',
      type: 'spki',
    }),
  }
}

/** The text must end with a line break. */
export function signNote(text: string, name: string, keys: readonly SigningKey[]): string {
  const lines = keys.map(({ privateKey, publicKey }) => {
    const signature = sign(null, Buffer.from(text), privateKey)
    return `— ${name} ${Buffer.concat([keyId(name, publicKey), signature]).toString('base64')}\n`
  })
  return `${text}\n${lines.join('')}`
}

/** Throws WrongNote if no known key has signed it, or if a known key's signature is wrong. */
export function openNote(
  note: string,
  keys: readonly VerifierKey[],
): { readonly text: string; readonly signers: readonly VerifierKey[] } {
  const { text, lines } = partsOf(note)
  if (lines.length > 64) throw new WrongNote('the note has too many signatures')
  const signers = lines.flatMap((line) => {
    const signer = signerOf(line, keys)
    if (signer === null) return []
    if (verify(null, Buffer.from(text), signer.key.publicKey, signer.signature)) return [signer.key]
    throw new WrongNote('the signature is wrong: the note was changed')
  })
  if (signers.length === 0) throw new WrongNote('no known key has signed the note')
  return { text, signers }
}

/** Does not check the signatures. Throws WrongNote. */
export const uncheckedText = (note: string): string => partsOf(note).text

function partsOf(note: string): { readonly text: string; readonly lines: readonly string[] } {
  const middle = note.lastIndexOf('\n\n')
  // oxlint-disable-next-line eslint/no-control-regex -- The only control character in a note is the line break.
  if (middle < 0 || !note.endsWith('\n') || /[\u0000-\u0009\u000b-\u001f]/.test(note))
    throw new WrongNote('the text is not a signed note')
  return { text: note.slice(0, middle + 1), lines: note.slice(middle + 2, -1).split('\n') }
}

function signerOf(
  line: string,
  keys: readonly VerifierKey[],
): { readonly key: VerifierKey; readonly signature: Buffer } | null {
  const [, name, encoded] = signatureLine.exec(line) ?? []
  if (encoded === undefined) throw new WrongNote('a signature line of the note is malformed')
  const bytes = Buffer.from(encoded, 'base64')
  const id = bytes.subarray(0, idBytes)
  const key = keys.find((each) => each.name === name && each.id.equals(id))
  if (key === undefined) return null
  const signature = bytes.subarray(idBytes)
  if (signature.length !== 64) throw new WrongNote('the signature is wrong: it has another length')
  return { key, signature }
}
