import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Bytes in the heap of one thread after full garbage collections. */
export interface ThreadMemory {
  /** Reachable objects with their external buffers. */
  readonly used: number
  /** Memory that V8 has taken from the system for its heap. */
  readonly total: number
}

/** Bytes that a process holds after full garbage collections of all its heaps. */
export interface HeldMemory {
  readonly main: ThreadMemory
  /** The other threads of the process that exist when the memory is measured. */
  readonly threads: readonly ThreadMemory[]
  readonly resident: number
}

/**
 * Returns environment variables for a process that `heldMemory` will measure. With these variables, the process writes
 * its memory use to a file in `folder` each time it gets SIGUSR2.
 */
export function probed(folder: string): Record<string, string> {
  const probe = new URL('memory-probe.ts', import.meta.url)
  return { MEMORY_PROBE: folder, NODE_OPTIONS: `--expose-gc --import ${probe.href}` }
}

const patience = 60_000

/**
 * Makes a process collect its heaps, and returns the memory that is still in use. The process must have the environment
 * variables of `probed(folder)`.
 */
export async function heldMemory(folder: string, pid: number): Promise<HeldMemory> {
  const path = join(folder, `${pid}.json`)
  rmSync(path, { force: true })
  process.kill(pid, 'SIGUSR2')
  const deadline = Date.now() + patience
  while (!existsSync(path)) {
    if (Date.now() > deadline) throw new Error(`process ${pid} did not report its memory`)
    await delay(50)
  }
  return JSON.parse(readFileSync(path, 'utf8')) as HeldMemory
}
