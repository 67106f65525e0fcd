import { createClient, type Client } from './client.ts'
import { findStack, startOwnStack, type DemoStack } from './stack.ts'

/* A show on a stack: `npm run demo` and `npm run samples`. */

/** Prints a numbered heading, or a line below it. */
export interface Teller {
  step(title: string): void
  line(text: string): void
}

/** Fails the show if the condition is false: exit code 0 means that every check held. */
export function mustHold(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`this did not hold: ${what}`)
}

/** What a story works with. */
export interface Stage {
  readonly stack: DemoStack
  readonly client: Client
  readonly tell: Teller
  /** Takes a step that cleans up. It also runs when the show fails or is interrupted. Later steps run first. */
  atEnd(step: () => Promise<unknown>): void
}

const print = (text: string): void => void process.stdout.write(`${text}\n`)

/**
 * Tells a story on the stack that runs on DATA_DIR, or on its own. Returns the exit code: 0 only if every check held.
 * `name` says what the stack is for.
 */
export async function show(name: string, story: (stage: Stage) => Promise<void>): Promise<number> {
  let isInterrupted = false
  const interrupted = new Promise<never>((_resolve, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => {
        isInterrupted = true
        reject(new Error(`interrupted by ${signal}`))
      })
    }
  })
  interrupted.catch(() => undefined)
  let number = 0
  const tell: Teller = {
    step: (title) => print(`\n${++number}. ${title}`),
    line: (text) => print(`   ${text}`),
  }
  const endings: (() => Promise<unknown>)[] = []
  const atEnd: Stage['atEnd'] = (step) => void endings.push(step)
  let code = 0
  const attempt = async (work: () => Promise<unknown>): Promise<void> => {
    try {
      await work()
    } catch (error) {
      process.stderr.write(`\n${(error as Error).message}\n`)
      code = 1
    }
  }
  let stack: DemoStack | undefined
  await attempt(async () => {
    stack = await Promise.race([open(name, tell), interrupted])
    const client = createClient(stack.bootstrap)
    await Promise.race([story({ stack, client, tell, atEnd }), interrupted])
  })
  // A signal from the terminal also ends our own stack, which is removed as a whole.
  if (stack?.isOthers === true || !isInterrupted) for (const end of endings.toReversed()) await attempt(end)
  await stack?.close()
  if (code === 0) print('\nevery check passed')
  return code
}

async function open(name: string, tell: Teller): Promise<DemoStack> {
  const found = await findStack(process.env)
  if (found !== null) {
    print(`using the stack that runs at ${found.bootstrap.base_url}`)
    return found
  }
  print(`no stack runs here: starting one for the ${name}, in a temporary folder`)
  const own = await startOwnStack(process.env, tell.line)
  print(`it answers at ${own.bootstrap.base_url}`)
  return own
}
