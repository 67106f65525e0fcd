import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/*
 * A passkey made of software (WebAuthn level 3), with ES256. Unlike a real authenticator, it does whatever a test asks
 * for: another origin, an older counter, no check of the person.
 */

interface Said {
  readonly origin: string
  readonly rpId: string
  readonly type: string
  readonly isVerified: boolean
  readonly counter: number
  readonly userHandle: string
  readonly attestation: Buffer
}

export class SoftwarePasskey {
  readonly id = randomBytes(32).toString('base64url')
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  readonly #origin: string
  counter = 0
  userHandle = ''

  constructor(origin: string) {
    this.#origin = origin
  }

  /** Answers the options of `POST /api/auth/passkey/begin`. */
  create(options: { challenge: string; user: { id: string } }, lies: Partial<Said> = {}) {
    this.userHandle = options.user.id
    const said = this.#said('webauthn.create', lies)
    const { x, y } = this.#keys.publicKey.export({ format: 'jwk' })
    const key = ['a5010203262001215820', hexOf(x), '225820', hexOf(y)].join('')
    const id = Buffer.from(this.id, 'base64url')
    const length = id.length.toString(16).padStart(4, '0')
    const credential = Buffer.from(['00'.repeat(16), length, id.toString('hex'), key].join(''), 'hex')
    const data = Buffer.concat([dataOf(said, 0x40), credential])
    const attestationObject = Buffer.concat([
      Buffer.from('a3', 'hex'),
      said.attestation,
      Buffer.from('6861757468446174615900', 'hex'),
      Buffer.from([data.length]),
      data,
    ]).toString('base64url')
    const clientDataJSON = this.#clientData(options.challenge, said).toString('base64url')
    return { ...this.#named(), response: { clientDataJSON, attestationObject } }
  }

  /** Answers the options of `POST /api/auth/passkey/begin-sign-in`. */
  get(options: { challenge: string }, lies: Partial<Said> = {}) {
    this.counter += 1
    const said = this.#said('webauthn.get', lies)
    const client = this.#clientData(options.challenge, said)
    const data = dataOf(said, 0)
    const signature = sign('sha256', Buffer.concat([data, sha256(client)]), this.#keys.privateKey)
    return {
      ...this.#named(),
      response: {
        clientDataJSON: client.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: signature.toString('base64url'),
        userHandle: said.userHandle,
      },
    }
  }

  #named() {
    return { id: this.id, rawId: this.id, type: 'public-key' }
  }

  #said(type: string, lies: Partial<Said>): Said {
    const { counter, userHandle } = this
    const [origin, rpId] = [this.#origin, new URL(this.#origin).hostname]
    return { origin, rpId, type, isVerified: true, counter, userHandle, attestation: none, ...lies }
  }

  #clientData(challenge: string, { type, origin }: Said): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  }
}

/** The names `fmt` and `attStmt` of the CBOR, with `none` and nothing. */
const none = Buffer.from('63666d74646e6f6e656761747453746d74a0', 'hex')
/** With a certificate: `packed`, `{"x5c": [h'00']}`. */
export const withCertificate = Buffer.from(
  '63666d74667061636b65646761747453746d74a1637835638141 00'.replace(' ', ''),
  'hex',
)

const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest()
const hexOf = (text = ''): string => Buffer.from(text, 'base64url').toString('hex')

function dataOf({ rpId, isVerified, counter }: Said, more: number): Buffer {
  const end = Buffer.alloc(5)
  end.writeUInt8(0x01 | (isVerified ? 0x04 : 0) | more)
  end.writeUInt32BE(counter, 1)
  return Buffer.concat([sha256(rpId), end])
}
