import { readFileSync } from 'node:fs'
import { Client, Connection } from '@temporalio/client'
import type { Config } from './config.ts'

/** TLS, a client certificate, and an API key (Temporal Cloud) are optional. */
export function connectionOptions(config: Config['temporal']) {
  const { tlsCertFile, tlsKeyFile } = config
  const certificate =
    tlsCertFile === null || tlsKeyFile === null
      ? {}
      : { clientCertPair: { crt: readFileSync(tlsCertFile), key: readFileSync(tlsKeyFile) } }
  return {
    address: config.address,
    ...(config.tls ? { tls: certificate } : {}),
    ...(config.apiKey === null ? {} : { apiKey: config.apiKey }),
  }
}

/** Connects at its first use, so that a process can start before Temporal does. */
export function createTemporalClient(
  config: Config['temporal'],
): Client & { readonly connection: Connection } {
  const connection = Connection.lazy({ ...connectionOptions(config), connectTimeout: '5s' })
  return new Client({ connection, namespace: config.namespace }) as Client & {
    readonly connection: Connection
  }
}

/** `SERVING` of the protocol grpc.health.v1. */
const serving = 1

/** Asks Temporal's health service. Throws if Temporal cannot be reached. */
export function temporalCheck(connection: Connection): () => Promise<boolean> {
  return async () => {
    const { status }: { status?: number | null } = await connection.withDeadline(Date.now() + 2_000, () =>
      connection.healthService.check({}),
    )
    return status === serving
  }
}
