import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { installPythonPackages } from '../../../support/python-packages.ts'

/** AWS on this machine, simulated by moto. */
export interface Moto {
  readonly url: string
  close(): Promise<void>
}

const requirements = fileURLToPath(new URL('requirements.txt', import.meta.url))
// The port is 0, so the program prints the port that it got.
const program = `
import sys, os, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
os._exit(0)
`

export async function startMoto(): Promise<Moto> {
  const folder = await installPythonPackages(requirements, 'moto')
  const child = spawn('python3', ['-c', program], {
    env: { ...process.env, PYTHONPATH: folder, AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const lines = createInterface({ input: child.stdout })
  const [port] = (await Promise.race([once(lines, 'line'), once(child, 'exit')])) as [unknown]
  if (!/^\d+$/.test(String(port)) || child.exitCode !== null) throw new Error('moto did not start')
  return {
    url: `http://127.0.0.1:${String(port)}`,
    async close() {
      const ended = once(child, 'exit')
      // The program ends when its standard input ends. This also happens if the test process dies.
      child.stdin.end()
      await ended
    },
  }
}
