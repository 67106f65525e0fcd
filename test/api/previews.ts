import { afterAll, beforeAll } from '@jest/globals'
import { startTestServer, type TestServer } from './server.ts'

/* A server with a workflow that reads a report and mails it, for tests of previews. */

export type Who = keyof TestServer['identities']['users']

export const definition = {
  inputs: { to: { type: 'string', required: true }, cc: { type: 'string' } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    {
      id: 'send',
      tool: 'mail_send',
      params: { to: '{{input.to}}', subject: 'x', text: '{{steps.read.output.text}}' },
    },
  ],
}

export const outside = {
  name: 'internal data stays inside',
  verdict: 'deny',
  side_effects: ['egress'],
  labels: { any_of: ['internal'] },
  params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
}

/** The body of a preview: a definition with the input `v` and these steps. */
export const steps = (...all: object[]) => ({ definition: { inputs: { v: { type: 'string' } }, steps: all } })
export const note = { id: 'n', tool: 'memory_set', params: { key: 'k', value: '{{input.v}}' } }

export interface Previews {
  readonly server: TestServer
  /** The path of the organization. */
  readonly organization: string
  /** The saved workflow. */
  readonly id: string
  ask(who: Who, method: string, path: string, body?: unknown): ReturnType<TestServer['call']>
  /** Saves a definition. Returns the workflow's id. */
  saved(body?: object): Promise<string>
  preview(id: string, body?: object, who?: Who): ReturnType<TestServer['call']>
}

/** Starts the server for all tests of a file. */
export function usePreviews(use: (previews: Previews) => void): void {
  let server: TestServer | undefined
  beforeAll(async () => {
    const started = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:9' } })
    server = started
    const ask: Previews['ask'] = (who, method, path, body) =>
      started.call(started.identities.users[who].api_key, method, path, body)
    const saved = async (body: object = definition): Promise<string> =>
      (await ask('member', 'POST', '/workflows', { name: 'w', definition: body })).body.id
    use({
      server: started,
      organization: `/organizations/${started.identities.organization_id}`,
      id: await saved(),
      ask,
      saved,
      preview: (id, body = {}, who = 'viewer') =>
        ask(who, 'POST', `/workflows/${id}/authorization-preview`, body),
    })
  })
  afterAll(() => server?.close())
}
