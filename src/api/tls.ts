import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'

/** PEM texts. The certificate's text can include its chain. */
export interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

/**
 * Reads the files that TLS_CERT_FILE and TLS_KEY_FILE name, or the variables with `prefix` before these names. Throws
 * if a file is unreadable or not PEM, or if the two do not match.
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
