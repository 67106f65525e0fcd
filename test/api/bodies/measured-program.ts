import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { v8Flags } from '../../../src/stack/server.ts'
import { programEnv } from '../../support/program-env.ts'

/** One of our programs in a separate process that reports its processor time. */
export type MeasuredProgram = Awaited<ReturnType<typeof startMeasured>>

const reporter = new URL('./report-cpu.ts', import.meta.url).href
const files = {
  api: fileURLToPath(new URL('../../../src/programs/api-server.ts', import.meta.url)),
  worker: fileURLToPath(new URL('../../../src/programs/worker.ts', import.meta.url)),
}

/** Starts the program as `npm start` does, on a free port. Resolves once it is ready. */
export async function startMeasured(kind: keyof typeof files, env: NodeJS.ProcessEnv) {
  const child = fork(files[kind], [], {
    env: { ...programEnv(), ...env, PORT: '0' },
    execArgv: ['--import', reporter, ...v8Flags[kind]],
  })
  const exited = once(child, 'exit')
  const ended = exited.then(([how]) => {
    throw new Error(`the ${kind} process ended (${String(how)})`)
  })
  ended.catch(() => undefined)
  const said = async <T>(): Promise<T> => (await Promise.race([once(child, 'message'), ended]))[0] as T
  const ready = await said<{ port?: number }>()
  /**
   * Processor time of the process so far, in milliseconds, and resident memory in bytes. `clean` first collects the
   * garbage of earlier requests.
   */
  const usage = async (how: 'cpu' | 'clean' = 'cpu') => {
    const answer = said<{ cpu: number; memory: number }>()
    child.send(how)
    const { cpu, memory } = await answer
    return { cpu: cpu / 1_000, memory }
  }
  return {
    url: `http://127.0.0.1:${ready.port ?? 0}`,
    usage,
    cpu: async (how?: 'cpu' | 'clean') => (await usage(how)).cpu,
    async end(): Promise<void> {
      child.kill('SIGTERM')
      await exited
    },
  }
}
