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

export type Story = (stack: DemoStack, client: Client, tell: Teller) => Promise<void>

const print = (text: string): void => void process.stdout.write(`${text}\n`)

/**
 * Tells a story on the stack that runs on DATA_DIR, or on its own. Returns the exit code: 0 only if every check held.
 * `name` is a word for messages.
 */
export async function show(name: string, story: Story): Promise<number> {
  const interrupted = new Promise<never>((_resolve, reject) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.once(signal, () => reject(new Error(`the ${name} was interrupted by ${signal}`)))
    }
  })
  interrupted.catch(() => undefined)
  let number = 0
  const tell: Teller = {
    step: (title) => print(`\n${++number}. ${title}`),
    line: (text) => print(`   ${text}`),
  }
  let stack: DemoStack | undefined
  try {
    stack = await Promise.race([open(name, tell), interrupted])
    await Promise.race([story(stack, createClient(stack.bootstrap), tell), interrupted])
    print('\nevery check passed')
    return 0
  } catch (error) {
    process.stderr.write(`\n${(error as Error).message}\n`)
    return 1
  } finally {
    await stack?.close()
  }
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
