import type { Selectable } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { RunStepsTable } from '../../../db/schema/runs.ts'
import type { Reading } from '../../context.ts'
import { readCursor } from '../../page.ts'

/** One read returns at most this many steps. */
const mostSteps = 200
/** The first step has the position 0. */
const noStep = -1
/** The steps of one read together have at most this many items. A step with more items is read alone. */
const mostItems = 200_000

export type Step = Selectable<RunStepsTable>

export interface StepPage {
  readonly steps: readonly Step[]
  readonly hasMore: boolean
}

/** All steps are wanted if `limit` is undefined and `cursor` is null. */
export interface StepsWanted {
  readonly limit: number | undefined
  readonly cursor: string | null
}

/** The position of the last step before them. Throws `validation_error` for a bad cursor. */
export const positionBefore = ({ cursor }: StepsWanted): number =>
  Number(readCursor(cursor, /^\d{1,9}$/) ?? noStep)

export async function* stepPages(
  { db }: Reading,
  runId: string,
  position = noStep,
): AsyncGenerator<readonly Step[]> {
  for (let after = position; ;) {
    const { steps, hasMore } = await stepPage(db, runId, after)
    if (steps.length > 0) yield steps
    if (!hasMore) return
    after = steps.at(-1)?.position ?? after
  }
}

/** Returns at least one step, unless no step is left. */
export async function stepPage(
  db: Db,
  runId: string,
  after = noStep,
  most: number = mostSteps,
): Promise<StepPage> {
  const found = await db
    .selectFrom('run_steps')
    .selectAll()
    .where('run_id', '=', runId)
    .where('position', '>', after)
    .orderBy('position')
    .limit(most + 1)
    .execute()
  const rows = found.slice(0, most)
  let items = 0
  const tooMany = rows.findIndex(({ item_count }, index) => {
    items += item_count ?? 1
    return index > 0 && items > mostItems
  })
  const steps = tooMany < 0 ? rows : rows.slice(0, tooMany)
  return { steps, hasMore: tooMany >= 0 || found.length > most }
}
