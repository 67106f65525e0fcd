import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Of one thread's heap after full collections, in bytes. */
export interface ThreadMemory {
  /** What is still reachable, with the buffers that hang on it. */
  readonly used: number
  /** What V8 has taken from the system for its heap. */
  readonly total: number
}

/** What a process holds after every one of its heaps was collected, in bytes. */
export interface HeldMemory {
  readonly main: ThreadMemory
  /** Of its other threads, those that were there. */
  readonly threads: readonly ThreadMemory[]
  readonly resident: number
}

/** The environment of processes that can be asked for what they hold; answers go to `folder`. */
export function probed(folder: string): Record<string, string> {
  const probe = new URL('memory-probe.ts', import.meta.url)
  return { MEMORY_PROBE: folder, NODE_OPTIONS: `--expose-gc --import ${probe.href}` }
}

const patience = 60_000

/** Has a process that was started with `probed(folder)` collect its heaps, and answers what is left. */
export async function heldMemory(folder: string, pid: number): Promise<HeldMemory> {
  const path = join(folder, `${pid}.json`)
  rmSync(path, { force: true })
  process.kill(pid, 'SIGUSR2')
  const deadline = Date.now() + patience
  while (!existsSync(path)) {
    if (Date.now() > deadline) throw new Error(`process ${pid} does not say what it holds`)
    await delay(50)
  }
  return JSON.parse(readFileSync(path, 'utf8')) as HeldMemory
}
