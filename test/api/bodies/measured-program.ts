import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { v8Flags } from '../../../src/stack/node-child.ts'
import { programEnv } from '../../support/program-env.ts'

/** One of our programs in a separate process that reports its processor time. */
export interface MeasuredProgram {
  readonly url: string
  /** Processor time of the process so far, in milliseconds. `clean` first collects the garbage of earlier requests. */
  cpu(how?: 'cpu' | 'clean'): Promise<number>
  /** Processor time as `cpu` gives it, and resident memory in bytes. */
  usage(how?: 'cpu' | 'clean'): Promise<{ readonly cpu: number; readonly memory: number }>
  end(): Promise<void>
}

const reporter = new URL('./report-cpu.ts', import.meta.url).href
const files = {
  api: fileURLToPath(new URL('../../../src/programs/api-server.ts', import.meta.url)),
  worker: fileURLToPath(new URL('../../../src/programs/worker.ts', import.meta.url)),
}

/** Starts the program as `npm start` does, on a free port. Resolves once it is ready. */
export async function startMeasured(
  kind: keyof typeof files,
  env: NodeJS.ProcessEnv,
): Promise<MeasuredProgram> {
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
  const usage: MeasuredProgram['usage'] = async (how = 'cpu') => {
    const answer = said<{ cpu: number; memory: number }>()
    child.send(how)
    const { cpu, memory } = await answer
    return { cpu: cpu / 1_000, memory }
  }
  return {
    url: `http://127.0.0.1:${ready.port ?? 0}`,
    usage,
    cpu: async (how) => (await usage(how)).cpu,
    async end() {
      child.kill('SIGTERM')
      await exited
    },
  }
}
