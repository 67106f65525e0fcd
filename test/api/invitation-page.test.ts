import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { startTestServer, type TestServer } from './server.ts'

/* The page that an invitation mail links to: its commands, typed by a person without an account. */

const email = 'mira@larkspur.example'

let sink: SmtpSink
let server: TestServer
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'invited-'))
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url } })
})
afterAll(async () => {
  await server.close()
  await sink.close()
  rmSync(folder, { recursive: true })
})

/** The text of the newest mail to them that contains this; fails if none arrives. */
async function mailed(words: string): Promise<string> {
  const found = () =>
    sink.deliveries.findLast((mail) => mail.recipients.includes(email) && mail.subject === words)
  await until(words, async () => found() !== undefined)
  // Its long lines are quoted-printable.
  return (found()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
}

test('its commands let a person without an account join, with the token from the address', async () => {
  const { organization_id: id, users } = server.identities
  const at = `/organizations/${id}/invitations`
  const made = await server.call(users.owner.api_key, 'POST', at, { email, role: 'member' })
  expect(made.status).toBe(201)
  const [link = ''] = /http\S+\/console\/invitation\?token=\S+/.exec(await mailed('An invitation to Countersign')) ?? [] // prettier-ignore
  const { pathname, search, origin } = new URL(link)
  const page = await (await fetch(`${server.base}${pathname}${search}`)).text()
  const typed = (page.split('<pre>')[1]?.split('</pre>')[0] ?? '')
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&')
    .replaceAll(origin, server.base)
    .replaceAll('you@example.com', email)
    .replaceAll('"..."', '"a long password"')
  const [signUp = '', confirm = '', signIn = '', accept = '', ...more] = typed.split('\n\n')
  expect(more).toEqual([])
  expect(accept).toContain(made.body.token)

  const run = async (command: string) => (await promisify(execFile)('bash', ['-c', command], { cwd: folder })).stdout // prettier-ignore
  expect(JSON.parse(await run(signUp))).toMatchObject({ user: { email } })
  const [, token = ''] = /token=([\w.-]+)/.exec(await mailed('Confirm your address')) ?? []
  expect(JSON.parse(await run(confirm.replace('token=...', `token=${token}`)))).toMatchObject({
    status: true,
  })
  expect(JSON.parse(await run(signIn))).toMatchObject({ user: { email, emailVerified: true } })
  expect(JSON.parse(await run(accept))).toEqual({ organization_id: id, role: 'member' })
})

test('an invalid token is not repeated', async () => {
  const page = await (await fetch(`${server.base}/console/invitation?token=%3Cb%3E`)).text()
  expect(page).toContain('{&quot;token&quot;: &quot;TOKEN&quot;}')
})
