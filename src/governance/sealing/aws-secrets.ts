import { randomUUID } from 'node:crypto'
import type * as Aws from '@aws-sdk/client-secrets-manager'
import { LRUCache } from 'lru-cache'
import type { Config } from '../../shared/config.ts'
import { SecretGone, SecretsUnavailable, type SecretOwner, type Secrets } from './secrets-backend.ts'

type AwsConfig = Extract<Config['secrets'], { backend: 'aws_secrets_manager' }>

/** A process may use a secret for this many milliseconds after it has read the secret. */
const cachedMilliseconds = 60_000
const mostCached = 1_000
const connectMilliseconds = 3_000
const answerMilliseconds = 5_000
/** A request to AWS is tried at most this many times, including the first time. */
const attempts = 2

/** The cache's clock, in milliseconds. */
type Clock = Pick<Performance, 'now'>

interface Version {
  readonly name: string
  /** Is null for the newest version. */
  readonly version: string | null
}

/** AWS errors for a secret that does not exist or is already marked for deletion. */
const gone: ReadonlySet<string> = new Set(['ResourceNotFoundException', 'InvalidRequestException'])

/** Loads the AWS client at its first use, because the package of the client is optional. */
function lazyClient(region: string) {
  let opened: Promise<{ readonly aws: typeof Aws; readonly client: Aws.SecretsManagerClient }> | undefined
  return {
    open: () =>
      (opened ??= import('@aws-sdk/client-secrets-manager').then((aws) => ({
        aws,
        client: new aws.SecretsManagerClient({
          region,
          maxAttempts: attempts,
          requestHandler: { connectionTimeout: connectMilliseconds, requestTimeout: answerMilliseconds },
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

/** Checks whether AWS allows the service to list secrets below `prefix` and to read a secret. */
async function checkRights(client: ReturnType<typeof lazyClient>, prefix: string) {
  const { aws, client: opened } = await client.open()
  const filter = [{ Key: 'name' as const, Values: [prefix] }]
  const listed = await opened.send(new aws.ListSecretsCommand({ MaxResults: 1, Filters: filter })).then(
    () => 'ok',
    (error: unknown) => problemOf('ListSecrets', error),
  )
  // If a caller has no right to read a secret, AWS does not tell whether the secret exists. So if AWS answers that the
  // secret does not exist, the caller has the right.
  const read = await readSecret(client, `${prefix}health-check`).then(
    () => 'ok',
    (error: unknown) => (error instanceof SecretGone ? 'ok' : problemOf('GetSecretValue', causeOf(error))),
  )
  return { list_secrets: listed, get_secret: read }
}

/**
 * Stores credentials in AWS Secrets Manager. Each connection has its own secret with the name
 * `<prefix><organization>/<connection>`. The AWS client finds its own credentials in the usual places: environment
 * variables, profile, role of the machine.
 */
export function createAwsSecrets({ region, prefix }: AwsConfig, clock: Clock = performance): Secrets {
  const lazy = lazyClient(region)
  const nameOf = ({ organizationId, connectionId }: SecretOwner): string =>
    `${prefix}${organizationId}/${connectionId}`
  // Concurrent reads of one secret share one request. A failed read is not cached. A cache key ends with the version,
  // so a replaced secret is read again.
  const cache = new LRUCache<string, string, Version>({
    max: mostCached,
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
