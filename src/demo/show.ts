import { setTimeout as delay } from 'node:timers/promises'
import { createClient, type Client } from './client.ts'
import { findStack, startOwnStack, type DemoStack } from './stack.ts'

/* A show is a story on a stack, with checks: `npm run demo` and `npm run samples`. */

export interface Teller {
  step(title: string): void
  line(text: string): void
}

/** A condition that is false fails the show, so exit code 0 means that every check passed. */
export function mustHold(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`this did not hold: ${what}`)
}

export interface Stage {
  readonly stack: DemoStack
  readonly client: Client
  readonly tell: Teller
  /**
   * Registers a step that cleans up `what` at the end of the show, also of one that fails or is interrupted, unless the
   * whole stack is removed anyway. The last one runs first. Call this before the change is made, because a signal can
   * come at any moment.
   */
  atEnd(what: string, step: () => Promise<unknown>): void
}

/** Milliseconds that an interrupted show waits: for the last request of the story, and for the steps that clean up. */
const patience = { story: 10_000, endings: 30_000 }

/** Milliseconds. One Ctrl-C sends two signals: from the terminal, and from npm. */
const sameSignal = 1_000

const print = (text: string): void => void process.stdout.write(`${text}\n`)
const complain = (text: string): void => void process.stderr.write(`\n${text}\n`)

/** Tells a story on the stack that runs on DATA_DIR, or on one that it starts. Returns the exit code. */
export async function show(name: string, story: (stage: Stage) => Promise<void>): Promise<number> {
  const endings: { what: string; run: () => Promise<unknown> }[] = []
  const signal = listen(() => {
    const left = endings.map(({ what }) => what)
    return left.length === 0 || stack?.isOthers !== true ? '' : `: these may stay: ${left.join('; ')}`
  })
  let number = 0
  const say = (text: string): void => void (signal.isInterrupted() || print(text))
  const tell: Teller = { step: (title) => say(`\n${++number}. ${title}`), line: (text) => say(`   ${text}`) }
  let code = 0
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    try {
      await work()
    } catch (error) {
      if (error !== signal.interrupted) complain((error as Error).message)
      code = 1
    }
  }
  let stack: DemoStack | undefined
  let told: Promise<void> = Promise.resolve()
  await attempt(async () => {
    stack = await Promise.race([open(name, tell), signal.promise])
    const client = stoppable(createClient(stack.bootstrap), signal)
    told = story({ stack, client, tell, atEnd: (what, run) => void endings.push({ what, run }) })
    await Promise.race([told, signal.promise])
  })
  // A stack that we started ends with the same signal, and its whole folder is removed.
  if (stack?.isOthers === true || !signal.isInterrupted()) {
    // The request in progress may still create something, and only its answer names what must be removed.
    if (signal.isInterrupted())
      await within(
        patience.story,
        told.catch(() => undefined),
      )
    signal.allowRequests()
    const cleaned = cleanUp(endings, attempt)
    if (!signal.isInterrupted()) await cleaned
    else if (!(await within(patience.endings, cleaned)))
      complain(`not removed in time: ${endings.map(({ what }) => what).join('; ')}`)
  }
  await stack?.close()
  if (code === 0) print('\nevery check passed')
  return code
}

async function cleanUp(
  endings: { what: string; run: () => Promise<unknown> }[],
  attempt: (work: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  for (let last = endings.at(-1); last !== undefined; last = endings.at(-1)) {
    await attempt(last.run)
    endings.pop()
  }
}

async function within(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  const stop = new AbortController()
  const late = delay(milliseconds, false, { signal: stop.signal }).catch(() => false)
  const inTime = await Promise.race([work.then(() => true), late])
  stop.abort()
  return inTime
}

interface Signal {
  /** Rejects with `interrupted` at the first signal. */
  readonly promise: Promise<never>
  readonly interrupted: Error
  isInterrupted(): boolean
  /** From the first signal until `allowRequests`: the story sends no requests. */
  isStopped(): boolean
  allowRequests(): void
}

/** The first signal interrupts the show. A second one ends the process and prints what may stay: `left()`. */
function listen(left: () => string): Signal {
  const interrupted = new Error('interrupted')
  let since: number | null = null
  let isStopped = false
  const promise = new Promise<never>((_resolve, reject) => {
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(name, () => {
        if (since === null) {
          since = performance.now()
          isStopped = true
          complain(`interrupted (${name}): removing what it made`)
          reject(interrupted)
        } else if (performance.now() - since > sameSignal) {
          complain(`ended (${name})${left()}`)
          process.exit(1)
        }
      })
  })
  promise.catch(() => undefined)
  return {
    promise,
    interrupted,
    isInterrupted: () => since !== null,
    isStopped: () => isStopped,
    allowRequests: () => void (isStopped = false),
  }
}

/** After a signal, every request of the story throws, so that it creates nothing more. */
function stoppable(client: Client, signal: Signal): Client {
  const open = (): void => {
    if (signal.isStopped()) throw signal.interrupted
  }
  return {
    ask: async (...request) => {
      open()
      return client.ask(...request)
    },
    get: async (...request) => {
      open()
      return client.get(...request)
    },
  }
}

async function open(name: string, tell: Teller): Promise<DemoStack> {
  const found = await findStack(process.env)
  if (found !== null) {
    print(`using the Countersign that runs at ${found.bootstrap.base_url}`)
    return found
  }
  print(`Countersign does not run here: starting one for the ${name}, in a temporary folder`)
  const own = await startOwnStack(process.env, tell.line)
  print(`it answers at ${own.bootstrap.base_url}`)
  return own
}
