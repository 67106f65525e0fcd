import { expect } from '@jest/globals'
import type { CrashHome } from '../support/chaos.ts'
import type { Arrived, Scripted, ScriptedServer } from '../support/scripted-server.ts'

/*
 * Calls of Google's, Jira's, Trello's and Resend's tools, with a secret in every credential, parameter and answer.
 * Some succeed, some are refused with the service's words, and some get a page in place of an answer.
 */

const list = '000000000000000000000010'
const once = { retry: { attempts: 1, backoff_seconds: 1 }, on_error: 'continue' }

/** The steps, each with the error code of its end. */
const calls: readonly (readonly [tool: string, params: object, code?: string])[] = [
  ['jira_create_issue', { project: 'OPS', summary: '{{input.text}}', description: '{{input.text}}' }],
  ['jira_comment', { issue: 'OPS-1', text: '{{input.text}}' }, 'jira_refused'],
  ['jira_search', { query: '{{input.text}}' }, 'jira_bad_answer'],
  ['trello_create_card', { board: 'board001', list: 'To do', name: '{{input.text}}' }],
  ['trello_comment', { card: 'c0000256', text: '{{input.text}}' }, 'trello_forbidden'],
  ['trello_list_cards', { board: 'board002' }, 'trello_bad_answer'],
  ['calendar_create_event', { title: '{{input.text}}', start: '2026-12-01T15:00' }, 'google_refused'],
  ['docs_create', { title: '{{input.text}}', content: '{{input.text}}' }],
  ['drive_search', { query: '{{input.text}}' }],
  ['sheets_append', { spreadsheet: 'a-sheet', rows: [['{{input.text}}']] }, 'google_forbidden'],
  ['sheets_read', { spreadsheet: 'another' }, 'google_bad_answer'],
]

type Answer = (secret: string) => Scripted
const ok =
  (body: (secret: string) => unknown): Answer =>
  (secret) => ({ status: 200, body: body(secret) })
const refused =
  (status: number): Answer =>
  (secret) => ({
    status,
    body: { message: secret, errorMessages: [secret], errors: { [secret]: secret }, error: { message: secret, errors: [{ reason: secret }] } }, // prettier-ignore
  })
const page: Answer = (secret) => ({ status: 200, headers: { 'content-type': 'text/html' }, body: `<p>${secret}` }) // prettier-ignore

const card = (secret: string) => ({
  ...{ id: list, shortLink: 'c0000256', name: secret, desc: secret, url: `https://trello.com/c/${secret}` },
  ...{ list: { name: secret }, board: { id: list, name: secret } },
})

/** By the beginning of a request; the first one counts. */
const answers: readonly (readonly [asked: string, answer: Answer])[] = [
  ['GET /rest/api/3/myself', ok(() => ({ emailAddress: 'bot@acme.example' }))],
  ['GET /rest/api/3/project/OPS', ok((secret) => ({ id: '1', key: 'OPS', name: secret }))],
  ['POST /rest/api/3/issue/OPS-1/comment', refused(400)],
  ['POST /rest/api/3/issue', ok((secret) => ({ key: 'OPS-7', self: secret }))],
  ['GET /rest/api/2/issue/OPS-1', ok((secret) => ({ key: 'OPS-1', fields: { summary: secret, status: { name: secret } } }))], // prettier-ignore
  ['GET /1/members/me', ok(() => ({ username: 'bot' }))],
  ['GET /1/boards/board001/lists', ok(() => [{ id: list, name: 'To do' }])],
  ['GET /1/cards/c0000256', ok(card)],
  ['POST /1/cards/', refused(403)],
  ['POST /1/cards', ok((secret) => ({ id: list, url: `https://trello.com/c/${secret}` }))],
  ['POST /token', ok((secret) => ({ access_token: `access-${secret}`, token_type: 'Bearer', expires_in: 3_600 }))], // prettier-ignore
  ['GET /oauth2/', ok(() => ({ email: 'ana@acme.example' }))],
  ['GET /calendar/v3/calendars/primary/events', ok(() => ({ timeZone: 'UTC' }))],
  ['POST /calendar/v3/calendars/primary/events', refused(400)],
  ['POST /upload/drive/v3/files', ok(() => ({ id: 'a-document' }))],
  ['GET /drive/v3/files', ok((secret) => ({ kind: 'drive#fileList', incompleteSearch: false, files: [{ id: 'f', name: secret }] }))], // prettier-ignore
  ['GET /v4/spreadsheets/a-sheet', refused(403)],
  ['GET /domains', ok(() => ({ data: [] }))],
  ['POST /emails', ok(() => ({ id: '4ef9a417-02e9-4d39-ad75-9611e0fcc33c' }))],
  ['GET /.well-known/', () => ({ status: 404, body: {} })],
  ['', page],
]

const answerOf = ({ method, path }: Arrived, secret: string): Scripted =>
  (answers.find(([asked]) => `${method} ${path}`.startsWith(asked))?.[1] ?? page)(secret)

const credentialsAt = (url: string, secret: string) => ({
  jira_search: { email: 'bot@acme.example', token: `jira-${secret}` },
  trello_get_card: { key: `trello-key-${secret}`, token: `trello-${secret}`, base_url: url },
  drive_search: {
    client_id: 'client',
    client_secret: `google-${secret}`,
    refresh_token: `refresh-${secret}`,
    base_url: url,
  },
  mail_send: { provider: 'resend', api_key: `resend-${secret}`, from: 'desk@acme.example', base_url: url },
})

/** Makes the calls as the member. `server` plays all services, and is the address of Jira. */
export async function callServices(home: CrashHome, server: ScriptedServer, secret: string): Promise<void> {
  const { answer } = server
  server.answer = (request) => answerOf(request, secret)
  server.arrived.splice(0)
  const made: string[] = []
  for (const [tool, credential] of Object.entries(credentialsAt(server.url, secret))) {
    const body = { credential, scope: 'organization' }
    made.push((await home.admin.good<{ id: string }>('POST', `/tools/${tool}/connect`, body)).id)
  }
  const run = async (steps: readonly object[]): Promise<string> => {
    const definition = { inputs: { text: { type: 'string' } }, steps }
    const body = { name: 'Services', description: secret, definition }
    const { id } = await home.member.good<{ id: string }>('POST', '/workflows', body)
    return home.member.execute(id, { text: secret })
  }
  const steps = calls.map(([tool, params], index) => ({ id: `s${index}`, tool, params, ...once }))
  const { steps: ended } = await home.member.untilStatus(await run(steps), 'completed')
  expect(ended.map(({ error }) => error?.code)).toEqual(calls.map(([, , code]) => code))
  expect(JSON.stringify(ended.map(({ error }) => error))).not.toContain(secret)

  const mail = { to: 'ana@acme.example', subject: '{{input.text}}', text: '{{input.text}}' }
  const runId = await run([{ id: 'send', tool: 'mail_send', params: mail }])
  await home.approver.decide(await home.approver.untilHeld(runId, 'step'), 'approve')
  await home.member.untilStatus(runId, 'completed')

  // Each service has got its credential and the text.
  const sent = server.arrived.map(({ headers, body }) => `${headers.authorization} ${body}`).join('\n')
  const base64 = Buffer.from(`bot@acme.example:jira-${secret}`).toString('base64')
  for (const part of [
    base64,
    `trello-${secret}`,
    `access-${secret}`,
    `refresh-${secret}`,
    `resend-${secret}`,
  ])
    expect(sent).toContain(part)
  expect(sent.split(secret).length).toBeGreaterThan(calls.length * 2)
  for (const id of made) await home.admin.good('DELETE', `/connections/${id}`)
  server.answer = answer
}
