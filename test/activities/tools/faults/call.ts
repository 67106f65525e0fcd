import { setTimeout as delay } from 'node:timers/promises'
import { expect } from '@jest/globals'
import { CancelledFailure } from '@temporalio/common'
import { sql } from 'kysely'
import { createToolActivities } from '../../../../src/activities/tool-activities.ts'
import { getTool, type ToolName } from '../../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../../src/catalog/tool.ts'
import type { Json, JsonObject } from '../../../../src/policy/types.ts'
import { effectOf, keptOutput, opOf, stepOf, type Engine } from '../../../governance/runs/engine-fixture.ts'
import { finishRun } from '../../../../src/governance/runs/end/finish.ts'
import { execute } from '../../execute.ts'
import type { Ended } from './service.ts'

export const bodies = createToolActivities()

/** Milliseconds after which a list of a real service shows what was made. */
const listDelay = 5_000

export interface Calling {
  readonly engine: Engine
  readonly tool: ToolName
  readonly params: JsonObject
  /** What the service holds of the call: the output of each effect. */
  readonly made: () => Promise<Json[]>
  /** The service is the real one: pauses and delays take their time. */
  readonly isLive?: boolean
}

/** Makes one call attempt after attempt, as Temporal does, without its pauses. */
export class Call {
  readonly #with: Calling
  readonly runId: string
  /** Milliseconds that Temporal is asked to wait. */
  readonly pauses: number[] = []
  readonly #cancelled = new AbortController()

  static async start(calling: Calling): Promise<Call> {
    const { engine, tool, params } = calling
    return new Call(calling, await engine.run({ steps: [{ id: 's', tool, params }] }))
  }

  constructor(calling: Calling, runId: string) {
    this.#with = calling
    this.runId = runId
  }

  /** As Temporal does for a cancelled run. */
  cancel(): void {
    this.#cancelled.abort(new CancelledFailure('CANCELLED'))
  }

  /** The run ends as cancelled while the call waits for its next attempt. */
  async endCancelled(): Promise<void> {
    await finishRun(this.#with.engine.context, { runId: this.runId, status: 'cancelled' })
  }

  async attempt(body?: (decided: unknown) => Promise<unknown>): Promise<'again' | 'over'> {
    const { engine, tool } = this.#with
    const { answer } = await execute(engine.context, {
      workflowId: this.runId,
      activityType: tool,
      args: [{ runId: this.runId, stepId: 's', itemIndex: null }],
      signal: this.#cancelled.signal,
      body: body ?? ((decided) => bodies[tool]!(decided)),
    })
    const { nextRetryDelay } = answer as { nextRetryDelay?: number }
    if (nextRetryDelay === undefined) return 'over'
    this.pauses.push(nextRetryDelay)
    if (this.#with.isLive === true) await delay(nextRetryDelay)
    return 'again'
  }

  /** Lets the time pass after which a call that is not found was certainly not made. */
  async later(): Promise<void> {
    const { engine, tool, isLive = false } = this.#with
    const { ownService, findableAfterSeconds = 60 } = getTool(tool) as ToolDeclaration
    const seconds = (ownService === undefined ? findableAfterSeconds : ownService.knowsKeySeconds / 10) + 1
    if (isLive) return delay(seconds * 1_000)
    await engine.context.db
      .updateTable('effects')
      .set({ sent_at: sql<Date>`sent_at - make_interval(secs => ${seconds})` })
      .where('run_id', '=', this.runId)
      .execute()
  }

  async untilOver(): Promise<this> {
    for (let attempts = 0; (await this.attempt()) === 'again'; attempts += 1) {
      if (attempts > 30) throw new Error('the call does not end')
      // The pauses of a real service are taken already.
      if (this.#with.isLive !== true) await this.later()
    }
    return this
  }

  /** What the service holds, and what the step says. The output of a call that was made is that of its effect. */
  async ended(): Promise<Ended> {
    const { engine, made: ofService } = this.#with
    const op = opOf(this.runId)
    const row = await effectOf(engine.context, op)
    if (this.#with.isLive === true) await delay(listDelay)
    const made = await ofService()
    const state = row?.state as Ended['state']
    if (state === 'completed') expect(made).toContainEqual(await keptOutput(engine.context, op))
    const { error } = await stepOf(engine.context, this.runId)
    return {
      state,
      made: made.length,
      ...(state === 'failed' && error !== null ? { error: error.code } : {}),
    }
  }
}
