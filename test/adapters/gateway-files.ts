import { fileURLToPath } from 'node:url'
import { python } from './interpreter.ts'

/* Where the gateway and the server that misbehaves are, and what runs them. */

export const gatewayFile = fileURLToPath(new URL('../../adapters/service_mcp.py', import.meta.url))
export { python }
const oddServer = fileURLToPath(new URL('upstreams/odd-server.py', import.meta.url))

/** An entry of `mcpServers`. */
export interface ServerEntry {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly [option: string]: unknown
}

/** What the odd server is told to be; see upstreams/odd-server.py. */
export const odd = (said: object = {}, entry: object = {}): ServerEntry => ({
  command: python,
  args: ['-I', '-S', oddServer, JSON.stringify(said)],
  ...entry,
})
