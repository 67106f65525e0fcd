import { setTimeout as delay } from 'node:timers/promises'

/**
 * Lower than Slack's own limits (docs.slack.dev, "Rate limits"): several hundred posts a minute in a
 * workspace, one post a second in a conversation, and 50 of the other requests a minute (tier 3). `burst` is
 * the number of requests that may be sent at once.
 */
const limits = {
  /** `chat.postMessage` for all conversations together. */
  post: { perMinute: 220, burst: 20 },
  /** `chat.postMessage` for one conversation. */
  conversation: { perMinute: 60, burst: 1 },
  open: { perMinute: 40, burst: 10 },
  history: { perMinute: 40, burst: 10 },
  update: { perMinute: 40, burst: 10 },
} as const

export class Pace {
  /** The times are by `performance.now()`. A request may go up to `burst - 1` intervals earlier. */
  readonly #due = new Map<string, number>()
  readonly #speed: number
  readonly #opened = new Map<string, { readonly conversation: string; readonly at: number }>()

  /** `speed` multiplies the limits. */
  constructor(speed: number) {
    this.#speed = speed
  }

  /** `place` is the conversation if each conversation has its own limit. */
  async take(kind: keyof typeof limits, place = ''): Promise<void> {
    const { perMinute, burst } = limits[kind]
    const interval = 60_000 / perMinute / this.#speed
    const now = performance.now()
    const key = `${kind} ${place}`
    const due = Math.max(this.#due.get(key) ?? 0, now)
    this.#due.set(key, due + interval)
    if (this.#due.size > mostKept) this.#forget(now)
    const wait = due - (burst - 1) * interval - now
    if (wait > 0) await delay(wait)
  }

  /**
   * The answer is used for only ten seconds, because Slack refuses an account that was deactivated meanwhile.
   */
  async conversation(account: string, open: () => Promise<string>): Promise<string> {
    const known = this.#opened.get(account)
    if (known !== undefined && performance.now() - known.at < openedMilliseconds) return known.conversation
    await this.take('open')
    const conversation = await open()
    if (this.#opened.size >= mostKept) this.#opened.clear()
    this.#opened.set(account, { conversation, at: performance.now() })
    return conversation
  }

  #forget(now: number): void {
    for (const [key, due] of this.#due) if (due <= now) this.#due.delete(key)
  }
}

const mostKept = 1_000
const openedMilliseconds = 10_000
