import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import { OutcomeUnknown, ToolError } from './executor.ts'
import type { Mail } from './mail-message.ts'
import { definiteRefusal, failureBeforeDot, recipientsRefused, type SmtpFailure } from './smtp-errors.ts'
import type { SmtpServer } from './smtp-url.ts'

/** Milliseconds; all of them together stay below the tool's own time limit. */
export interface SmtpTimeouts {
  /** From the name lookup to the end of the greeting and TLS. */
  readonly connect: number
  /** Longest silence of the server before the final dot. */
  readonly idle: number
  /** Longest wait for the answer to the final dot. */
  readonly answer: number
}
export const defaultTimeouts: SmtpTimeouts = { connect: 20_000, idle: 60_000, answer: 60_000 }

export interface SmtpHooks {
  readonly signal: AbortSignal
  /** Awaited when everything but the final dot has left. */
  pointOfNoReturn(): Promise<void>
}

/*
 * One delivery. It is `before` the dot, then `after` it, then settled; it settles once.
 *
 *   before   Nothing can have been delivered: the server discards a message without its end. Whatever goes wrong
 *            closes the connection, and since the message stream then never ends, no dot can follow.
 *   after    Entered in the same turn that ends the stream, once `pointOfNoReturn` has committed. Only the server's
 *            own answer tells what became of the message; a lost or late one is OutcomeUnknown. Cancelling is too late.
 *
 * nodemailer writes the dot when the message stream ends and not before, so the stream is what is held back.
 */

/**
 * Sends one message, all recipients or none, over a connection of its own.
 *
 * @returns the recipients the server took
 * @throws ToolError when the message was certainly not taken; `retryable` for what may pass
 * @throws OutcomeUnknown when the dot may have left and no answer came
 * @throws what `pointOfNoReturn` throws, or the signal's reason, unchanged: then no dot has left
 */
export async function deliver(
  server: SmtpServer,
  mail: Mail,
  hooks: SmtpHooks,
  timeouts: SmtpTimeouts = defaultTimeouts,
): Promise<string[]> {
  hooks.signal.throwIfAborted()
  const connection = new SMTPConnection({
    ...server.options,
    connectionTimeout: timeouts.connect,
    greetingTimeout: timeouts.connect,
    dnsTimeout: timeouts.connect,
    socketTimeout: timeouts.idle,
    // a closed connection is closed: nothing may linger in its buffers
    socketCloseTimeout: 0,
    // the dialogue holds addresses and the message
    logger: false,
    debug: false,
    transactionLog: false,
  })
  // an error event nobody listens to would end the process
  connection.on('error', () => {})
  try {
    await open(connection, server, hooks.signal)
    const accepted = await transmit(connection, mail, hooks, timeouts)
    connection.quit()
    return accepted
  } finally {
    connection.close()
  }
}

/** Connects, greets, and logs in if the URL has a user. */
async function open(connection: SMTPConnection, server: SmtpServer, signal: AbortSignal): Promise<void> {
  await step(connection, signal, (done) => connection.connect(done))
  const { login } = server
  if (login === null) return
  if (!connection.allowsAuth) {
    throw new ToolError(
      'mail_login_failed',
      'the mail server offers no login; take the user out of SMTP_URL',
      {
        retryable: false,
      },
    )
  }
  await step(connection, signal, (done) => connection.login({ ...login }, done))
}

/** One exchange before the message: a callback, a connection that breaks, or the signal, whichever comes first. */
async function step(
  connection: SMTPConnection,
  signal: AbortSignal,
  act: (done: (error?: unknown) => void) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const unwatch = watch(connection, signal, (error) => reject(failureBeforeDot(error)), reject)
  try {
    act((error) => (error ? reject(failureBeforeDot(error)) : resolve()))
    await promise
  } finally {
    unwatch()
  }
}

async function transmit(
  connection: SMTPConnection,
  mail: Mail,
  hooks: SmtpHooks,
  timeouts: SmtpTimeouts,
): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>()
  let phase: 'before' | 'marking' | 'after' | 'settled' = 'before'
  let brokenWhileMarking: { error: unknown } | undefined
  let answerTimer: NodeJS.Timeout | undefined

  const fail = (error: unknown) => {
    if (phase === 'settled') return
    connection.close()
    // the mark is being written: the body must not end while it may still commit
    if (phase === 'marking') {
      brokenWhileMarking ??= { error }
      return
    }
    phase = 'settled'
    reject(error)
  }
  const lost = (cause: unknown) => {
    if (phase === 'after') fail(definiteRefusal(cause) ?? unknown())
    else fail(failureBeforeDot(cause, mail.recipients.length))
  }
  const finish = async () => {
    phase = 'marking'
    let stop: { error: unknown } | undefined
    try {
      await hooks.pointOfNoReturn()
      hooks.signal.throwIfAborted()
    } catch (error) {
      stop = { error }
    }
    stop ??= brokenWhileMarking
    phase = 'before'
    if (stop !== undefined) return fail(stop.error)
    phase = 'after'
    answerTimer = setTimeout(() => fail(unknown()), timeouts.answer)
    message.push(null)
  }

  // nodemailer keeps its books on the very object it is given: who was refused shows before the message is read
  const envelope: SMTPEnvelope & { accepted?: string[]; rejectedErrors?: SmtpFailure[] } = {
    from: mail.from,
    to: [...mail.recipients],
    size: mail.raw.length,
  }
  let started = false
  const message = new Readable({
    read() {
      if (started) {
        if (phase === 'before') void finish()
        return
      }
      started = true
      // fail closed: anything but a yes to every recipient is a refusal
      if (envelope.accepted?.length === mail.recipients.length) this.push(mail.raw)
      else fail(recipientsRefused(envelope.rejectedErrors ?? [], mail.recipients.length))
    },
  })

  const unwatch = watch(connection, hooks.signal, lost, (reason) => {
    if (phase === 'before') fail(reason)
  })
  try {
    connection.send(envelope, message, (error, info) => {
      if (error) return lost(error)
      if (phase !== 'after') return lost(new Error('an answer out of turn'))
      phase = 'settled'
      resolve(info.accepted)
    })
    return await promise
  } finally {
    clearTimeout(answerTimer)
    unwatch()
  }
}

/** Reports a connection that breaks and a signal that aborts. Returns what ends the watch. */
function watch(
  connection: SMTPConnection,
  signal: AbortSignal,
  lost: (cause: unknown) => void,
  cancelled: (reason: unknown) => void,
): () => void {
  // a turn later: where nodemailer closes first and then says why, the reason comes first
  const ended = () => queueMicrotask(() => lost(new Error('closed')))
  const aborted = () => cancelled(signal.reason)
  connection.on('error', lost)
  connection.on('end', ended)
  signal.addEventListener('abort', aborted)
  if (signal.aborted) aborted()
  return () => {
    connection.off('error', lost)
    connection.off('end', ended)
    signal.removeEventListener('abort', aborted)
  }
}

const unknown = () =>
  new OutcomeUnknown(
    'the mail server did not confirm the message; look in its log whether it was delivered before sending it again',
  )
