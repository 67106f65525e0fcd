import { Pool, type Dispatcher } from 'undici'

/*
 * The load generator shares the machine with the server. So it uses undici's `dispatch`, which takes a third of the
 * time that node:http takes.
 */

export interface Load {
  readonly ports: readonly number[]
  readonly key: string
  /** Returns the body of the n-th request of a caller. */
  readonly body: (caller: number, n: number) => string
}

export interface Measured {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Maps each `decision` to the number of answers with this decision. */
  readonly verdicts: ReadonlyMap<string, number>
}

/**
 * Times in milliseconds. Requests during `warmUp` are not measured, because they open connections and agent sessions.
 */
export interface Span {
  readonly warmUp: number
  readonly milliseconds: number
}

/** Runs `callers` callers in parallel. Each caller sends its next request as soon as its last request is answered. */
export async function closedLoop(
  load: Load,
  callers: number,
  { warmUp, milliseconds }: Span,
): Promise<Measured> {
  return measure(load, callers, async (meter, ask) => {
    const began = performance.now() + warmUp
    const caller = async (index: number): Promise<void> => {
      for (let n = 0; performance.now() - began < milliseconds; n += 1) {
        const asked = performance.now()
        const call = (): Promise<string> => ask(index, n)
        await (asked < began ? call() : meter.time(call, asked))
      }
    }
    await Promise.all(Array.from({ length: callers }, (_, index) => caller(index)))
    return began
  })
}

/**
 * Sends requests at a fixed rate, whether or not earlier requests are answered. The latency of a request counts from
 * the time when it was due.
 */
export async function openLoop(
  load: Load,
  perSecond: number,
  { warmUp, milliseconds }: Span,
): Promise<Measured> {
  return measure(load, 512, async (meter, ask) => {
    const started = performance.now()
    const open = new Set<Promise<unknown>>()
    for (let sent = 0; performance.now() - started < warmUp + milliseconds;) {
      const due = Math.floor(((performance.now() - started) / 1000) * perSecond)
      for (; sent < due; sent += 1) {
        const n = sent
        const dueAt = (sent / perSecond) * 1000
        const call = (): Promise<string> => ask(n % 64, n)
        const asked = dueAt < warmUp ? call() : meter.time(call, started + dueAt)
        open.add(asked)
        asked.then(
          () => open.delete(asked),
          // A failed request stays in the set and is awaited below.
          () => undefined,
        )
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    await Promise.all(open)
    return started + warmUp
  })
}

type Ask = (caller: number, n: number) => Promise<string>

/** Measures the requests of `work`. `work` returns the time when its measurement began. */
async function measure(
  load: Load,
  connections: number,
  work: (meter: Meter, ask: Ask) => Promise<number>,
): Promise<Measured> {
  const pools = load.ports.map((port) => new Pool(`http://127.0.0.1:${port}`, { connections }))
  const meter = new Meter()
  const began = await work(meter, (caller, n) =>
    ask(pools[n % pools.length] as Pool, load, load.body(caller, n)),
  )
  const seconds = (performance.now() - began) / 1000
  await Promise.all(pools.map((pool) => pool.destroy()))
  return meter.measured(seconds)
}

class Meter {
  readonly #times: number[] = []
  readonly #verdicts = new Map<string, number>()

  async time(call: () => Promise<string>, from: number): Promise<void> {
    const verdict = await call()
    this.#times.push(performance.now() - from)
    this.#verdicts.set(verdict, (this.#verdicts.get(verdict) ?? 0) + 1)
  }

  measured(seconds: number): Measured {
    const sorted = this.#times.sort((a, b) => a - b)
    const at = (part: number): number => sorted[Math.floor(sorted.length * part)] ?? Number.NaN
    return {
      perSecond: sorted.length / seconds,
      p50: at(0.5),
      p99: at(0.99),
      verdicts: this.#verdicts,
    }
  }
}

function ask(pool: Pool, { key }: Load, body: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    let status = 0
    let answer = ''
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, code) => {
        status = code
      },
      onResponseData: (_controller, chunk) => {
        answer += chunk.toString()
      },
      onResponseEnd: () => {
        if (status !== 200) reject(new Error(`${status}: ${answer}`))
        else resolve((JSON.parse(answer) as { decision: string }).decision)
      },
      onResponseError: (_controller, error) => {
        reject(error)
      },
    }
    pool.dispatch({ path: '/authorize', method: 'POST', headers, body }, handler)
  })
}
