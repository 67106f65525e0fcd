import { createClient } from './client.ts'
import { findStack, startOwnStack, type DemoStack } from './stack.ts'
import { tellStory } from './story.ts'

/*
 * `npm run demo`: one held mail from its rule to its receipt, on the stack that runs on DATA_DIR or on its own. Exits
 * with 0 only if every check held.
 */

const print = (text: string): void => void process.stdout.write(`${text}\n`)
let number = 0
const teller = {
  step: (title: string) => print(`\n${++number}. ${title}`),
  line: (text: string) => print(`   ${text}`),
}

async function open(): Promise<DemoStack> {
  const found = await findStack(process.env)
  if (found !== null) {
    print(`using the stack that runs at ${found.bootstrap.base_url}`)
    return found
  }
  print('no stack runs here: starting one for the demo, in a temporary folder')
  const own = await startOwnStack(process.env, teller.line)
  print(`it answers at ${own.bootstrap.base_url}`)
  return own
}

async function demonstrate(): Promise<number> {
  let stack: DemoStack | undefined
  try {
    const opened = open()
    stack = await Promise.race([opened, interrupted])
    await Promise.race([tellStory(stack, createClient(stack.bootstrap), teller), interrupted])
    print('\nevery check passed')
    return 0
  } catch (error) {
    process.stderr.write(`\n${(error as Error).message}\n`)
    return 1
  } finally {
    await stack?.close()
  }
}

const interrupted = new Promise<never>((_resolve, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => reject(new Error(`the demo was interrupted by ${signal}`)))
  }
})
interrupted.catch(() => undefined)
process.exit(await demonstrate())
