import { statfs } from 'node:fs/promises'
import type { Config } from '../../shared/config.ts'

export interface FreeSpace {
  readonly folder: 'logs' | 'data'
  readonly bytes: number
}

/**
 * The free bytes beside the logs, and beside the data folder of `npm start` with its PostgreSQL. A folder that does not
 * exist is left out: a process that is started alone writes its logs to stderr and keeps no files.
 */
export async function freeSpace({
  logFolder,
  dataFolder,
}: Pick<Config, 'logFolder' | 'dataFolder'>): Promise<readonly FreeSpace[]> {
  const free = async (folder: FreeSpace['folder'], path: string | null): Promise<readonly FreeSpace[]> => {
    if (path === null) return []
    try {
      const { bavail, bsize } = await statfs(path)
      return [{ folder, bytes: bavail * bsize }]
    } catch {
      return []
    }
  }
  return (await Promise.all([free('logs', logFolder), free('data', dataFolder)])).flat()
}
