import { measureRules } from '../../db/queries/rules.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { RuleBody } from '../../policy/rule.ts'
import type { AnyBody } from './rule-kinds.ts'

/*
 * All rules and label rules of one organization together have size limits, because each change of the organization's
 * policy reads all of them again.
 */

/**
 * All rules together have at most this many bytes of JSON text. The bytes are counted in the text that PostgreSQL makes
 * of the stored JSON.
 */
export const mostRuleBytes = 4 * 1024 ** 2

/** All rules together have at most this many values in conditions, labels and tools. */
export const mostRuleValues = 50_000

/**
 * Throws `validation_error` if the organization's rules together are now too large. Call this function after the rule
 * was written, in the same transaction and under the organization's lock. The error then undoes the write. Even above
 * the limit, a rule can be made smaller or inactive.
 */
export async function refuseLargeRules(tx: ChainTx, before: AnyBody | null, body: AnyBody): Promise<void> {
  const [row] = await tx.send(measureRules(tx.organizationId))
  const over = overOf(row as { bytes: number; values: number })
  if (over === null || (before !== null && isNoMore(before, body))) return
  const message = `the organization's rules and label rules may hold ${over} together: shorten or delete some first`
  throw new DomainError('validation_error', message, [{ path: '', message }])
}

/**
 * Throws `validation_error` if the drafts together are too large to save. `field` is the name of the request's field
 * with the drafts.
 */
export function refuseLargeDrafts(drafts: readonly RuleBody[], field = 'rules'): void {
  let [bytes, values] = [0, 0]
  for (const draft of drafts) {
    bytes += sizeOf(draft)
    values += valuesOf(draft)
  }
  const over = overOf({ bytes, values })
  if (over === null) return
  const message = `rules may hold ${over} together: try fewer at once`
  throw new DomainError('validation_error', message, [{ path: field, message }])
}

/** Returns the exceeded limit for a message, for example `4 MiB of text`. Returns null if no limit is exceeded. */
function overOf({ bytes, values }: { bytes: number; values: number }): string | null {
  if (bytes > mostRuleBytes) return `${mostRuleBytes / 1024 ** 2} MiB of text`
  return values > mostRuleValues ? `${mostRuleValues.toLocaleString('en-US')} values, labels and tools` : null
}

/** Returns true if the change makes the rule no larger, and its status stays the same or becomes `inactive`. */
function isNoMore(before: AnyBody, body: AnyBody): boolean {
  const isAsActive = body.status === before.status || body.status === 'inactive'
  return isAsActive && sizeOf(body) <= sizeOf(before) && valuesOf(body) <= valuesOf(before)
}

function sizeOf(body: AnyBody): number {
  return Buffer.byteLength(JSON.stringify({ ...body, status: undefined }))
}

/** The number of values, labels and tools of a rule, counted in the same way as `measureRules` counts them. */
function valuesOf(body: AnyBody): number {
  const inLabels = Object.values(body.labels ?? {}).map((list) => list?.length ?? 0)
  const inParams = (body.params ?? []).map(({ value }) => (Array.isArray(value) ? value.length : 1))
  const added = 'add_labels' in body ? body.add_labels.length : 0
  return [...inLabels, ...inParams, body.tools?.length ?? 0, added].reduce((sum, count) => sum + count, 0)
}
