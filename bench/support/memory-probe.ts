import { renameSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { BroadcastChannel, isMainThread } from 'node:worker_threads'
import type { HeldMemory, ThreadMemory } from './held-memory.ts'

/*
 * This file is loaded before the program (`NODE_OPTIONS=--import`) in every process and thread of a measured stack. On
 * SIGUSR2, the process fully collects its heaps and writes the remaining sizes to `$MEMORY_PROBE/PID.json`.
 */

const folder = process.env['MEMORY_PROBE']
/** The pause between two collections in milliseconds. Finalizers and other threads run in this pause. */
const pause = 50
/**
 * The main thread waits this many milliseconds for the answers of the other threads. A thread that ends in this time
 * does not answer.
 */
const patience = 2_000

const channel = new BroadcastChannel('memory-probe')

async function collected(): Promise<ThreadMemory> {
  for (let times = 0; times < 4; times += 1) {
    gc?.()
    await delay(pause)
  }
  const { heapUsed, heapTotal, external } = process.memoryUsage()
  return { used: heapUsed + external, total: heapTotal }
}

let threads: ThreadMemory[] = []

async function answer(): Promise<void> {
  threads = []
  channel.postMessage('collect')
  const main = await collected()
  await delay(patience)
  const held: HeldMemory = { main, threads, resident: process.memoryUsage.rss() }
  const path = `${folder}/${process.pid}.json`
  writeFileSync(`${path}.partial`, JSON.stringify(held))
  renameSync(`${path}.partial`, path)
}

channel.addEventListener('message', (event) => {
  const { data } = event as unknown as { data: 'collect' | ThreadMemory }
  if (data !== 'collect') threads.push(data)
  else if (!isMainThread) void collected().then((memory) => channel.postMessage(memory))
})
// The probe must not keep the measured program alive.
channel.unref()
if (isMainThread) process.on('SIGUSR2', () => void answer())
