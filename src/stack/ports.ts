import { randomInt } from 'node:crypto'
import { connect, createServer } from 'node:net'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from './files.ts'

/** The system uses higher ports for outgoing connections, and can take such a port at any moment. */
const [lowest, highest] = [12_000, 32_000]

/** A port that was free on the loopback address a moment ago. Another process can still take it first. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 50; tries += 1) {
    const port = randomInt(lowest, highest)
    if (await isFree(port).catch(() => false)) return port
  }
  return portOfSystem()
}

function portOfSystem(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ port: 0, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address()
      server.close(() =>
        typeof address === 'object' && address !== null
          ? resolve(address.port)
          : reject(new Error('the system returned no port')),
      )
    })
  })
}

/** Whether nothing listens on this port of the local address `host`. */
export function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(error)
    })
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

/** Whether something accepts connections at `HOST:PORT`. */
export function listens(address: string): Promise<boolean> {
  const [host = '', port = ''] = address.split(':')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) })
    const end = (answer: boolean) => (): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(1_000, end(false)).once('connect', end(true)).once('error', end(false))
  })
}

const file = (dataDir: string): string => join(dataDir, 'ports.json')
const port = z.int().min(1).max(65_535)
const schema = z.object({
  postgres: port.optional(),
  temporal: port.optional(),
  temporal_ui: port.optional(),
  api: port.optional(),
  metrics: port.optional(),
  worker_metrics: port.optional(),
  stand_ins: port.optional(),
})
type LastPorts = z.infer<typeof schema>

/** The port of the last start if it is free, so that bookmarks stay valid; otherwise another one. */
export async function portLike(dataDir: string, name: keyof LastPorts, host?: string): Promise<number> {
  const last = lastPorts(dataDir)[name]
  return last !== undefined && (await isFree(last, host)) ? last : freePort()
}

export function rememberPorts(dataDir: string, ports: LastPorts): void {
  writeFileAtomic(file(dataDir), `${JSON.stringify({ ...lastPorts(dataDir), ...ports })}\n`, 0o600)
}

export function lastPorts(dataDir: string): LastPorts {
  try {
    return schema.parse(JSON.parse(readFileSync(file(dataDir), 'utf8')))
  } catch {
    return {}
  }
}
