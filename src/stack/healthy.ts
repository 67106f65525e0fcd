import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { connect } from 'node:tls'
import { recordedProcesses } from './guard.ts'
import { processorTime } from './process-identity.ts'

const answerTime = 5_000

/** Throws the API's last answer if the patience is over first, and if `ending` is aborted. */
export async function healthy(baseUrl: string, ending: AbortSignal, patience: Patience): Promise<void> {
  const url = new URL('/health', baseUrl)
  const status = url.protocol === 'https:' ? statusOverTls : statusOf
  for (;;) {
    ending.throwIfAborted()
    const answer = await status(url).catch((error: Error) => error.message)
    if (answer === 200) return
    if (patience.isOver())
      throw new Error(`the API does not become healthy: \`${url.href}\` answers ${answer}`)
    await delay(100)
  }
}

async function statusOf(url: URL): Promise<number> {
  return (await fetch(url, { signal: AbortSignal.timeout(answerTime) })).status
}

/**
 * `fetch` would refuse the certificate, which is for a public name and not for this local address. So it is not checked
 * here. The request contains no data, and only the status is read.
 */
async function statusOverTls({ hostname, port, pathname, host }: URL): Promise<number> {
  const socket = connect({ host: hostname, port: Number(port || 443), rejectUnauthorized: false })
  const signal = AbortSignal.timeout(answerTime)
  try {
    await once(socket, 'secureConnect', { signal })
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    const [head] = (await once(socket, 'data', { signal })) as [Buffer]
    return Number(head.toString('latin1').split(' ', 2)[1])
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

/*
 * How long a start may take. A loaded machine can need minutes for what a free one does in seconds. So the time does not
 * decide: a start is given up only once the processes of the data folder stand still.
 */

/** Milliseconds. */
const longestPause = 60_000
/** Waiting processes wake up at times too. So progress is this many milliseconds of processor time, or output. */
const leastWork = 2_000
/** Milliseconds, for a start that goes round in circles. */
const longestStart = 20 * 60_000
const lookEvery = 1_000

interface PatienceOptions {
  /** Characters that the processes have written so far. */
  readonly said?: () => number
  /** Milliseconds of processor time that the processes have used so far. */
  readonly worked?: () => number
  readonly clock?: () => number
}

/** When the start of a process of this data folder has to be given up. */
export class Patience {
  readonly #worked: () => number
  readonly #said: () => number
  readonly #clock: () => number
  readonly #began: number
  #looked: number
  #progress: { readonly at: number; readonly worked: number; readonly said: number }

  constructor(dataDir: string, options: PatienceOptions = {}) {
    this.#worked = options.worked ?? (() => processorTime(recordedProcesses(dataDir).map(({ pid }) => pid)))
    this.#said = options.said ?? (() => 0)
    this.#clock = options.clock ?? (() => performance.now())
    this.#began = this.#looked = this.#clock()
    this.#progress = { at: this.#began, worked: this.#worked(), said: this.#said() }
  }

  isOver(): boolean {
    const now = this.#clock()
    if (now - this.#looked >= lookEvery) this.#look(now)
    return now - this.#progress.at > longestPause || now - this.#began > longestStart
  }

  #look(at: number): void {
    this.#looked = at
    const [worked, said] = [this.#worked(), this.#said()]
    const last = this.#progress
    // A process has ended if the sum is lower than before.
    if (worked < last.worked || worked - last.worked >= leastWork || said !== last.said)
      this.#progress = { at, worked, said }
  }

  /** Resolves once the start has to be given up, or `done` is aborted. */
  async over(done: AbortSignal): Promise<void> {
    while (!done.aborted && !this.isOver())
      await delay(lookEvery, undefined, { signal: done, ref: false }).catch(() => undefined)
  }
}
