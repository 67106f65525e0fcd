import { readFileSync } from 'node:fs'

/**
 * The JSON values of a file with one value a line. Another process may be writing the file, so a last line without its
 * line feed is left out.
 */
export const jsonLines = <T>(path: string): T[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T)
