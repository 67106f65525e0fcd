import { statfs } from 'node:fs/promises'
import type { Config } from '../../shared/config.ts'

export interface FreeSpace {
  readonly folder: 'logs' | 'data'
  readonly bytes: number
}

/**
 * Returns the free bytes on the disk of the log folder, and on the disk of the data folder of `npm start`, which
 * contains PostgreSQL. Leaves out a folder that is not set or does not exist. A process that is started alone has
 * neither folder: it logs to stderr and keeps no files.
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
