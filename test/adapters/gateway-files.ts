import { fileURLToPath } from 'node:url'
import { gatewayFile } from './adapter-files.ts'
import { python } from './interpreter.ts'

/* Paths of the gateway and the misbehaving servers, and the program that runs them. */

export { gatewayFile, python }
const oddServer = fileURLToPath(new URL('upstreams/odd-server.py', import.meta.url))

/** An entry of `mcpServers`. */
export interface ServerEntry {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly [option: string]: unknown
}

/** The misbehaviour of the odd server; see upstreams/odd-server.py. */
export const odd = (said: object = {}, entry: object = {}): ServerEntry => ({
  command: python,
  args: ['-I', '-S', oddServer, JSON.stringify(said)],
  ...entry,
})
