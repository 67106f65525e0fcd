import { statfs } from 'node:fs/promises'
import type { Config } from '../../shared/config.ts'

export interface FreeSpace {
  readonly folder: 'logs' | 'data'
  readonly bytes: number
}

/**
 * Returns the free bytes on the disks of two folders: the log folder, and the data folder of `npm start`, which
 * contains PostgreSQL's data. Leaves out a folder that is not set or does not exist. A process that was not started by
 * `npm start` usually has neither folder, because it logs to stderr and stores no files.
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
