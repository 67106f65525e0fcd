import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { writeFileAtomic } from './files.ts'
import { runFolder } from './guard.ts'

export class DataFolderInUse extends Error {
  override readonly name = 'DataFolderInUse'
}

/**
 * Locks the data folder until `release` or the end of the process: the lock is the operating system's, so a crash
 * leaves none. SQLite takes it, because Node has no function for such locks. Throws `DataFolderInUse` with the pid of
 * the holder.
 */
export function lockDataFolder(dataDir: string): { release(): void } {
  const folder = runFolder(dataDir)
  const holder = join(folder, 'supervisor.pid')
  const database = new DatabaseSync(join(folder, 'lock.db'))
  try {
    database.exec('begin exclusive')
  } catch (error) {
    database.close()
    if ((error as { errcode?: number }).errcode !== 5) throw error // 5: SQLITE_BUSY
    throw new DataFolderInUse(
      `the data folder \`${dataDir}\` is in use by process ${pidIn(holder)}: stop that one first, or set DATA_DIR to another folder`,
    )
  }
  writeFileAtomic(holder, `${process.pid}\n`, 0o600)
  return { release: () => database.close() }
}

function pidIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return 'that just started'
  }
}
