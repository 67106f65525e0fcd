import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { OutcomeUnknown, ToolError } from '../../../src/activities/tools/executor.ts'
import type { Mail } from '../../../src/activities/tools/mail-message.ts'
import { parseSmtpUrl } from '../../../src/activities/tools/smtp-url.ts'
import {
  defaultTimeouts,
  deliver,
  type SmtpHooks,
  type SmtpTimeouts,
} from '../../../src/activities/tools/smtp.ts'
import { rejection } from './call.ts'
import { startScripted, type Script, type ScriptedServer } from './smtp-script.ts'

const dot = '\r\n.\r\n'
const mail: Mail = {
  messageId: '<1@countersign>',
  from: 'a@x.example',
  recipients: ['b@x.example', 'c@x.example'],
  raw: Buffer.from('Subject: s\r\n\r\nlast line'),
}

let server: ScriptedServer
afterEach(() => server.close())

/**
 * Starts the script and a delivery to it. By default the point of no return commits at once, and nothing is
 * cancelled.
 */
async function start(script: Script, hooks: Partial<SmtpHooks> = {}, timeouts: Partial<SmtpTimeouts> = {}) {
  server = await startScripted(script)
  let marks = 0
  const delivery = deliver(
    parseSmtpUrl(server.url),
    mail,
    {
      signal: new AbortController().signal,
      ...hooks,
      pointOfNoReturn: async () => {
        marks++
        await hooks.pointOfNoReturn?.()
      },
    },
    { ...defaultTimeouts, ...timeouts },
  )
  delivery.catch(() => {})
  return { delivery, marks: () => marks }
}

describe('the point of no return and the final dot', () => {
  test('the whole message is sent before the point of no return, the dot only after it', async () => {
    let atMark = ''
    const { delivery } = await start(
      {},
      {
        pointOfNoReturn: async () => {
          await server.saw('last line')
          // A dot that was sent too early would arrive before another connection has ended its whole round trip.
          await roundTrip(server)
          atMark = server.received()
        },
      },
    )
    await delivery
    expect(atMark).toContain('last line')
    expect(atMark).not.toContain(dot)
    expect(server.received()).toContain(`last line${dot}`)
  })

  test('if the point of no return fails, no dot is sent and its error is passed on', async () => {
    const superseded = new Error('superseded')
    const { delivery } = await start({}, { pointOfNoReturn: () => Promise.reject(superseded) })
    expect(await rejection(delivery)).toBe(superseded)
    expect(superseded).toEqual(new Error('superseded'))
    await roundTrip(server)
    expect(server.received()).not.toContain(dot)
  })

  test('cancelled during the point of no return: waits for it, then sends no dot', async () => {
    const cancel = new AbortController()
    const reason = new Error('cancelled')
    let committed = false
    const { delivery } = await start(
      {},
      {
        signal: cancel.signal,
        pointOfNoReturn: async () => {
          cancel.abort(reason)
          await roundTrip(server)
          committed = true
        },
      },
    )
    expect(await rejection(delivery)).toBe(reason)
    expect(committed).toBe(true)
    await roundTrip(server)
    expect(server.received()).not.toContain(dot)
  })

  test.each(['EHLO', 'MAIL', 'DATA'] as const)(
    'cancelled while the server is silent at %s',
    async (command) => {
      const cancel = new AbortController()
      const reason = new Error('cancelled')
      const { delivery, marks } = await start({ [command]: null }, { signal: cancel.signal })
      await server.saw(command)
      cancel.abort(reason)
      expect(await rejection(delivery)).toBe(reason)
      expect(marks()).toBe(0)
    },
  )

  test('cancelled before it begins: no connection', async () => {
    const reason = new Error('cancelled')
    const { delivery } = await start({}, { signal: AbortSignal.abort(reason) })
    expect(await rejection(delivery)).toBe(reason)
    expect(server.received()).toBe('')
  })

  test('cancelled after the dot: too late, the server’s answer decides', async () => {
    const cancel = new AbortController()
    const { delivery } = await start(
      {
        dot: (socket) => {
          cancel.abort(new Error('cancelled'))
          setImmediate(() => socket.write('250 taken\r\n'))
        },
      },
      { signal: cancel.signal },
    )
    expect(await delivery).toEqual(['b@x.example', 'c@x.example'])
  })

  test('the connection breaks during the point of no return: certainly not sent', async () => {
    let cut = () => {}
    const { delivery } = await start(
      {
        DATA: (socket) => {
          cut = () => socket.destroy()
          socket.write('354 go on\r\n')
        },
      },
      {
        pointOfNoReturn: async () => {
          cut()
          await roundTrip(server)
        },
      },
    )
    expect(await rejection(delivery)).toMatchObject({ code: 'mail_unreachable', retryable: true })
    expect(server.received()).not.toContain(dot)
  })
})

describe('answers to the final dot', () => {
  const cases: [string, Script['dot'], 'unknown' | 'retry' | 'final'][] = [
    ['a deferral', '451 later', 'retry'],
    ['a refusal', '554 no', 'final'],
    ['a refusal of several lines', '554-no\r\n554 really', 'final'],
    ['an answer that is not SMTP', 'hello there', 'unknown'],
    ['a request to go on', '354 more', 'unknown'],
    ['half a refusal and a lost connection', (socket) => socket.end('554 n'), 'unknown'],
    ['half an acceptance and a lost connection', (socket) => socket.end('250 ta'), 'unknown'],
    ['a lost line', (socket) => socket.destroy(), 'unknown'],
    ['a reset', (socket) => socket.resetAndDestroy(), 'unknown'],
  ]
  test.each(cases)('%s', async (_, answer, kind) => {
    const { delivery, marks } = await start({ dot: answer! })
    const error = await rejection(delivery)
    if (kind === 'unknown') expect(error).toBeInstanceOf(OutcomeUnknown)
    else expect(error).toMatchObject({ name: 'ToolError', code: 'mail_refused', retryable: kind === 'retry' })
    expect(marks()).toBe(1)
  })

  test('no answer in time', async () => {
    const { delivery } = await start({ dot: null }, {}, { answer: 20 })
    expect(await rejection(delivery)).toBeInstanceOf(OutcomeUnknown)
  })
})

describe('before the final dot', () => {
  const cases: [string, Script, string, boolean][] = [
    ['hangs up instead of greeting', { greeting: (socket) => socket.end() }, 'mail_unreachable', true],
    ['hangs up at the sender', { MAIL: (socket) => socket.destroy() }, 'mail_unreachable', true],
    ['speaks another protocol', { greeting: 'SSH-2.0-x' }, 'mail_unreachable', true],
    ['defers DATA', { DATA: '451 later' }, 'mail_refused', true],
    ['refuses DATA', { DATA: '554 no' }, 'mail_refused', false],
    ['accepts a message that it has not got', { DATA: '354 go on\r\n250 taken' }, 'mail_unreachable', true],
    ['refuses a message that it has not got', { DATA: '354 go on\r\n552 too much' }, 'mail_refused', false],
    [
      'accepts fewer bytes than the message has',
      { EHLO: '250-scripted\r\n250 SIZE 10' },
      'mail_too_large',
      false,
    ],
  ]
  test.each(cases)('%s', async (_, script, code, retryable) => {
    // The point of no return commits only after an unexpected answer has had time to arrive.
    const { delivery } = await start(script, { pointOfNoReturn: () => roundTrip(server) })
    const error = await rejection(delivery)
    expect(error).toBeInstanceOf(ToolError)
    expect(error).toMatchObject({ code, retryable })
    expect(server.received()).not.toContain(dot)
  })

  const silences: [string, Script][] = [
    ['the greeting', { greeting: null }],
    ['the sender', { MAIL: null }],
    ['DATA', { DATA: null }],
    ['fails the TLS upgrade that it offered', { EHLO: '250-scripted\r\n250 STARTTLS' }],
  ]
  test.each(silences)('no answer to %s in time', async (_, script) => {
    const { delivery, marks } = await start(script, {}, { connect: 200, idle: 200 })
    expect(await rejection(delivery)).toMatchObject({ code: 'mail_timeout', retryable: true })
    expect(marks()).toBe(0)
  })

  test('with pipelining one refused recipient still stops the message', async () => {
    let recipients = 0
    const { delivery, marks } = await start({
      EHLO: '250-scripted\r\n250 PIPELINING',
      RCPT: (socket) => socket.write(++recipients === 1 ? '250 ok\r\n' : '550 c@x.example unknown\r\n'),
    })
    const error = await rejection(delivery)
    expect(error).toMatchObject({ code: 'mail_recipients_refused', retryable: false })
    expect(deepText(error)).not.toContain('x.example')
    expect(marks()).toBe(0)
    await roundTrip(server)
    expect(server.received()).not.toContain('last line')
  })

  test('a refused login leaves no trace of the password', async () => {
    server = await startScripted({ EHLO: '250-scripted\r\n250 AUTH PLAIN', AUTH: '535 hunter2 is wrong' })
    const url = server.url.replace('//', '//user:hunter2@')
    const error = await rejection(deliver(parseSmtpUrl(url), mail, idle))
    expect(error).toMatchObject({ code: 'mail_login_failed', retryable: false })
    expect(deepText(error)).not.toContain('hunter2')
  })

  test('SMTP_URL has a user, but the server offers no login', async () => {
    server = await startScripted({})
    const url = server.url.replace('//', '//user:secret@')
    expect(await rejection(deliver(parseSmtpUrl(url), mail, idle))).toMatchObject({
      code: 'mail_login_failed',
    })
    expect(server.received()).not.toContain('MAIL')
  })
})

const idle: SmtpHooks = { signal: new AbortController().signal, pointOfNoReturn: async () => {} }

/** Makes one whole exchange on another connection. After it, everything that was sent before has arrived. */
async function roundTrip(to: ScriptedServer): Promise<void> {
  const socket = connect(Number(new URL(to.url).port), '127.0.0.1')
  await once(socket, 'data')
  socket.destroy()
}

/** All text of an error and its causes. */
function deepText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return [error.message, error.stack, JSON.stringify(error), deepText(error.cause)].join('\n')
}
