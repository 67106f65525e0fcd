import { headsAfter } from '../../db/queries/audit.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Kept } from './end-problems.ts'

export interface SignedAgain {
  /** The number of chains whose kept checkpoint the present key has signed. */
  readonly signed: number
  /** The organizations whose kept checkpoint cannot be signed again, because it does not match the audit log. */
  readonly unsigned: readonly string[]
}

interface Signing {
  readonly db: Db
  readonly checkpoints: Checkpoints
}

const chainsInPage = 500

/** Signs the kept checkpoints of all chains with the present key. Throws an error of the disk or the database. */
export async function signAgain({ db, checkpoints }: Signing): Promise<SignedAgain> {
  let signed = 0
  const unsigned: string[] = []
  for (let after = ''; ;) {
    const { rows } = await headsAfter(after, chainsInPage).execute(db)
    const [error] = await checkpoints.keepChains(rows)
    if (error !== undefined) throw error
    for (const { organization_id } of rows) {
      if (isSigned(await checkpoints.kept(organization_id))) signed += 1
      else unsigned.push(organization_id)
    }
    const last = rows.at(-1)
    if (last === undefined) return { signed, unsigned }
    after = last.organization_id
  }
}

const isSigned = (kept: Kept | null): boolean => kept !== null && 'note' in kept && kept.isCurrent
