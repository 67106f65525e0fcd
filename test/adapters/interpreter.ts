import { execFileSync } from 'node:child_process'

/** The path of the real interpreter. The `python3` on PATH may be a launcher that takes ten times as long. */
export const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim()
