import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomic } from './files.ts'
import { freePort, isFree } from './ports.ts'

const file = (dataDir: string): string => join(dataDir, 'ports.json')
const port = z.int().min(1).max(65_535)
const schema = z.object({
  postgres: port.optional(),
  temporal: port.optional(),
  temporal_ui: port.optional(),
  api: port.optional(),
  metrics: port.optional(),
  worker_metrics: port.optional(),
})
export type LastPorts = z.infer<typeof schema>

/**
 * Returns the port of the last start if this port of `host` is free, so that bookmarks stay valid. Otherwise returns
 * another port that is free on the loopback address.
 */
export async function portLike(dataDir: string, name: keyof LastPorts, host?: string): Promise<number> {
  const last = lastPorts(dataDir)[name]
  return last !== undefined && (await isFree(last, host)) ? last : freePort()
}

/** Stores the ports of started services in `DATA_DIR/ports.json`. */
export function rememberPorts(dataDir: string, ports: LastPorts): void {
  writeFileAtomic(file(dataDir), `${JSON.stringify({ ...lastPorts(dataDir), ...ports })}\n`, 0o600)
}

/** Returns the ports of the last start. Returns an empty object if the file is missing or damaged. */
export function lastPorts(dataDir: string): LastPorts {
  try {
    return schema.parse(JSON.parse(readFileSync(file(dataDir), 'utf8')))
  } catch {
    return {}
  }
}
