import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { sendMail } from '../../../src/activities/tools/mail-send.ts'
import { toolCall, toolContext } from './call.ts'

/* The server package brings a self-signed certificate for `localhost`, which these tests use. */

let server: SMTPServer
let port: number
let secured: boolean[]
let users: unknown[]
afterEach(() => new Promise<void>((resolve) => server.close(resolve)))

async function start(options: SMTPServerOptions): Promise<void> {
  secured = []
  users = []
  server = new SMTPServer({
    authOptional: true,
    // Without this it warns on the console that its certificate is for tests.
    logger: false,
    disableReverseLookup: true,
    closeTimeout: 100,
    onAuth: (auth, _session, callback) => callback(null, { user: `${auth.username}:${auth.password}` }),
    onData: (stream, session, callback) => {
      secured.push(session.secure)
      users.push(session.user)
      stream.resume()
      stream.on('end', () => callback())
    },
    ...options,
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  port = (server.server.address() as AddressInfo).port
}

const send = async (smtpUrl: string) => {
  const context = toolContext({ smtpUrl })
  const outcome: unknown = await sendMail(
    toolCall({ to: 'a@x.com', subject: 's', text: 't' }),
    context,
  ).catch((error: unknown) => error)
  return { outcome, marks: context.marks }
}

describe('secure connections', () => {
  const kinds: [string, string, SMTPServerOptions][] = [
    ['from the start', 'smtps', { secure: true }],
    ['by STARTTLS', 'smtp', {}],
  ]
  test.each(kinds)('an untrusted certificate, %s: nothing is sent', async (_, scheme, options) => {
    await start(options)
    const { outcome, marks } = await send(`${scheme}://user:pass@127.0.0.1:${port}`)
    expect(outcome).toMatchObject({ name: 'ToolError', code: 'mail_tls_failed', retryable: false })
    expect(marks).toBe(0)
    expect(secured).toEqual([])
  })

  test.each(kinds)('accepted by setting, %s: mail and login are encrypted', async (_, scheme, options) => {
    await start(options)
    const { outcome } = await send(`${scheme}://user:p%40ss@127.0.0.1:${port}?tls.rejectUnauthorized=false`)
    expect(outcome).toHaveProperty('output')
    expect(secured).toEqual([true])
    expect(users).toEqual(['user:p@ss'])
  })

  test('TLS is required but not offered: nothing is sent', async () => {
    await start({ disabledCommands: ['STARTTLS'] })
    const { outcome, marks } = await send(`smtp://127.0.0.1:${port}?requireTLS=true`)
    expect(outcome).toMatchObject({ name: 'ToolError' })
    expect(marks).toBe(0)
    expect(secured).toEqual([])
  })

  test('a wrong password is not retryable', async () => {
    await start({ secure: true, onAuth: (_auth, _session, callback) => callback(new Error('no')) })
    const { outcome } = await send(`smtps://user:pass@127.0.0.1:${port}?tls.rejectUnauthorized=false`)
    expect(outcome).toMatchObject({ code: 'mail_login_failed', retryable: false })
  })
})
