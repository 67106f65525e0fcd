import { setTimeout as delay } from 'node:timers/promises'
import { expect } from '@jest/globals'
import { CancelledFailure } from '@temporalio/common'
import { sql } from 'kysely'
import { issueCall, type IssuedCall, createToolActivities } from '../../../src/activities/attempt.ts'
import { getTool, type ToolName } from '../../../src/tools/index.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import type { Json, JsonObject } from '../../../src/policy/types.ts'
import { effectOf, keptOutput, opOf, stepOf, type Engine } from '../../governance/runs/engine-fixture.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { execute } from '../../activities/execute.ts'
import type { Ended } from './service.ts'

export const bodies = createToolActivities()

/** The body of the tool, in which `pass` takes the place of the point of no return, and gets the real one. */
export const passing =
  (tool: ToolName, pass: (real: () => Promise<void>) => Promise<void>) =>
  (decided: unknown): Promise<unknown> => {
    const { call, context, look } = decided as IssuedCall
    const pointOfNoReturn = (isKeyed?: boolean) => pass(() => context.pointOfNoReturn(isKeyed))
    return bodies[tool]!(issueCall(call, { ...context, pointOfNoReturn }, look))
  }

export interface Calling {
  readonly engine: Engine
  readonly tool: ToolName
  readonly params: JsonObject
  /** Asks the service for the effects of the call; returns the output of each effect. */
  readonly made: () => Promise<Json[]>
  /** Only for the real service, where pauses take real time: milliseconds until its lists show a new object. */
  readonly listDelay?: number | undefined
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

  /** Cancels the call as Temporal does when its run is cancelled. */
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
    if (this.#with.listDelay !== undefined) await delay(nextRetryDelay)
    return 'again'
  }

  /** Moves the call past the time after which a call that is not found was certainly not made. */
  async later(): Promise<void> {
    const { engine, tool, listDelay } = this.#with
    const { ownService, findableAfterSeconds = 60 } = getTool(tool) as ToolDeclaration
    const seconds = (ownService === undefined ? findableAfterSeconds : ownService.knowsKeySeconds / 10) + 1
    if (listDelay !== undefined) return delay(seconds * 1_000)
    await engine.context.db
      .updateTable('effects')
      .set({ sent_at: sql<Date>`sent_at - make_interval(secs => ${seconds})` })
      .where('run_id', '=', this.runId)
      .execute()
  }

  async untilOver(): Promise<this> {
    for (let attempts = 0; (await this.attempt()) === 'again'; attempts += 1) {
      if (attempts > 30) throw new Error('the call does not end')
      // With a real service, the call has already waited.
      if (this.#with.listDelay === undefined) await this.later()
    }
    return this
  }

  /** The end of the call, in the service and in its step. The output of a completed call must be that of its effect. */
  async ended(): Promise<Ended> {
    const { engine, listDelay, made: ofService } = this.#with
    const op = opOf(this.runId)
    const row = await effectOf(engine.context, op)
    if (listDelay !== undefined) await delay(listDelay)
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
