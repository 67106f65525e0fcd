import { expect } from '@jest/globals'
import { ApplicationFailure } from '@temporalio/common'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { readApproval, type ApprovalView } from '../../src/governance/approvals/read.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { readMemory, setMemory } from '../../src/governance/tools/memory.ts'
import type { Json } from '../../src/policy/types.ts'
import { approvalsOf, type Engine } from '../governance/runs/engine-fixture.ts'
import { execute } from './execute.ts'

export const held = 'ApprovalRequired'

const bodies = createToolActivities()
let keys = 0
export const newKey = () => `k${(keys += 1)}`

/** A run whose only call stores a value under this key. */
export interface MemoryCall {
  readonly runId: string
  readonly key: string
}

/** Calls of `memory_set`, the memory that they change, and their approvals. */
export function memoryCalls(engine: () => Engine) {
  const put = (key: string, value: Json) =>
    setMemory(engine().context, engine().caller('admin'), { key, value, labels: null })
  const present = async (key: string) =>
    (await readMemory(engine().context, engine().organizationId, key).catch(() => null))?.value

  async function storing(key: string, value: Json = 'new'): Promise<MemoryCall> {
    return {
      runId: await engine().run({ steps: [{ id: 's', tool: 'memory_set', params: { key, value } }] }),
      key,
    }
  }

  /** One attempt at the call, as a worker makes it. Returns the outcome or the type of the failure. */
  async function attempt(
    { runId }: MemoryCall,
    before: () => Promise<unknown> = async () => {},
  ): Promise<unknown> {
    const { answer } = await execute(engine().context, {
      workflowId: runId,
      activityType: 'memory_set',
      args: [{ runId, stepId: 's', itemIndex: null }],
      body: async (decided) => {
        await before()
        return bodies['memory_set']!(decided)
      },
    })
    if (!(answer instanceof ApplicationFailure)) return (answer as { outcome?: string }).outcome ?? answer
    const [details] = (answer.details ?? []) as { outcome?: string }[]
    return details?.outcome ?? answer.type
  }

  const newest = async ({ runId }: MemoryCall) => (await approvalsOf(engine().context, runId)).at(-1)!
  const view = async (call: MemoryCall, name: BootstrapName = 'admin'): Promise<ApprovalView> => {
    const { userId, organizationId, role } = engine().caller(name) as never as { userId: string; organizationId: string; role: 'admin' } // prettier-ignore
    return readApproval(engine().context, { userId, organizationId, role }, (await newest(call)).id)
  }
  const approve = async (call: MemoryCall) => engine().vote((await newest(call)).id, 'admin')

  /** A held call, which a person has approved. */
  async function approved(key: string, value: Json = 'new'): Promise<MemoryCall> {
    const call = await storing(key, value)
    expect(await attempt(call)).toBe(held)
    await approve(call)
    return call
  }

  return { put, present, storing, attempt, newest, view, approve, approved }
}
