import { readFileSync } from 'node:fs'
import type { ShellKind } from '../../src/shell/types.ts'

export interface Row {
  readonly command: string
  readonly expect: ShellKind
  readonly reason: string
}

/** The rows of one file of test/shell/data. */
export function rowsOf(file: 'dev' | 'corpus' | 'held-out' | 'frozen-bash' | 'frozen-powershell'): Row[] {
  const text = readFileSync(new URL(`data/${file}.jsonl`, import.meta.url), 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const row = JSON.parse(line) as Record<string, string>
      return {
        command: row['command'] ?? row['cmd'] ?? '',
        expect: row['expect'] as ShellKind,
        reason: row['reason'] ?? row['why'] ?? '',
      }
    })
}

export const weight: Readonly<Record<ShellKind, number>> = { write: 0, script: 1, egress: 2 }
