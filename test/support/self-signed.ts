import { fileURLToPath } from 'node:url'

/** The paths of a self-signed certificate and of its key. The certificate is for `localhost` and 127.0.0.1. */
export const selfSigned = {
  certFile: fileURLToPath(new URL('self-signed-cert.pem', import.meta.url)),
  keyFile: fileURLToPath(new URL('self-signed-key.pem', import.meta.url)),
}
