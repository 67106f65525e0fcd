import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from '@jest/globals'
import type { TestServer } from './server.ts'

/** The secret that tests put into requests. No log and no metric may show it. */
export const secret = 's3cr3t-planted-7f3a9c'

export interface PlantedLogs {
  /** Lets a server log everything to a folder. */
  readonly env: { readonly LOG_LEVEL: 'debug'; readonly LOG_DIR: string }
  /** Fails if a line of the log or a metric shows the secret, or if fewer than `least` lines were logged. */
  expectNone(server: TestServer, least: number): Promise<void>
  remove(): void
}

export function plantedLogs(): PlantedLogs {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-planted-'))
  return {
    env: { LOG_LEVEL: 'debug', LOG_DIR: folder },
    async expectNone(server, least) {
      const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'))
      const lines = files.flatMap((text) => text.split('\n'))
      expect(lines.length).toBeGreaterThan(least)
      expect(lines.filter((line) => line.includes(secret))).toEqual([])
      expect(await server.context.metrics.text()).not.toContain(secret)
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
