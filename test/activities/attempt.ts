import { ApplicationFailure } from '@temporalio/common'
import { createToolActivities } from '../../src/activities/attempt.ts'
import { readApproval } from '../../src/governance/approvals/read.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { approvalsOf, type Engine } from '../governance/runs/engine-fixture.ts'
import { execute, type Scheduled } from './execute.ts'

export const held = 'ApprovalRequired'

const bodies = createToolActivities()

/** Makes one attempt at the step `s` of a run, with the real body of the tool. */
export const attempted = (engine: Engine, runId: string, tool: string, over: Partial<Scheduled> = {}) =>
  execute(engine.context, {
    workflowId: runId,
    activityType: tool,
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: (decided) => bodies[tool]!(decided),
    ...over,
  })

/** The outcome of an attempt, or the type of its failure. */
export function endOf({ answer }: Awaited<ReturnType<typeof execute>>): unknown {
  if (!(answer instanceof ApplicationFailure)) return (answer as { outcome?: string }).outcome ?? answer
  const [details] = (answer.details ?? []) as { outcome?: string }[]
  return details?.outcome ?? answer.type
}

/** The approvals of the only call of a run. */
export function approvalsAt(engine: () => Engine) {
  const newest = async (runId: string) => (await approvalsOf(engine().context, runId)).at(-1)!
  return {
    newest,
    approve: async (runId: string) => engine().vote((await newest(runId)).id, 'admin'),
    /** The newest approval, as this person sees it. */
    view: async (runId: string, name: BootstrapName = 'admin') =>
      readApproval(engine().context, engine().caller(name), (await newest(runId)).id),
  }
}
