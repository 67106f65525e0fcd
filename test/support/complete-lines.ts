import { readFileSync } from 'node:fs'

/** The lines of a file that another process may be writing. A last line without its line feed is left out. */
export const completeLines = (path: string): string[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .filter((line) => line !== '')
