import { measureRules, countAddedLabels } from '../../db/queries/rules.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { AnyBody } from './rule-kinds.ts'
import { mostLabels } from '../../policy/types.ts'

/* All rules of an organization together have limits, because each change of its policy reads all of them again. */

/** Counted in the JSON text that PostgreSQL makes of the stored JSON. */
export const mostRuleBytes = 4 * 1024 ** 2

/** In conditions, labels and tools. */
export const mostRuleValues = 50_000

interface BodyChange {
  readonly before: AnyBody | null
  readonly after: AnyBody | null
}

/** After the write, under the lock: the error undoes it. Above the limit, a rule can still become smaller. */
export async function refuseLargeRules(tx: ChainTx, changes: readonly BodyChange[]): Promise<void> {
  if (changes.every(({ after }) => after === null)) return
  const [row] = await tx.send(measureRules(tx.organizationId))
  const over = overOf(row as { bytes: number; values: number })
  if (over === null || changes.every(isNoMore)) return
  throw errorAt(
    'validation_error',
    '',
    `the organization's rules and label rules may hold ${over} together: shorten or delete some first`,
  )
}

/** `field` of the request has the drafts. */
export function refuseLargeDrafts(drafts: readonly RuleBody[], field = 'rules'): void {
  let [bytes, values] = [0, 0]
  for (const draft of drafts) {
    bytes += sizeOf(draft)
    values += valuesOf(draft)
  }
  const over = overOf({ bytes, values })
  if (over === null) return
  throw errorAt('validation_error', field, `rules may hold ${over} together: try fewer at once`)
}

/** The exceeded limit in words, for example `4 MiB of text`. */
function overOf({ bytes, values }: { bytes: number; values: number }): string | null {
  if (bytes > mostRuleBytes) return `${mostRuleBytes / 1024 ** 2} MiB of text`
  return values > mostRuleValues ? `${mostRuleValues.toLocaleString('en-US')} values, labels and tools` : null
}

/** No larger, and as active as before or `inactive`. */
function isNoMore({ before, after: body }: BodyChange): boolean {
  if (before === null || body === null) return body === null
  const isAsActive = body.status === before.status || body.status === 'inactive'
  return isAsActive && sizeOf(body) <= sizeOf(before) && valuesOf(body) <= valuesOf(before)
}

function sizeOf(body: AnyBody): number {
  return Buffer.byteLength(JSON.stringify({ ...body, status: undefined }))
}

/** Counted as `measureRules` does. */
function valuesOf(body: AnyBody): number {
  const inLabels = Object.values(body.labels ?? {}).map((list) => list?.length ?? 0)
  const inParams = (body.params ?? []).map(({ value }) => (Array.isArray(value) ? value.length : 1))
  const added = 'add_labels' in body ? body.add_labels.length : 0
  return [...inLabels, ...inParams, body.tools?.length ?? 0, added].reduce((sum, count) => sum + count, 0)
}

const labelsOf = (body: AnyBody | null): readonly string[] =>
  body !== null && 'add_labels' in body && body.status === 'active' ? body.add_labels : []

/** In all active label rules together. Above the limit, a change may not add more. Call it under the chain's lock. */
export async function refuseManyLabels(
  tx: ChainTx,
  id: string,
  before: AnyBody | null,
  after: AnyBody,
): Promise<void> {
  const added = labelsOf(after)
  if (added.length === 0) return
  const [counted] = await tx.send(
    countAddedLabels({ organizationId: tx.organizationId, id, before: labelsOf(before), after: added }),
  )
  const { then, now } = counted as { then: number; now: number }
  if (now <= Math.max(mostLabels, then)) return
  throw errorAt(
    'validation_error',
    'add_labels',
    `the active label rules of the organization would add ${now} labels together, at most ${mostLabels}: delete a label rule or add fewer`,
  )
}
