import { spawn } from 'node:child_process'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'

/* Stands for a parser that a hostile file has taken over: tries what it must not do, and writes what happened. */

const [mode, folder = '', port = ''] = process.argv.slice(2)
if (mode === 'loop') for (;;);
if (mode === 'memory') {
  const kept: Buffer[] = []
  for (;;) kept.push(Buffer.alloc(32 * 1024 * 1024, 1))
}
if (mode === 'talk') for (;;) process.stdout.write('x'.repeat(1024 * 1024))

async function tried(what: () => unknown): Promise<string> {
  try {
    await what()
    return 'done'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'failed'
  }
}

const connected = () =>
  new Promise<void>((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => {
      socket.destroy()
      resolve()
    })
    socket.once('error', reject)
  })

const answers = {
  environment: Object.keys(process.env),
  read: await tried(() => readFileSync('/etc/passwd')),
  list: await tried(() => readdirSync(folder)),
  write: await tried(() => writeFileSync(`${folder}/written`, 'x')),
  spawn: await tried(() => spawn('/bin/true')),
  worker: await tried(() => new Worker('0', { eval: true })),
  network: await tried(connected),
}
process.stdout.write(JSON.stringify(answers))
