import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import type { ServiceConnection, ToolContext, ToolResult } from '../../../src/activities/tools/executor.ts'
import { getTool, type ToolName } from '../../../src/catalog/index.ts'
import {
  integrationNamed,
  type Connectable,
  type CredentialOf,
} from '../../../src/catalog/integrations/index.ts'
import type { IntegrationDeclaration } from '../../../src/catalog/integrations/integration.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { toolCall, toolContext } from './call.ts'
import { connectionTo, runBody } from './connection.ts'

/** A service for the tests of a tool that only reads. */
export interface Service {
  readonly scripted: ScriptedServer
  /** Calls the tool's body with the credential; its output has the form that the tool declares. */
  run(credential: object, params: object, over?: Partial<ToolContext>): Promise<ToolResult>
}

/** Starts a service for all tests of a file, and passes it to `use`. */
export function useService(tool: ToolName, integration: Connectable, use: (service: Service) => void): void {
  let scripted: ScriptedServer
  beforeAll(async () => {
    scripted = await startScriptedServer()
    use({ scripted, run })
  })
  beforeEach(() => {
    scripted.arrived.length = 0
  })
  afterAll(() => scripted?.close())

  async function run(given: object, params: object, over: Partial<ToolContext> = {}) {
    const { tools, ...rest } = over
    const connection = async () => connectionWith(integration, given)
    const context = toolContext({ ...tools, connection, connectionIfAny: connection }, rest)
    const result = (await runBody(tool, toolCall(params), context)) as ToolResult
    getTool(tool)?.output.parse(result.output)
    return result
  }
}

function connectionWith(name: Connectable, given: object): ServiceConnection<Connectable> {
  const declaration = integrationNamed(name) as IntegrationDeclaration<CredentialOf<Connectable>>
  const credential = declaration.credential.parse(given)
  const settings = { trackerBaseUrl: null, google: { client: null, baseUrl: null } }
  return connectionTo(name, credential, declaration.addresses(credential, settings)[0] ?? '')
}

const endless = (response: ServerResponse): void => {
  const part = Buffer.alloc(64 * 1024, ' ')
  const more = (): void => {
    while (!response.destroyed && response.write(part));
  }
  response.on('drain', more)
  more()
}

const later = (code: string, retryAfterSeconds: number | null = null): object => ({
  code,
  retryable: true,
  retryAfterSeconds,
})
const final = (code: string): object => ({ code, retryable: false })

/** Answers that every service may give, and the error that each answer means. No message may contain `secret words`. */
export const badAnswers = (prefix: string): readonly (readonly [string, Scripted, object])[] => [
  ['401', { status: 401, body: {} }, final('connection_expired')],
  ['403', { status: 403, body: { message: 'secret words' } }, final(`${prefix}_forbidden`)],
  ['404', { status: 404, body: {} }, final(`${prefix}_not_found`)],
  ['400', { status: 400, body: 'secret words' }, final(`${prefix}_refused`)],
  ['another refusal', { status: 418, body: {} }, final(`${prefix}_refused`)],
  ['402', { status: 402, body: {} }, final(`${prefix}_no_credit`)],
  ['429', { status: 429, body: {} }, later(`${prefix}_rate_limited`)],
  [
    '429 with a pause',
    { status: 429, headers: { 'retry-after': '17' }, body: {} },
    later(`${prefix}_rate_limited`, 17),
  ],
  ['408', { status: 408, body: {} }, later(`${prefix}_unavailable`)],
  ['500', { status: 500, body: {} }, later(`${prefix}_unavailable`)],
  [
    '503 with a pause',
    { status: 503, headers: { 'retry-after': '5' }, body: {} },
    later(`${prefix}_unavailable`, 5),
  ],
  [
    'a redirect to another host',
    { status: 307, headers: { location: 'http://127.0.0.1:9/' }, body: {} },
    final(`${prefix}_redirected`),
  ],
  [
    'a page in place of JSON',
    { status: 200, headers: { 'content-type': 'text/html' }, body: '<p>secret words' },
    final(`${prefix}_bad_answer`),
  ],
  ['half of an answer', { status: 200, body: '{"results":[' }, final(`${prefix}_bad_answer`)],
  ['null', { status: 200, body: null }, final(`${prefix}_bad_answer`)],
  [
    'values of other types',
    { status: 200, body: { type: 'search', results: 'x', web: 7, choices: [{ message: 7 }], content: [7] } },
    final(`${prefix}_bad_answer`),
  ],
  ['an answer without an end', { status: 200, write: endless }, final('response_too_large')],
  ['a refusal without an end', { status: 500, write: endless }, final('response_too_large')],
  [
    'a lost connection',
    { status: 200, write: (response) => void response.destroy() },
    later(`${prefix}_unavailable`),
  ],
]
