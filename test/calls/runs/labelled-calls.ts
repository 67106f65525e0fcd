import { prepareCall } from '../../../src/calls/runs/prepare.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { readDefinedCall, callOf, type Decision } from '../../../src/calls/runs/call.ts'
import type { Json } from '../../../src/policy/types.ts'
import { outputOf, type Engine, type ResolvedCall } from '../../governance/runs/engine-fixture.ts'

/* Calls of steps that read and write labelled values. */

/** Prepares and decides a call as the interceptor does. */
export async function call(
  engine: Engine,
  runId: string,
  stepId: string,
  item = -1,
): Promise<{ op: ResolvedCall; verdict: Decision }> {
  const frame = await readDefinedCall(engine.context, { runId, stepId, itemIndex: item })
  const tool = frame.tool as ToolDeclaration
  const { value: op } = await prepareCall(engine.context, frame, tool, new AbortController().signal)
  return { op, verdict: await engine.decide(op) }
}

/** Prepares, decides and ends a call: with this output, or as failed if the output is null. */
export async function done(
  engine: Engine,
  runId: string,
  stepId: string,
  output: object | null = {},
  item = -1,
): Promise<ResolvedCall> {
  const { op, verdict } = await call(engine, runId, stepId, item)
  if (!verdict.go) return op
  const labels = [...op.tool.outputLabels]
  await engine.record({
    key: op.key,
    attempt: verdict.attempt,
    durationMs: 1,
    result:
      output === null
        ? { state: 'failed', error: { code: 'e', message: 'm', retryable: false } }
        : {
            state: 'completed',
            output: outputOf(op.key, output as Json),
            labels,
            call: callOf(op, verdict.to),
          },
  })
  return op
}

export const read = (id: string, path: string, over: object = {}) => ({
  id,
  tool: 'file_read',
  params: { path },
  ...over,
})

export const set = (id: string, value: unknown, over: object = {}) => ({ id, tool: 'memory_set', params: { key: 'k', value }, ...over }) // prettier-ignore
