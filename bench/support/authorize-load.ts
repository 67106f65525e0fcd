import { Agent, request } from 'node:http'

export interface Load {
  readonly ports: readonly number[]
  readonly key: string
  /** Body of the n-th request of a caller. */
  readonly body: (caller: number, n: number) => string
}

export interface Measured {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Answers by `decision`. */
  readonly verdicts: ReadonlyMap<string, number>
}

/** `callers` that each ask again as soon as they are answered. */
export async function closedLoop(load: Load, callers: number, milliseconds: number): Promise<Measured> {
  const meter = new Meter()
  const agent = new Agent({ keepAlive: true, maxSockets: callers })
  const started = performance.now()
  const caller = async (index: number): Promise<void> => {
    for (let n = 0; performance.now() - started < milliseconds; n += 1)
      await meter.time(() => ask(load, agent, index, n), performance.now())
  }
  await Promise.all(Array.from({ length: callers }, (_, index) => caller(index)))
  const seconds = (performance.now() - started) / 1000
  agent.destroy()
  return meter.measured(seconds)
}

/** Requests at a fixed rate, whether or not those before are answered; latency counts from when each was due. */
export async function openLoop(load: Load, perSecond: number, milliseconds: number): Promise<Measured> {
  const meter = new Meter()
  const agent = new Agent({ keepAlive: true, maxSockets: 512, timeout: 3_000 })
  const started = performance.now()
  const asked: Promise<void>[] = []
  let sent = 0
  while (performance.now() - started < milliseconds) {
    const due = Math.floor(((performance.now() - started) / 1000) * perSecond)
    for (; sent < due; sent += 1) {
      const dueAt = started + (sent / perSecond) * 1000
      const n = sent
      asked.push(meter.time(() => ask(load, agent, n % 64, n), dueAt))
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(asked)
  const seconds = (performance.now() - started) / 1000
  agent.destroy()
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

function ask({ ports, key, body }: Load, agent: Agent, caller: number, n: number): Promise<string> {
  const text = body(caller, n)
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port: ports[n % ports.length],
        path: '/authorize',
        method: 'POST',
        agent,
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
        },
      },
      (response) => {
        let answer = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => (answer += chunk))
        response.on('end', () => {
          if (response.statusCode !== 200) reject(new Error(`${response.statusCode}: ${answer}`))
          else resolve((JSON.parse(answer) as { decision: string }).decision)
        })
      },
    )
    sent.on('error', reject)
    sent.end(text)
  })
}
