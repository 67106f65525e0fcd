import type { ToolDeclaration } from '../tools/kit/tool.ts'
import type { Context } from '../governance/context.ts'
import { quotaExceeded } from '../governance/limits/run-quota.ts'
import { reserveCost } from '../calls/runs/reserve-cost.ts'
import type { CallSpec } from '../calls/runs/call-spec.ts'
import { ToolError } from '../tools/kit/executor.ts'

interface Spending {
  readonly context: Pick<Context, 'combiner'>
  readonly spec: Pick<CallSpec, 'key' | 'run'>
  readonly tool: Pick<ToolDeclaration, 'name'>
}

/** Reserves the cost of one attempt in the organization's spend of the month, before the attempt spends money. */
export class Spend {
  readonly #of: Spending
  #reserved = 0
  #isSuperseded = false

  constructor(of: Spending) {
    this.#of = of
  }

  /** See `ToolContext.reserve`. `attempt` is a fence: only the newest attempt may spend. */
  async reserve(attempt: number, most: number): Promise<void> {
    if (most === 0) return
    const { context, spec, tool } = this.#of
    const ask = { key: spec.key, attempt, tool: tool.name, most }
    const answer = await reserveCost(context, spec.run.organizationId, ask)
    if (answer === 'reserved') {
      this.#reserved += most
      return
    }
    this.#isSuperseded = answer === 'superseded'
    if (answer === 'superseded')
      throw new ToolError('superseded', 'the call was taken over or cancelled before it spent anything', {
        retryable: true,
      })
    const { code, message } = quotaExceeded(answer)
    throw new ToolError(code, message)
  }

  get reserved(): number {
    return this.#reserved
  }

  get isSuperseded(): boolean {
    return this.#isSuperseded
  }

  /**
   * Returns the amount to add to the reserved cost, so that the month counts the real `cost`. The amount is negative if
   * the call cost less than was reserved.
   */
  correction(cost = 0): number {
    return cost - this.#reserved
  }
}
