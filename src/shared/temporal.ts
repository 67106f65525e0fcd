import { Client, Connection } from '@temporalio/client'
import type { Log } from './log.ts'
import { searchAttributes } from '../contract/messages.ts'
import { readFileSync } from 'node:fs'
import type { Config } from './config.ts'

/** With their numbers (temporal.api.enums.v1.IndexedValueType). */
const types = { Keyword: 2, Int: 3, KeywordList: 7 } as const
const typeOf = (name: string): keyof typeof types =>
  name === searchAttributes.version ? 'Int' : name === searchAttributes.waitingOn ? 'KeywordList' : 'Keyword'

/** A failed request is not remembered, so the next call asks again. */
const known = new WeakMap<Client, boolean>()

/** Registers missing ones, if this client may; without them, only search fails. Throws if Temporal is unreachable. */
export async function hasSearchAttributes(client: Client, log: Log): Promise<boolean> {
  const before = known.get(client)
  if (before !== undefined) return before
  const has = await register(client, log)
  known.set(client, has)
  return has
}

async function register(client: Client, log: Log): Promise<boolean> {
  const { namespace } = client.options
  // It needs no right: here an error means that Temporal cannot be reached, below that a right is missing.
  await client.connection.workflowService.describeNamespace({ namespace })
  try {
    const { customAttributes } = await client.connection.operatorService.listSearchAttributes({ namespace })
    const names = Object.values(searchAttributes)
    const missing = names.filter((name) => customAttributes?.[name] === undefined)
    // Temporal would refuse every value of an attribute with another type, and the run could not continue.
    const wrong = names.filter(
      (name) => !missing.includes(name) && Number(customAttributes?.[name]) !== types[typeOf(name)],
    )
    if (wrong.length > 0) throw new Error(`${wrong.join(', ')}: has another type`)
    if (missing.length === 0) return true
    await client.connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(missing.map((name) => [name, types[typeOf(name)]])),
    })
    return true
  } catch (error) {
    const wanted = Object.values(searchAttributes).map((name) => `${name} (${typeOf(name)})`)
    log.warn(
      { err: error },
      `search attributes could not be registered, runs start without them: create ${wanted.join(', ')} in the namespace`,
    )
    return false
  }
}

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
