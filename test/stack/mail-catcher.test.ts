import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { messageIdOf } from '../../src/tools/mail/message.ts'
import { run } from '../../src/tools/mail/run.ts'
import { startMailCatcher, type LocalMailServer } from '../../src/stack/mail-catcher.ts'
import { toolCall, toolContext } from '../tools/call.ts'
import { startMailSinkProcess } from '../support/mail-sink-process.ts'
import { startSmtpSink } from '../support/smtp-sink.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mail-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const params = { to: 'a@x.com', bcc: 'hidden@x.com', subject: 'Hello', text: 'Line\n.\nEnd' }
const send = (smtpUrl: string, idempotencyKey = 'key') =>
  run.mail_send.body(toolCall(params, { idempotencyKey }), toolContext({ smtpUrl }))

/** Sends these lines to a mail server, waiting for an answer to each, then cuts the connection. */
async function speakAndLeave(port: number, lines: string[]): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'data')
  for (const line of lines) {
    socket.write(`${line}\r\n`)
    await once(socket, 'data')
  }
  socket.end('Subject: half\r\n\r\nno end')
  await once(socket, 'close')
}

describe('the mail catcher', () => {
  let catcher: LocalMailServer
  let dir: string
  beforeEach(async () => {
    dir = join(folder, 'mail')
    catcher = await startMailCatcher({ dir })
  })
  afterEach(() => catcher.close())

  test('stores each mail in its own file before it answers', async () => {
    expect(catcher.url).toBe(`smtp://127.0.0.1:${catcher.port}`)
    await send(catcher.url)
    await send(catcher.url)
    const names = (await readdir(dir)).sort()
    expect(names).toHaveLength(2)
    for (const name of names) {
      expect(name).toMatch(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z-[12]\.eml$/)
      expect((await stat(join(dir, name))).mode & 0o777).toBe(0o600)
    }
    expect((await stat(dir)).mode & 0o777).toBe(0o700)
    const mail = await readFile(join(dir, names[0]!), 'utf8')
    expect(mail).toContain('X-Envelope-To: a@x.com, hidden@x.com\r\n')
    expect(mail).toContain('Subject: Hello\r\n')
    expect(mail).toContain('Line\r\n.\r\nEnd')
  })

  test('a mail that cannot be stored is not accepted', async () => {
    await rm(dir, { recursive: true })
    await expect(send(catcher.url)).rejects.toMatchObject({ code: 'mail_refused', retryable: true })
  })

  test('a mail without its final dot is not stored', async () => {
    await speakAndLeave(catcher.port, ['EHLO x', 'MAIL FROM:<a@x.com>', 'RCPT TO:<b@x.com>', 'DATA'])
    await send(catcher.url)
    expect(await readdir(dir)).toHaveLength(1)
  })

  // Only Linux has all of 127.0.0.0/8 on its own machine, so only there can this be tested.
  if (process.platform === 'linux') {
    test('listens on one loopback address and no other', async () => {
      const socket = connect(catcher.port, '127.0.0.2')
      await expect(once(socket, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    })
  }

  test('closing ends open connections', async () => {
    const socket = connect(catcher.port, '127.0.0.1')
    await once(socket, 'data')
    const closed = once(socket, 'close')
    await catcher.close()
    await closed
    await expect(send(catcher.url)).rejects.toMatchObject({ code: 'mail_unreachable' })
    catcher = await startMailCatcher({ dir, port: catcher.port })
    await send(catcher.url)
  })
})

describe('the sink for tests', () => {
  test('a held mail is accepted and answered only when released', async () => {
    const sink = await startSmtpSink()
    try {
      sink.behaviour = { kind: 'hold' }
      let answered = false
      const sent = send(sink.url).then(() => (answered = true))
      await sink.dotsReached(1)
      await speakAndLeave(sink.port, ['EHLO x'])
      expect(sink.count('Hello')).toBe(1)
      expect(answered).toBe(false)
      sink.release()
      await sent
    } finally {
      await sink.close()
    }
  })

  test('as a separate process it logs a delivery before it answers', async () => {
    const sink = await startMailSinkProcess(join(folder, 'deliveries.jsonl'))
    try {
      for (const key of ['first', 'second']) {
        await send(sink.url, key)
        expect(sink.deliveries().at(-1)?.message_id).toBe(messageIdOf(key))
      }
      expect(sink.count('Hello')).toBe(2)
    } finally {
      await sink.stop()
    }
  })
})
