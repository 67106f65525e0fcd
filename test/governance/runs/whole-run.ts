import type { Context } from '../../../src/governance/context.ts'
import { objectInParts } from '../../../src/shared/json-parts.ts'
import type { RunView } from '../../../src/governance/runs/read/read.ts'
import { readRunFields } from '../../../src/governance/runs/read/run-parts.ts'

/** Reads a run in the API’s form, as an owner sees it. Returns null if there is none. */
export async function readRun(
  context: Context,
  organizationId: string,
  runId: string,
): Promise<RunView | null> {
  const fields = await readRunFields(context, { userId: '', organizationId, role: 'owner' }, runId)
  return fields === null ? null : (JSON.parse(await objectInParts(fields).text()) as RunView)
}
