import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { cli } from './run-cli.ts'
import { startStandIn, type StandIn } from './stand-in.ts'

/* What `approve` shows, and when it shows too little to approve, against a server that answers what a test says. */

let standIn: StandIn

beforeAll(async () => {
  standIn = await startStandIn()
})
afterAll(() => standIn?.close())
beforeEach(() => {
  standIn.begin()
  standIn.answers['POST /approvals/apr_1/approve'] = () => [200, { ...approval, status: 'approved' }]
  standIn.answers['POST /approvals/apr_1/reject'] = () => [200, { ...approval, status: 'rejected' }]
})

const approval = {
  ...{
    id: 'apr_1',
    kind: 'step',
    status: 'pending',
    console_url: 'https://acme.example/console/approvals/apr_1',
  },
  ...{
    tool: 'docs_write',
    summary: null,
    destination: null,
    requester_email: 'a@b.test',
    labels: [],
    votes: [],
  },
  ...{ workflow_name: 'W', rule_name: null, expires_at: null, risk: { level: 'high', reasons: [] } },
  ...{ run_id: 'run_1', workflow_id: 'wf_1', approvals_needed: 1, detail: null },
}
const decide = (verb: string, shown: object) => {
  standIn.answers['GET /approvals/apr_1'] = () => [200, { ...approval, ...shown }]
  const env = { COUNTERSIGN_URL: standIn.url, COUNTERSIGN_API_KEY: 'csk_live_secret', NO_COLOR: '1' }
  return cli([verb, 'apr_1', '--yes'], { env })
}
const votes = () => standIn.sent.filter(({ path }) => path.startsWith('POST')).map(({ path }) => path)

test('shows what the service says, what is replaced, and by what', async () => {
  const { code, stderr } = await decide('approve', {
    params: { text: 'new', 'a\n  status': 'x' },
    preview: {
      title: 'Change a document',
      fields: [
        { name: 'text', value: 'new' },
        { name: 'document', value: 'Salaries\n2026', said_by: 'docs.example' },
        { name: 'connection', value: 'of the organization' },
      ],
      diff: { before: 'old', after: 'old and new', skipped: 7 },
    },
  })
  expect(code).toBe(0)
  expect(stderr.slice(stderr.indexOf('what would'))).toBe(`what would be sent
  text       new
  a\\u000a  status x
  document   docs.example says: Salaries
             2026
  connection of the organization
  the first 7 characters stay as they are
  replaces   old
  with       old and new
`)
})

const run = { id: 'run_1', workflow_version: 3, inputs: { to: 'x@b.test' } }
const send = { tool: 'mail_send', params: { to: '{{input.to}}' } }
const answers = {
  run: 'GET /runs/run_1',
  version: 'GET /workflows/wf_1/versions/3',
}

test('of a whole run, shows its inputs and steps', async () => {
  standIn.answers[answers.run] = () => [200, run]
  standIn.answers[answers.version] = () => [200, { definition: { steps: [{ id: 'send', ...send }] } }]
  const { code, stderr } = await decide('approve', { kind: 'run' })
  expect([code, votes()]).toEqual([0, ['POST /approvals/apr_1/approve']])
  const lines = JSON.stringify(send, null, 2).replaceAll('\n', `\n${' '.repeat(13)}`)
  expect(stderr).toContain(`what would run\n  input.to   x@b.test\n  step send  ${lines}\n`)
})

const denied = () => [403, { error: { code: 'missing_scope', message: 'no', details: [] } }] as const

test.each([
  ['parameters', { values_hidden: { reason: 'not for you' } }, {}],
  ['inputs', { kind: 'run' }, { [answers.run]: () => [200, { ...run, inputs: undefined }] as const }],
  ['steps', { kind: 'run' }, { [answers.version]: denied }],
  ['a run', { kind: 'run' }, { [answers.run]: denied }],
])('what hides %s can be rejected, and not approved', async (_what, shown, hidden) => {
  standIn.answers[answers.run] = () => [200, run]
  standIn.answers[answers.version] = () => [200, { definition: { steps: [{ id: 'send', ...send }] } }]
  Object.assign(standIn.answers, hidden)
  const { code, stderr } = await decide('approve', shown)
  expect([code, votes()]).toEqual([1, []])
  expect(stderr).toContain(`decide it at ${approval.console_url}`)
  expect((await decide('reject', shown)).code).toBe(0)
})
