import { fileURLToPath } from 'node:url'

/** The files with a self-signed certificate for `localhost` and 127.0.0.1, and with its key. */
export const selfSigned = {
  certFile: fileURLToPath(new URL('self-signed-cert.pem', import.meta.url)),
  keyFile: fileURLToPath(new URL('self-signed-key.pem', import.meta.url)),
}
