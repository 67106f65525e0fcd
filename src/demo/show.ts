import { setTimeout as delay } from 'node:timers/promises'
import { createClient, type Client } from './client.ts'
import { findStack, startOwnStack, type DemoStack } from './stack.ts'

/* Runs a show: a story on a stack, with checks. `npm run demo` and `npm run samples` are shows. */

/** `step` prints a numbered heading. `line` prints a line below the heading. */
export interface Teller {
  step(title: string): void
  line(text: string): void
}

/** Throws if the condition is false, and the show then fails. So exit code 0 means that every check passed. */
export function mustHold(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`this did not hold: ${what}`)
}

/** The stack, the client and the output of a story. */
export interface Stage {
  readonly stack: DemoStack
  readonly client: Client
  readonly tell: Teller
  /**
   * Registers a step that cleans up `what` at the end of the show. The step also runs when the show fails or is
   * interrupted, unless the whole stack is removed anyway. The step that was registered last runs first. Call this
   * before the change is made, because a signal can come at any moment.
   */
  atEnd(what: string, step: () => Promise<unknown>): void
}

/**
 * How long an interrupted show waits, in milliseconds. `story`: for the last request of the story. `endings`: for the
 * steps that clean up.
 */
const patience = { story: 10_000, endings: 30_000 }

/**
 * A second signal within this many milliseconds is ignored. The reason is that one Ctrl-C sends two signals: one comes
 * from the terminal, and one from npm.
 */
const sameSignal = 1_000

const print = (text: string): void => void process.stdout.write(`${text}\n`)
const complain = (text: string): void => void process.stderr.write(`\n${text}\n`)

/**
 * Tells a story on the stack that runs on DATA_DIR. If no stack runs there, starts one, and prints that it is for
 * `name`. Returns the exit code, which is 0 only if every check passed.
 */
export async function show(name: string, story: (stage: Stage) => Promise<void>): Promise<number> {
  const endings: { what: string; run: () => Promise<unknown> }[] = []
  const signal = listen(() => {
    const left = endings.map(({ what }) => what)
    return left.length === 0 || stack?.isOthers !== true ? '' : `: these may stay: ${left.join('; ')}`
  })
  let number = 0
  const say = (text: string): void => void (signal.isInterrupted() || print(text))
  const tell: Teller = {
    step: (title) => say(`\n${++number}. ${title}`),
    line: (text) => say(`   ${text}`),
  }
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
  // If the show was interrupted on a stack that we started, nothing needs to be cleaned up: a signal from the terminal
  // also ends this stack, and its whole folder is removed.
  if (stack?.isOthers === true || !signal.isInterrupted()) {
    // The request in progress may still create something, and only the answer names what must be removed. So wait for
    // the answer.
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

/** Returns whether `work` ends within this time. */
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
  /** True from the first signal until `allowRequests` is called. The story must then send no requests. */
  isStopped(): boolean
  allowRequests(): void
}

/**
 * Listens for signals. The first signal interrupts the show. A second signal ends the process, and prints `left()`,
 * which names the changes that may stay in the organization.
 */
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

/**
 * Wraps the client of the story. After a signal, every request throws, so that the story creates nothing more.
 * `allowRequests` lets the steps that clean up send requests again.
 */
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
