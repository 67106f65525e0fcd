import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'

/** A certificate and its key, as PEM texts. `cert` can include the chain of the certificate. */
export interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

/**
 * Reads a certificate and its key. Throws if a file is unreadable or not PEM, or if the key does not match the
 * certificate. The message names the variable of the file. Example: with the prefix `TEMPORAL_`, it names
 * TEMPORAL_TLS_CERT_FILE.
 */
export function readTlsKeyPair(
  files: { readonly certFile: string; readonly keyFile: string },
  prefix: '' | 'TEMPORAL_' = '',
): TlsKeyPair {
  const [certName, keyName] = [`${prefix}TLS_CERT_FILE`, `${prefix}TLS_KEY_FILE`]
  const pair = { cert: read(certName, files.certFile), key: read(keyName, files.keyFile) }
  try {
    createSecureContext(pair)
  } catch (error) {
    throw new Error(
      `${certName} \`${files.certFile}\` and ${keyName} \`${files.keyFile}\` are not a PEM certificate with its key (${(error as Error).message})`,
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
