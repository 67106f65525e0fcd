import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { routes } from '../../src/api/routes/index.ts'
import { errorAnswer } from '../../src/api/schemas/common.ts'
import { splitKey, type Services } from '../../src/api/route.ts'
import type { Context } from '../../src/governance/context.ts'
import { createMailer } from '../../src/programs/create-context.ts'
import { bootstrapIdentities, type BootstrapIdentities } from '../../src/governance/people/bootstrap.ts'
import type { Config } from '../../src/shared/config.ts'
import { asAdmin } from '../support/postgres.ts'
import { unthrottled } from './fixtures.ts'
import { quickPasswords } from './quick-passwords.ts'
import { testContext } from '../governance/support.ts'

export const usualServices = (context: Context): Services => ({
  temporal: () => Promise.resolve(true),
  draining: new AbortController().signal,
  mail: createMailer(context.config),
  // Every domain has its record. A real name server is in test/api/people/provider.test.ts.
  resolveTxt: async () => {
    const rows = await context.db.selectFrom('sign_in_domains').select('proof').execute()
    return rows.map(({ proof }) => `countersign-domain=${proof}`)
  },
})

/** Another API process with other settings, on the database of `server`. */
export async function startBeside(server: TestServer, config: Partial<Config>): Promise<TestServer> {
  const context = { ...server.context, config: { ...server.context.config, ...config } }
  const beside = createHttpServer(createApp(context, usualServices(context)))
  const base = await listen(beside)
  return {
    ...server,
    base,
    context,
    call: (key, method, path, body, headers) => request(base, key, method, path, body, headers),
    close: () => new Promise<void>((resolve) => void beside.close(() => resolve())),
  }
}

/** A server on a new database, with the people and keys that a first start creates. */
export interface TestServer {
  readonly base: string
  readonly context: Context
  readonly identities: BootstrapIdentities
  /** The superuser's URL of the database. */
  readonly adminUrl: string
  /** Sends one request as the holder of `key`. Checks the answer against the published schema. */
  call(
    key: string | null,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer>
  close(): Promise<void>
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // Tests read answers as untyped JSON, like a caller.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any
  readonly text: string
}

export async function startTestServer(
  options: { env?: NodeJS.ProcessEnv; services?: Partial<Services> } = {},
): Promise<TestServer> {
  // Like the limits of organizations, the limit of invitations is off, unless a test is about it.
  const running = await testContext({ STRANGERS_INVITED_PER_DAY: 'unlimited', ...options.env })
  const { context } = running
  const hashAgain = quickPasswords()
  const identities = (await bootstrapIdentities(context)) as BootstrapIdentities
  await context.db.updateTable('organizations').set({ quota_overrides: unthrottled }).execute()
  // The default applies to organizations created later, such as those of people who sign up.
  await asAdmin(running.adminUrl, (client) =>
    client.query(`alter table organizations alter column quota_overrides set default '${unthrottled}'`),
  )
  const services = { ...usualServices(context), ...options.services }
  const server = createHttpServer(createApp(context, services))
  const base = await listen(server)
  return {
    base,
    context,
    identities,
    adminUrl: running.adminUrl,
    call: (key, method, path, body, headers) => request(base, key, method, path, body, headers),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      hashAgain()
      await running.close()
    },
  }
}

export async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function request(
  base: string,
  key: string | null,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined || body instanceof FormData ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: bodyOf(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
  const answer = {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : undefined,
  }
  checkForm(method, path, answer)
  return answer
}

/** The body to send. A form or a text is sent unchanged, anything else as JSON. */
export const bodyOf = (body: unknown): string | FormData =>
  typeof body === 'string' || body instanceof FormData ? body : JSON.stringify(body)

/** Every answer must match the schema in `openapi.json`; otherwise the test fails. */
function checkForm(method: string, path: string, answer: Answer): void {
  if (!answer.headers.get('x-request-id')) throw new Error(`${method} ${path}: no X-Request-Id`)
  // Answers of the sign-in library have another form.
  if (path.startsWith('/api/auth/')) return
  if (answer.status >= 400 && answer.body?.status === undefined) {
    errorAnswer.parse(answer.body)
    return
  }
  const bare = path.split('?', 1)[0]?.replace(/^\/(api\/)?v1(?=\/)|\/$/g, '') ?? ''
  const route = routes.find((candidate) => {
    const { method: itsMethod, path: template } = splitKey(candidate.key)
    return itsMethod === method && new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(bare)
  })
  if (route === undefined) throw new Error(`${method} ${path}: answered without a route`)
  const schema = route.responses[answer.status]
  if (schema === undefined) throw new Error(`${method} ${path}: status ${answer.status} is not described`)
  if (schema === null) {
    if (route.contentType === undefined && answer.text !== '')
      throw new Error(`${method} ${path}: the answer must not have a body`)
    return
  }
  const parsed = schema.safeParse(answer.body)
  if (!parsed.success) throw new Error(`${method} ${path}: ${parsed.error.message}\n${answer.text}`)
}
