import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from '@jest/globals'
import { createDatabase, createPool } from '../../../src/db/connect.ts'
import { AuditAlarms } from '../../../src/governance/audit/alarms.ts'
import { Checkpoints, type CheckpointsOptions } from '../../../src/governance/audit/checkpoints.ts'
import { createLog } from '../../../src/shared/log.ts'
import type { TestDatabase } from '../../support/stack.ts'
import {
  appendMarked,
  createOrganization,
  key,
  macsOf,
  openCombiner,
  organizationId,
  query,
  verifier,
} from './chain-fixture.ts'
import { useChain } from './use-chain.ts'

let database: TestDatabase
let folder: string
let closers: (() => Promise<unknown>)[]

/** Gives each test of the file an empty chain and an empty folder. */
export function eachWithFolder(): void {
  useChain((made) => (database = made))
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'checkpoints-'))
    closers = []
  })
  afterEach(async () => {
    for (const close of closers) await close()
    rmSync(folder, { recursive: true, force: true })
  })
}

/** The folder with the checkpoints of all organizations. */
export const wholeFolder = (): string => folder

export { key } from './chain-fixture.ts'
const log = createLog({ level: 'silent', process: 'test', processId: 'test', folder: null })

/** A process that appends entries and keeps checkpoints. */
export function startProcess(options: Partial<CheckpointsOptions> = {}) {
  const conflicts: string[] = []
  const pool = createPool({ url: database.appUrl, max: 2 })
  const alarms = new AuditAlarms({ onAlarm: (_organization, problem) => conflicts.push(problem) })
  const db = createDatabase(pool)
  const checkpoints = new Checkpoints({
    db,
    macs: macsOf(db),
    encryptionKeys: [key],
    folder,
    log,
    alarms,
    ...options,
  })
  const { combiner, close } = openCombiner(database.appUrl, {
    onCommitted: ({ organizationId: id, head, base }) => checkpoints.note(id, head, base),
  })
  closers.push(close, () => pool.end())
  const append = async (count: number, of = organizationId): Promise<void> => {
    for (let entry = 0; entry < count; entry += 1) await combiner.join(of, appendMarked, `${entry}`)
  }
  /** Appends so many entries, and keeps a checkpoint. */
  const grow = async (count: number): Promise<void> => {
    await append(count)
    await checkpoints.keep()
  }
  return { checkpoints, conflicts, alarms, append, grow, combiner, db }
}

/** A process that has appended so many entries, and kept their checkpoint. */
export async function keptProcess(count: number) {
  const process = startProcess()
  await process.grow(count)
  return process
}

export const filesOf = (of = organizationId): string[] => readdirSync(join(folder, of))
export const fileName = (seq: number): string => `${String(seq).padStart(15, '0')}.note`
export const pathOf = (seq: number): string => join(folder, organizationId, fileName(seq))

/** Verifies the chain against the kept checkpoint that this process reads. */
export async function verifyWith(checkpoints: Checkpoints) {
  const expected = await checkpoints.expected(organizationId)
  return verifier.verify({
    databaseUrl: database.appUrl,
    appRole: 'countersign_app',
    organizationId,
    encryptionKeys: [key],
    expected,
  })
}

/** Deletes the entries after `seq` as a superuser, and sets the head back. */
export function cut(seq: number): Promise<unknown> {
  return query(database.adminUrl, async (client) => {
    await client.query('alter table audit_events disable trigger all')
    const chain = [organizationId, seq]
    await client.query('delete from audit_events where organization_id = $1 and seq > $2', chain)
    await client.query(
      `update chain_head set (seq, hash, mac) =
         (select seq, hash, mac from audit_events where organization_id = $1 and seq = $2)
       where organization_id = $1`,
      chain,
    )
    await client.query('alter table audit_events enable trigger all')
  })
}

/** Runs statements as a superuser. */
export const asSuperuser: (work: Parameters<typeof query<void>>[1]) => Promise<void> = (work) =>
  query(database.adminUrl, work)

export const addOrganization = (id: string): Promise<unknown> => createOrganization(database.adminUrl, id)
export const folderOf = (of = organizationId): string => join(folder, of)
