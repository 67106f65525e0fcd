import { randomUUID } from 'node:crypto'
import type * as Aws from '@aws-sdk/client-secrets-manager'
import { LRUCache } from 'lru-cache'
import type { Config } from '../../shared/config.ts'
import { SecretGone, SecretsUnavailable, type SecretOwner, type Secrets } from './secrets-backend.ts'

/** How long a process may use a secret that it has read. */
const cachedMilliseconds = 60_000
/** Including the first one. */
const attempts = 2

/** In milliseconds. */
type Clock = Pick<Performance, 'now'>

interface Version {
  readonly name: string
  /** null for the newest one. */
  readonly version: string | null
}

/** Does not exist, or is marked for deletion. */
const gone: ReadonlySet<string> = new Set(['ResourceNotFoundException', 'InvalidRequestException'])

/** At its first use, because the package is optional. */
function lazyClient(region: string) {
  let opened: Promise<{ readonly aws: typeof Aws; readonly client: Aws.SecretsManagerClient }> | undefined
  return {
    open: () =>
      (opened ??= import('@aws-sdk/client-secrets-manager').then((aws) => ({
        aws,
        client: new aws.SecretsManagerClient({
          region,
          maxAttempts: attempts,
          requestHandler: { connectionTimeout: 3_000, requestTimeout: 5_000 },
        }),
      }))),
    close: () =>
      void opened?.then(
        ({ client }) => client.destroy(),
        () => {},
      ),
  }
}

async function readSecret(
  { open }: ReturnType<typeof lazyClient>,
  name: string,
  version?: string,
): Promise<string> {
  const { aws, client } = await open()
  const { SecretString: text } = await client
    .send(new aws.GetSecretValueCommand({ SecretId: name, VersionId: version }))
    .catch(fail)
  if (text === undefined) throw new SecretGone('the secret has no text')
  return text
}

function refuse(error: unknown): never {
  throw away(error)
}

function fail(error: unknown): never {
  throw gone.has(nameOfError(error)) ? new SecretGone('the secret is gone', { cause: error }) : away(error)
}

async function checkRights(client: ReturnType<typeof lazyClient>, prefix: string) {
  const { aws, client: opened } = await client.open()
  const filter = [{ Key: 'name' as const, Values: [prefix] }]
  const listed = await opened.send(new aws.ListSecretsCommand({ MaxResults: 1, Filters: filter })).then(
    () => 'ok',
    (error: unknown) => problemOf('ListSecrets', error),
  )
  // Without the right to read, AWS does not tell whether a secret exists. So the answer that it does not exist proves
  // the right.
  const read = await readSecret(client, `${prefix}health-check`).then(
    () => 'ok',
    (error: unknown) => (error instanceof SecretGone ? 'ok' : problemOf('GetSecretValue', causeOf(error))),
  )
  return { list_secrets: listed, get_secret: read }
}

/** A secret `<prefix><organization>/<connection>` for each. The AWS client finds its own credentials. */
export function createAwsSecrets(
  { region, prefix }: Extract<Config['secrets'], { backend: 'aws_secrets_manager' }>,
  clock: Clock = performance,
): Secrets {
  const lazy = lazyClient(region)
  const nameOf = ({ organizationId, connectionId }: SecretOwner): string =>
    `${prefix}${organizationId}/${connectionId}`
  // Concurrent reads share a request, and a failed one is not cached. A key ends with the version, so a replaced secret
  // is read again.
  const cache = new LRUCache<string, string, Version>({
    max: 1_000,
    ttl: cachedMilliseconds,
    ttlResolution: 0,
    perf: clock,
    fetchMethod: (_, __, { context: { name, version } }) => readSecret(lazy, name, version ?? undefined),
    ignoreFetchAbort: true,
  })
  const entryOf = ({ name, version }: Version): string => `${name}#${version ?? ''}`

  return {
    backend: 'aws_secrets_manager',
    async keep(owner, text) {
      const { aws, client } = await lazy.open()
      const version = randomUUID()
      const command = new aws.CreateSecretCommand({
        Name: nameOf(owner),
        SecretString: text,
        ClientRequestToken: version,
      })
      await client.send(command).catch(refuse)
      return { backend: 'aws_secrets_manager', credential_sealed: null, secret_version: version }
    },
    async replace(owner, text) {
      const { aws, client } = await lazy.open()
      const [name, version] = [nameOf(owner), randomUUID()]
      const command = new aws.PutSecretValueCommand({
        SecretId: name,
        SecretString: text,
        ClientRequestToken: version,
      })
      await client.send(command).catch(fail)
      return { backend: 'aws_secrets_manager', credential_sealed: null, secret_version: version }
    },
    async read(owner, { secret_version: version }) {
      const context = { name: nameOf(owner), version }
      return cache.forceFetch(entryOf(context), { context })
    },
    async remove(owner) {
      for (const entry of cache.keys()) if (entry.startsWith(`${nameOf(owner)}#`)) cache.delete(entry)
      const { aws, client } = await lazy.open()
      const command = new aws.DeleteSecretCommand({
        SecretId: nameOf(owner),
        ForceDeleteWithoutRecovery: true,
      })
      await client.send(command).catch((error: unknown) => {
        if (!gone.has(nameOfError(error))) throw away(error)
      })
    },
    check: () => checkRights(lazy, prefix),
    close: lazy.close,
  }
}

const nameOfError = (error: unknown): string => {
  const name = (error as { name?: unknown } | null)?.name
  return typeof name === 'string' && /^\w{1,80}$/.test(name) ? name : 'Error'
}

const causeOf = (error: unknown): unknown => (error as { cause?: unknown }).cause ?? error

const away = (error: unknown): SecretsUnavailable =>
  new SecretsUnavailable(
    `AWS Secrets Manager did not give an answer (${nameOfError(error)}): the operator finds more with \`GET /health/secrets\``,
    { cause: error },
  )

function problemOf(operation: string, error: unknown): string {
  const name = nameOfError(error)
  if (/AccessDenied|UnrecognizedClient|InvalidSignature|ExpiredToken|CredentialsProvider/.test(name))
    return `AWS refuses ${operation} (${name}): give the service this right on AWS_SECRETS_PREFIX, or check its AWS credentials`
  if (/Throttl|TooManyRequests/.test(name))
    return `AWS throttles ${operation} (${name}): raise the limit of the account, or wait`
  return `AWS did not answer ${operation} (${name}): check AWS_REGION and the way to AWS`
}
