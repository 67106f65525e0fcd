import type { SMTPServerSession } from 'smtp-server'
import { listenForMail, type LocalMailServer, type ReceivedMail } from '../../src/stack/mail-catcher.ts'

/** How the sink treats a mail. A test can assign `sink.behaviour` at any time. */
export type SinkBehaviour =
  | { kind: 'accept' }
  /** Accepts the mail, but answers its final dot only after `release()`. */
  | { kind: 'hold' }
  /**
   * Answers a recipient only after `release()`. Until then, the mail is being sent, and its final dot has not been
   * sent.
   */
  | { kind: 'pause' }
  /** Accepts the mail, or loses it if `taken` is false. Then closes the connection without answering the final dot. */
  | { kind: 'drop'; taken: boolean }
  /**
   * Refuses the mail at the step `at`, with the status `code`. If `only` is set, `rcpt` refuses only this recipient.
   * `data` always answers 500. It affects only connections that open later.
   */
  | { kind: 'refuse'; at: 'connect' | 'mail' | 'rcpt' | 'data' | 'dot'; code: number; only?: string }

/** A mail that the sink has accepted, as a mailbox would contain it. The sender may not have received the answer. */
export interface Delivery {
  readonly message_id: string
  readonly subject: string
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: string
}

export interface SmtpSink extends LocalMailServer {
  behaviour: SinkBehaviour
  /** The accepted mails, in the order in which the sink accepted them. */
  readonly deliveries: readonly Delivery[]
  /** The number of final dots that have arrived. The final dots of refused mails count too. */
  readonly dots: number
  /** Number of deliveries with exactly this Message-ID or subject. */
  count(idOrSubject: string): number
  /** Number of paused recipients and held mails that `release()` will answer. */
  readonly waiting: number
  /** Answers every held mail and every paused recipient. */
  release(): void
  /** Resolves once `dots` is at least `n`. */
  dotsReached(n: number): Promise<void>
}

/** Starts the sink. `onDelivery` runs before the sender gets the answer 250. */
export async function startSmtpSink(
  options: { onDelivery?: (delivery: Delivery) => Promise<void> } = {},
): Promise<SmtpSink> {
  const { onDelivery } = options
  const deliveries: Delivery[] = []
  let behaviour: SinkBehaviour = { kind: 'accept' }
  let dots = 0
  let held: (() => void)[] = []
  let waiters: { dots: number; resolve: () => void }[] = []

  const refusal = (at: string, address = ''): Error | null => {
    if (behaviour.kind !== 'refuse' || behaviour.at !== at) return null
    if (behaviour.only !== undefined && behaviour.only !== address) return null
    return Object.assign(new Error('refused by the sink'), { responseCode: behaviour.code })
  }
  const take = async (mail: ReceivedMail) => {
    const delivery = toDelivery(mail)
    deliveries.push(delivery)
    await onDelivery?.(delivery)
  }
  const receive = async (mail: ReceivedMail) => {
    const now = behaviour
    dots++
    for (const waiter of waiters.filter((entry) => entry.dots <= dots)) waiter.resolve()
    waiters = waiters.filter((entry) => entry.dots > dots)
    const refused = refusal('dot')
    if (refused) throw refused
    if (now.kind !== 'drop' || now.taken) await take(mail)
    if (now.kind === 'drop') mail.socket?.destroy()
    if (now.kind === 'hold') await new Promise<void>((resolve) => held.push(resolve))
  }

  const server = await listenForMail(receive, {
    onConnect: (session: SMTPServerSession, callback) => {
      if (refusal('data')) session.disabledCommands = ['AUTH', 'STARTTLS', 'DATA']
      callback(refusal('connect'))
    },
    onMailFrom: (_address, _session, callback) => callback(refusal('mail')),
    onRcptTo: ({ address }, _session, callback) => {
      const answer = () => callback(refusal('rcpt', address))
      if (behaviour.kind === 'pause') held.push(answer)
      else answer()
    },
  })
  return {
    ...server,
    deliveries,
    get behaviour() {
      return behaviour
    },
    set behaviour(next) {
      behaviour = next
    },
    get dots() {
      return dots
    },
    get waiting() {
      return held.length
    },
    count: (idOrSubject) =>
      deliveries.filter((mail) => mail.message_id === idOrSubject || mail.subject === idOrSubject).length,
    release: () => {
      const answers = held
      held = []
      for (const answer of answers) answer()
    },
    dotsReached: (n) =>
      dots >= n ? Promise.resolve() : new Promise((resolve) => waiters.push({ dots: n, resolve })),
  }
}

function toDelivery(mail: ReceivedMail): Delivery {
  const raw = mail.raw.toString('utf8')
  const headers = raw.slice(0, raw.indexOf('\r\n\r\n')).replaceAll(/\r\n[ \t]+/g, ' ')
  const header = (name: string) => new RegExp(`^${name}: *(.*)$`, 'im').exec(headers)?.[1]?.trim() ?? ''
  const { from, recipients } = mail
  return { message_id: header('message-id'), subject: header('subject'), from, recipients, raw }
}
