import {
  CancellationScope,
  isCancellation,
  setCurrentDetails,
  makeContinueAsNewFunc,
  setHandler,
  defineSignal,
  proxyLocalActivities,
  upsertSearchAttributes,
} from '@temporalio/workflow'
import { defineSearchAttributeKey } from '@temporalio/common'
import {
  searchAttributes,
  wakeKey,
  wakeSignal,
  type Carried,
  type FinishInput,
  type RunInput,
  type SkeletonStep,
  type Waiting,
  type Wake,
} from '../../contract/messages.ts'
import { endsRun, type BadOutcome } from '../../contract/status.ts'
import type { EngineActivities } from '../../activities/engine.ts'
import { callTool, type CallResult } from './call.ts'
import { History, type ItemsLeft } from './history.ts'
import { runItems, type Window } from './items.ts'
import { detailsOf, searchedBy } from './shown.ts'
import { nothing, Waits } from './waits.ts'

/**
 * Interpreter version 1 of `governed-run`. It holds the step graph and nothing else: ids, tools, dependencies.
 *
 * A step starts when all it depends on have ended. Its call is an activity behind the policy interceptor. A held call
 * waits for a wake-up or its expiry and is scheduled again: what then happens is read from the rows, so that a forged
 * signal, a reset or a second start executes nothing. A step that ends badly without `on_error: continue` ends the run:
 * no further step starts, held ones stop waiting, a call in flight comes to its end. A long run goes on in a new history
 * (history.ts), under the same id.
 */
const engine = proxyLocalActivities<EngineActivities>({
  startToCloseTimeout: '30s',
  localRetryThreshold: '10s',
  retry: {
    initialInterval: '200ms',
    backoffCoefficient: 2,
    maximumInterval: '10s',
    maximumAttempts: 100_000,
  },
})

const wake = defineSignal<[Wake?]>(wakeSignal)
const stateAttribute = defineSearchAttributeKey(searchAttributes.state, 'KEYWORD')
const waitingAttribute = defineSearchAttributeKey(searchAttributes.waitingOn, 'KEYWORD_LIST')
/**
 * Calls of a run, under way or waiting, beside which no further item begins (docs/decisions/0020).
 */
const mostOpen = 200

export async function governedRunV1(input: RunInput): Promise<void> {
  const run = new Run(input)
  setHandler(wake, (message) => run.wake(message))
  let finish: Omit<FinishInput, 'runId'>
  try {
    const next = await Promise.race([run.execute(), run.left()])
    if (!('status' in next)) return await continueAsNew(next)
    finish = next
  } catch (error) {
    if (!isCancellation(error)) throw error
    finish = { status: 'cancelled' }
  }
  await CancellationScope.nonCancellable(() => engine.finishRun({ ...finish, runId: input.runId }))
  run.ended(finish.status)
}

/** Goes on in a new history; the search attributes stay the run's. */
const continueAsNew = (next: RunInput): Promise<never> =>
  makeContinueAsNewFunc<(input: RunInput) => Promise<void>>()(next)

class Run {
  readonly #input: RunInput
  readonly #waits = new Waits(() => this.#show())
  readonly #history: History
  #entered: boolean
  /** Calls that have begun and not ended, waiting ones included. */
  #open = 0
  #failed: Omit<FinishInput, 'runId'> | null = null
  #shown = ''

  constructor(input: RunInput) {
    this.#input = input
    this.#history = new History(input.carried, this.#waits)
    this.#entered = !input.gated
  }

  /** Resolves when it is time for a new history, to its input. */
  async left(): Promise<RunInput> {
    const carried: Carried = await this.#history.left()
    return { ...this.#input, gated: !this.#entered, carried }
  }

  wake(message: Wake | undefined): void {
    this.#waits.wake(message)
  }

  async execute(): Promise<Omit<FinishInput, 'runId'>> {
    if (!this.#entered && !(await this.#enter())) return { status: 'cancelled' }
    const steps = new CancellationScope()
    const ended = new Map<string, Promise<void>>()
    // Dependencies may be declared in any order: promises are made first, then tied together.
    const starters = new Map<string, () => void>()
    for (const step of this.#input.steps)
      ended.set(
        step.id,
        new Promise<void>((resolve, reject) => {
          starters.set(step.id, () => {
            this.#step(step, ended, steps).then(resolve, reject)
          })
        }),
      )
    try {
      await steps.run(async () => {
        for (const start of starters.values()) start()
        await Promise.all(ended.values())
      })
    } catch (error) {
      await Promise.allSettled(ended.values())
      if (this.#failed === null) throw error
    }
    return this.#failed ?? { status: 'completed' }
  }

  /** Waits for the run's own approval. False: the run has ended meanwhile. */
  async #enter(): Promise<boolean> {
    let waiting: Waiting | undefined = this.#history.takeWaiting('')
    let seen = nothing
    for (;;) {
      if (waiting === undefined) {
        const entered = await this.#history.start(() => {
          seen = this.#waits.seen('')
          return engine.enterRun(this.#input.runId)
        })
        if (entered.state === 'ended') return false
        if (entered.state === 'go') break
        waiting = { kind: entered.waitsFor, expiresAt: entered.expiresAt }
      }
      await this.#waits.until('', waiting, seen)
      waiting = undefined
    }
    this.#entered = true
    this.#show()
    return true
  }

  async #step(
    step: SkeletonStep,
    ended: ReadonlyMap<string, Promise<void>>,
    scope: CancellationScope,
  ): Promise<void> {
    await Promise.all(step.dependsOn.map((id) => ended.get(id) as Promise<void>))
    if (this.#failed !== null || this.#history.hasEnded(step.id)) return
    const bad = step.forEach ? await this.#items(step) : await this.#call(step, null)
    this.#history.stepEnded(step.id)
    if (bad === null || this.#failed !== null || !endsRun(bad, step.continueOnError)) return
    this.#failed = { status: bad, stepId: step.id }
    this.#history.ends()
    scope.cancel()
  }

  async #expand(step: SkeletonStep): Promise<ItemsLeft | { ended: BadOutcome }> {
    const expanded = await this.#history.start(() => engine.expandStep(this.#input.runId, step.id))
    return 'ended' in expanded ? expanded : this.#history.expanded(step.id, expanded.count)
  }

  async #items(step: SkeletonStep): Promise<BadOutcome | null> {
    const left = this.#history.itemsLeft(step.id) ?? (await this.#expand(step))
    if ('ended' in left) return left.ended
    const bad = await runItems(step, left, {
      history: this.#history,
      hasRoom: () => this.#open < mostOpen,
      call: (itemIndex, window) => this.#call(step, itemIndex, window),
    })
    await this.#history.inFlight(() => engine.finishItems(this.#input.runId, step.id))
    return bad
  }

  /** One call, held and resumed as often as it takes; null when the run may go on. An item has a place in its `window`. */
  async #call(step: SkeletonStep, itemIndex: number | null, window?: Window): Promise<BadOutcome | null> {
    this.#open += 1
    const key = wakeKey(step.id, itemIndex)
    let waiting: Waiting | undefined = this.#history.takeWaiting(key)
    if (waiting?.kind === 'slot') window?.enter(key)
    let seen = nothing
    try {
      for (;;) {
        if (waiting === undefined) {
          const begin = (): Promise<CallResult> => {
            window?.enter(key)
            seen = this.#waits.seen(key)
            return callTool(this.#input, step, itemIndex)
          }
          const result = await this.#history.start(begin, () => window?.hasPlace(key) ?? true)
          if (result.kind === 'done') return null
          if (result.kind === 'ended') return result.outcome
          waiting = result
        }
        if (waiting.kind !== 'slot') window?.leave(key)
        await this.#waits.until(key, waiting, seen)
        waiting = undefined
      }
    } finally {
      window?.leave(key)
      this.#open -= 1
    }
  }

  ended(status: FinishInput['status']): void {
    this.#tell(status, [])
  }

  #show(): void {
    const waiting = this.#waits.calls()
    const state = !this.#entered ? 'awaiting_approval' : waiting.length === 0 ? 'running' : 'paused'
    this.#tell(state, waiting)
  }

  /** What operators see in the Temporal UI: state and step ids, never a parameter. */
  #tell(state: string, waiting: readonly [string, Waiting][]): void {
    setCurrentDetails(waiting.length === 0 ? state : `${state}: waits for ${detailsOf(waiting)}`)
    if (!this.#input.searchAttributes) return
    const values = searchedBy(waiting)
    const shown = JSON.stringify([state, ...values])
    if (shown === this.#shown) return
    this.#shown = shown
    upsertSearchAttributes([
      { key: stateAttribute, value: state },
      { key: waitingAttribute, value: values.length === 0 ? null : values },
    ])
  }
}
