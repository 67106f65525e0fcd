import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { readConfig } from '../../src/shared/config.ts'
import { freePort } from '../../src/stack/ports.ts'
import { startStandIns, type StandIns } from '../../src/stack/stand-ins/server.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'
import { inBrowser } from '../support/chromium.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { signedInAt, violations } from './support.ts'

/* In development, one button connects a stand-in for GitHub or Slack. */

let home: PagesHome
let standIns: StandIns
const folder = '/srv/countersign/mail'
beforeAll(async () => {
  standIns = await startStandIns({ dataDir: temporaryFolder(), port: await freePort() })
  home = await startPages({
    STAND_INS_URL: standIns.url,
    CONNECTION_HOSTS: 'git.internal',
    MAIL_FOLDER: folder,
  })
})
afterAll(async () => {
  await home?.server.close()
  await standIns?.close()
})

const words = 'Use a stand-in for'
const noted = '(a stand-in on this machine, for development only)'

test('pages that send a mail say in which folder it lies', async () => {
  expect(plain(await home.main('/console/people', 'owner'))).toContain(`each mail is a file in ${folder}`)
  const sent = await home.post('/console/reset-password', { email: 'nobody@larkspur.example' }, {}, '')
  expect(plain(await sent.text())).toContain(folder)
})

test('only admins are offered a stand-in', async () => {
  for (const path of ['/console/', '/console/connections/new']) {
    expect([path, plain(await home.main(path, 'owner')).includes(`${words} GitHub (development only)`)]).toEqual([path, true]) // prettier-ignore
    expect([path, plain(await home.main(path, 'member')).includes(words)]).toEqual([path, false])
  }
  const token = await home.tokenOf('/console/connections/new', 'member')
  const fields = { token, action: 'stand-in', service: 'github' }
  const answer = await home.post('/console/connections/new', fields, {}, await home.cookieOf('member'))
  expect(answer.status).toBe(403)
})

test('where the organization has a connection, none is offered, and an older page replaces nothing', async () => {
  const path = '/console/connections/new'
  const cookie = await home.cookieOf('owner')
  const connect = async () =>
    home.post(path, { token: await home.tokenOf(path, 'owner'), action: 'stand-in', service: 'github' }, {}, cookie) // prettier-ignore
  expect((await connect()).status).toBe(303)
  for (const each of ['/console/', path]) {
    const shown = plain(await home.main(each, 'owner'))
    expect([shown.includes(`${words} GitHub`), shown.includes(`${words} Slack`)]).toEqual([false, true])
  }
  await home.server.context.pool.query(`update connections set destination = 'api.github.com'`)
  const refused = await connect()
  expect([refused.status, plain(await refused.text())]).toEqual([422, expect.stringContaining('revoke it first')]) // prettier-ignore
  await revokeAll()
})

const revokeAll = async () => {
  for (const { id } of (await home.call('owner', 'GET', '/connections')).body.data)
    await home.call('owner', 'DELETE', `/connections/${id}`)
}

describe.each([true, false])('with JavaScript: %s', (javaScriptEnabled) => {
  inBrowser.each(['GitHub', 'Slack'])(
    'the first steps connect one for %s, and each page says so',
    async (title) => {
      const phone = { viewport: { width: 390, height: 844 }, javaScriptEnabled }
      const { page } = await signedInAt(home.server, 'owner', '/console/connections/new', phone)
      await page.getByRole('button', { name: `${words} ${title}` }).click()
      await page.getByText(`This is a stand-in for ${title}, for development only`).waitFor()
      expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(
        `Stand-in for ${title} (development only)`,
      )
      expect(await page.locator('main').innerText()).toContain(noted)
      const link = page.getByRole('link', { name: 'See what was posted to it' })
      expect(await link.getAttribute('href')).toBe(`${standIns.url}/`)
      if (javaScriptEnabled) expect(await violations(page)).toEqual([])
      const tool = title === 'GitHub' ? 'github_create_issue' : 'slack_send_message'
      for (const path of ['/console/connections', `/console/tools/${tool}`])
        expect([path, plain(await home.main(path, 'owner')).includes(noted)]).toEqual([path, true])
      await revokeAll()
    },
  )
})

describe('outside of development', () => {
  const least = {
    DATABASE_URL: 'postgres://127.0.0.1/c',
    DATA_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
    SESSION_SECRET_KEY: Buffer.alloc(32, 2).toString('base64'),
    STAND_INS_URL: 'http://127.0.0.1:18090',
    MAIL_FOLDER: folder,
    PUBLIC_URL: 'https://countersign.example.com',
    TRUSTED_PROXY_HOSTS: '127.0.0.1',
    AUDIT_CHECKPOINT_DIR: '/checkpoints',
    SMTP_URL: 'smtp://mail.example.com',
  }
  test.each(['production', 'staging'])('%s has none, whatever the environment says', (env) => {
    const { connections, tools } = readConfig({ ...least, APP_ENV: env })
    expect(tools.mailFolder).toBeNull()
    expect(connections).toMatchObject({ standIns: null, hosts: [] })
    expect(readConfig({ ...least, APP_ENV: 'development' }).connections.standIns).toBe(least.STAND_INS_URL)
  })

  test('a server without one offers none', async () => {
    const other = await startPages()
    try {
      expect(plain(await other.main('/console/', 'owner'))).not.toContain(words)
      const token = await other.tokenOf('/console/connections/new', 'owner')
      const fields = { token, action: 'stand-in', service: 'github' }
      const answer = await other.post('/console/connections/new', fields, {}, await other.cookieOf('owner'))
      expect(answer.status).toBe(422)
      expect((await other.call('owner', 'GET', '/connections')).body.data).toEqual([])
    } finally {
      await other.server.close()
    }
  })
})
