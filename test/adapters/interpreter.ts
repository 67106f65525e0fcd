import { execFileSync } from 'node:child_process'

/** The program itself: what stands on the path may be a launcher that takes ten times as long. */
export const python = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim()
