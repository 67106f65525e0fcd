import type { Context } from '../../../src/context.ts'
import { objectInParts } from '../../../src/governance/json-parts.ts'
import type { RunView } from '../../../src/governance/runs/read.ts'
import { readRunFields } from '../../../src/governance/runs/run-parts.ts'

/** A run as callers see it, or null. */
export async function readRun(
  context: Context,
  organizationId: string,
  runId: string,
): Promise<RunView | null> {
  const fields = await readRunFields(context, organizationId, runId)
  return fields === null ? null : (JSON.parse(await objectInParts(fields).text()) as RunView)
}
