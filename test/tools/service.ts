import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, expect } from '@jest/globals'
import type { ServiceConnection, ToolContext, ToolResult } from '../../src/tools/kit/executor.ts'
import { getTool, type ToolName } from '../../src/tools/index.ts'
import { integrationNamed, type Connectable, type CredentialOf } from '../../src/tools/integrations.ts'
import type { IntegrationDeclaration } from '../../src/tools/kit/integration.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../support/scripted-server.ts'
import { final, later, rejection, toolCall, toolContext } from './call.ts'
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

/** Expects that a cancellation ends the call's request in flight. */
export async function expectCancelled(service: Service, credential: object, params: object): Promise<void> {
  const cancelled = new AbortController()
  const closed = Promise.withResolvers<void>()
  service.scripted.answer = () => ({
    status: 200,
    write: (response) => {
      response.on('close', closed.resolve)
      response.write('{')
      cancelled.abort(new Error('stop'))
    },
  })
  const error = await rejection(service.run(credential, params, { signal: cancelled.signal }))
  expect(error).toEqual(new Error('stop'))
  await closed.promise
}

/** The error of a call to a service that does not run. */
export async function errorOfAway(service: Service, credential: object, params: object): Promise<unknown> {
  const gone = await startScriptedServer()
  await gone.close()
  return rejection(service.run({ ...credential, base_url: gone.url }, params))
}

const endless = (response: ServerResponse): void => {
  const part = Buffer.alloc(64 * 1024, ' ')
  const more = (): void => {
    while (!response.destroyed && response.write(part));
  }
  response.on('drain', more)
  more()
}

const says = (status: number, body: unknown = {}, headers: Record<string, string> = {}): Scripted => ({
  ...{ status, headers, body },
})
const otherTypes = { type: 'search', results: 'x', web: 7, choices: [{ message: 7 }], content: [7] }

/** Answers that every service may give, and the error that each answer means. No message may contain `secret words`. */
export const badAnswers = (prefix: string): readonly (readonly [string, Scripted, object])[] => [
  ['401', says(401), final('connection_expired')],
  ['403', says(403, { message: 'secret words' }), final(`${prefix}_forbidden`)],
  ['404', says(404), final(`${prefix}_not_found`)],
  ['400', says(400, 'secret words'), final(`${prefix}_refused`)],
  ['another refusal', says(418), final(`${prefix}_refused`)],
  ['402', says(402), final(`${prefix}_no_credit`)],
  ['429', says(429), later(`${prefix}_rate_limited`)],
  ['429 with a pause', says(429, {}, { 'retry-after': '17' }), later(`${prefix}_rate_limited`, 17)],
  ['408', says(408), later(`${prefix}_unavailable`)],
  ['500', says(500), later(`${prefix}_unavailable`)],
  ['503 with a pause', says(503, {}, { 'retry-after': '5' }), later(`${prefix}_unavailable`, 5)],
  [
    'a redirect to another host',
    says(307, {}, { location: 'http://127.0.0.1:9/' }),
    final(`${prefix}_redirected`),
  ],
  ['a page', says(200, '<p>secret words', { 'content-type': 'text/html' }), final(`${prefix}_bad_answer`)],
  ['half of an answer', says(200, '{"results":['), final(`${prefix}_bad_answer`)],
  ['null', says(200, null), final(`${prefix}_bad_answer`)],
  ['values of other types', says(200, otherTypes), final(`${prefix}_bad_answer`)],
  ['an answer without an end', { status: 200, write: endless }, final('response_too_large')],
  ['a refusal without an end', { status: 500, write: endless }, final('response_too_large')],
  [
    'a lost connection',
    { status: 200, write: (response) => void response.destroy() },
    later(`${prefix}_unavailable`),
  ],
]
