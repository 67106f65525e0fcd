import type pg from 'pg'
import { createDatabase } from '../../src/db/connect.ts'
import { createEntryMacs, type EntryMacs } from '../../src/governance/audit/entry-macs.ts'
import { createKeyring } from '../../src/governance/sealing/keyring.ts'
import { createLog } from '../../src/shared/log.ts'

/** The installation's key of benchmarks that run no server. All of their processes have it. */
export const benchKey = Buffer.alloc(32, 7)

/** Makes and checks the codes of audit entries, as a process of the service does. */
export function benchMacs(pool: pg.Pool): EntryMacs {
  const log = createLog({ level: 'silent', process: 'bench', processId: 'bench', folder: null })
  return createEntryMacs(createKeyring({ db: createDatabase(pool), installationKeys: [benchKey], log }))
}
