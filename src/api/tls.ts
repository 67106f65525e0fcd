import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'

/** PEM texts. The certificate's text can include its chain. */
export interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

/** Reads TLS_CERT_FILE and TLS_KEY_FILE. Throws if a file is unreadable or not PEM, or if the two do not match. */
export function readTlsKeyPair(files: { readonly certFile: string; readonly keyFile: string }): TlsKeyPair {
  const pair = { cert: read('TLS_CERT_FILE', files.certFile), key: read('TLS_KEY_FILE', files.keyFile) }
  try {
    createSecureContext(pair)
  } catch (error) {
    throw new Error(
      `TLS_CERT_FILE \`${files.certFile}\` and TLS_KEY_FILE \`${files.keyFile}\` are not a PEM certificate with its key (${(error as Error).message})`,
      { cause: error },
    )
  }
  return pair
}

function read(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${name} \`${path}\` cannot be read (${(error as NodeJS.ErrnoException).code})`, {
      cause: error,
    })
  }
}
