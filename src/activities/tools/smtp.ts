import { Readable } from 'node:stream'
import SMTPConnection, { type SMTPEnvelope } from 'nodemailer/lib/smtp-connection'
import { OutcomeUnknown, ToolError } from './executor.ts'
import type { Mail } from './mail-message.ts'
import { definiteRefusal, failureBeforeDot, recipientsRefused, type SmtpFailure } from './smtp-errors.ts'
import type { SmtpServer } from './smtp-url.ts'

/** Time limits in milliseconds. Together they stay below the tool's own time limit. */
export interface SmtpTimeouts {
  /** For connecting: from the name lookup to the end of greeting and TLS. */
  readonly connect: number
  /** Longest silence of the server before the final dot. */
  readonly idle: number
  /** Longest wait for the answer to the final dot. */
  readonly answer: number
}
export const defaultTimeouts: SmtpTimeouts = { connect: 20_000, idle: 60_000, answer: 60_000 }

export interface SmtpHooks {
  readonly signal: AbortSignal
  /** Awaited when everything except the final dot has been sent. */
  pointOfNoReturn(): Promise<void>
}

/*
 * The phases of one delivery. A delivery settles once.
 *
 * - `before`: nothing can have been delivered, because the server discards a message without its end. An error closes
 *   the connection. Then the message stream never ends, so no dot can follow.
 * - `marking`: `pointOfNoReturn` is committing.
 * - `after`: starts in the same event loop turn that ends the stream. Now only the server's answer tells the outcome. A
 *   lost or late answer is OutcomeUnknown. Cancelling has no effect any more.
 *
 * The final dot ends a message in SMTP. nodemailer writes it only when the message stream ends, so this code delays
 * that end.
 */

/**
 * Sends one message over its own connection, to all recipients or none.
 * @returns the recipients that the server accepted
 * @throws ToolError if the message was certainly not accepted; `retryable` if a later try may succeed
 * @throws OutcomeUnknown if the dot may have left and no answer came
 * @throws the error of `pointOfNoReturn` or the signal's reason, unchanged, if no dot has left
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
    // Closes at once: no data may stay in the socket's buffers.
    socketCloseTimeout: 0,
    // Logs are off because the dialogue contains addresses and the message.
    logger: false,
    debug: false,
    transactionLog: false,
  })
  // An `error` event without a listener would end the process.
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
      'the mail server offers no login; remove the user from SMTP_URL',
      {
        retryable: false,
      },
    )
  }
  await step(connection, signal, (done) => connection.login({ ...login }, done))
}

/**
 * Makes one exchange before the message. Ends when `done` is called, the connection breaks or the signal is aborted.
 */
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
    // The point of no return is being written. The body must not end while this write may still commit.
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

  // nodemailer writes its results into this envelope object. So refused recipients are known before the message is
  // read.
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
      // Fails closed unless every recipient was accepted.
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
      if (phase !== 'after') return lost(new Error('an unexpected answer'))
      phase = 'settled'
      resolve(info.accepted)
    })
    return await promise
  } finally {
    clearTimeout(answerTimer)
    unwatch()
  }
}

/** Reports a broken connection and an aborted signal. Returns a function that ends the watch. */
function watch(
  connection: SMTPConnection,
  signal: AbortSignal,
  lost: (cause: unknown) => void,
  cancelled: (reason: unknown) => void,
): () => void {
  // This is delayed by a microtask. So nodemailer's reason comes first, even if nodemailer closes the connection before
  // it gives the reason.
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
  new OutcomeUnknown('the mail server did not confirm the message; check its log before sending it again')
