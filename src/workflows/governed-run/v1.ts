import {
  CancellationScope,
  condition,
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
  type EndedDetails,
  type FinishInput,
  type RunInput,
  type SkeletonStep,
  type Waiting,
  type Wake,
} from '../../contract/messages.ts'
import type { EngineActivities } from '../../activities/engine.ts'
import { callTool, type CallResult } from './call.ts'
import { History, type ItemsLeft } from './history.ts'

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
const waitingAttribute = defineSearchAttributeKey(searchAttributes.waitingOn, 'KEYWORD')
/** A cancelled call is none of the errors that `on_error: continue` covers (contract section 3). */
const goesOn = (step: SkeletonStep, bad: EndedDetails['outcome']): boolean =>
  step.continueOnError && bad !== 'cancelled'
/** Items of a `for_each` step that run at the same time. */
const windowSize = 50

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
  run.show(finish.status, '')
}

/** Goes on in a new history; the search attributes stay the run's. */
const continueAsNew = (next: RunInput): Promise<never> =>
  makeContinueAsNewFunc<(input: RunInput) => Promise<void>>()(next)

class Run {
  readonly #input: RunInput
  readonly #wakes = new Map<string, number>()
  #wakesOfAll = 0
  readonly #waiting = new Map<string, string>()
  readonly #history: History
  #entered: boolean
  #failed: Omit<FinishInput, 'runId'> | null = null
  #shown = ''

  constructor(input: RunInput) {
    this.#input = input
    this.#history = new History(input.carried)
    this.#entered = !input.gated
  }

  /** Resolves when it is time for a new history, to its input. */
  async left(): Promise<RunInput> {
    const carried: Carried = await this.#history.left()
    return { ...this.#input, gated: !this.#entered, carried }
  }

  wake(message: Wake | undefined): void {
    const key = message?.key
    if (typeof key === 'string') this.#wakes.set(key, (this.#wakes.get(key) ?? 0) + 1)
    else this.#wakesOfAll += 1
  }

  wakesOf(key: string): number {
    return this.#wakesOfAll + (this.#wakes.get(key) ?? 0)
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
    this.show('awaiting_approval', 'approval of the run')
    for (;;) {
      const seen = this.wakesOf('')
      const entered = await this.#history.start(() => engine.enterRun(this.#input.runId))
      if (entered.state === 'ended') return false
      if (entered.state === 'go') return (this.#entered = true)
      await this.#until(() => this.wakesOf('') > seen, entered.expiresAt)
    }
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
    if (bad === null || this.#failed !== null || goesOn(step, bad)) return
    this.#failed = { status: bad, stepId: step.id }
    this.#history.ends()
    scope.cancel()
  }

  async #expand(step: SkeletonStep): Promise<ItemsLeft | { ended: EndedDetails['outcome'] }> {
    const expanded = await this.#history.start(() => engine.expandStep(this.#input.runId, step.id))
    return 'ended' in expanded ? expanded : { count: expanded.count, first: 0 }
  }

  /** Runs every item in windows; answers the first thing that ends the step, or null. */
  async #items(step: SkeletonStep): Promise<EndedDetails['outcome'] | null> {
    const expanded = this.#history.itemsLeft(step.id) ?? (await this.#expand(step))
    if ('ended' in expanded) return expanded.ended
    let bad: EndedDetails['outcome'] | null = null
    for (let first = expanded.first; first < expanded.count; first += windowSize) {
      this.#history.window(step.id, expanded.count, first)
      const size = Math.min(windowSize, expanded.count - first)
      bad = (await this.#window(step, first, size)) ?? bad
      if (bad !== null && !goesOn(step, bad)) break
    }
    await this.#history.inFlight(() => engine.finishItems(this.#input.runId, step.id))
    return bad
  }

  /** Items at the same time. One that ends the step stops the others as a failing step stops its neighbours. */
  async #window(step: SkeletonStep, first: number, size: number): Promise<EndedDetails['outcome'] | null> {
    const scope = new CancellationScope()
    let bad: EndedDetails['outcome'] | null = null
    const item = async (index: number): Promise<void> => {
      if (this.#history.hasItemEnded(step.id, index)) return
      const outcome = await this.#call(step, index)
      this.#history.itemEnded(step.id, index)
      if (outcome === null || (bad !== null && !goesOn(step, bad))) return
      bad = outcome
      if (goesOn(step, outcome)) return
      this.#history.ends()
      scope.cancel()
    }
    const items = scope.run(() => Promise.allSettled(Array.from({ length: size }, (_, i) => item(first + i))))
    const rejected = (await items).find((each) => each.status === 'rejected')
    if (rejected !== undefined && bad === null) throw rejected.reason
    return bad
  }

  /** One call, held and resumed as often as it takes; null when the run may go on. */
  async #call(step: SkeletonStep, itemIndex: number | null): Promise<EndedDetails['outcome'] | null> {
    const key = wakeKey(step.id, itemIndex)
    let waiting: Waiting | undefined = this.#history.takeWaiting(key)
    let seen = 0
    for (;;) {
      if (waiting === undefined) {
        const result: CallResult = await this.#history.start(() => {
          seen = this.wakesOf(key)
          return callTool(this.#input, step, itemIndex)
        })
        if (result.kind === 'done') return null
        if (result.kind === 'ended') return result.outcome
        waiting = result
      }
      await this.#wait(step, key, waiting, seen)
      waiting = undefined
    }
  }

  /** Until a wake-up that came after the first `seen` ones, or the call's expiry. */
  async #wait(step: SkeletonStep, key: string, call: Waiting, seen: number): Promise<void> {
    const isWoken = () => this.wakesOf(key) > seen
    this.#waiting.set(key, `${call.kind === 'held' ? 'approval' : 'resolution'} of ${step.id}`)
    this.#history.waits(key, call, isWoken)
    this.#showWaiting()
    try {
      await this.#until(isWoken, call.expiresAt)
    } finally {
      this.#waiting.delete(key)
      this.#history.waitsNoMore(key)
    }
    this.#showWaiting()
  }

  /** Until woken or `expiresAt`. The database's clock decides whether it is over: a second later is soon enough. */
  async #until(woken: () => boolean, expiresAt: string | null): Promise<void> {
    if (expiresAt === null) await condition(woken)
    else await condition(woken, Math.max(1_000, Date.parse(expiresAt) - Date.now() + 100))
  }

  #showWaiting(): void {
    const [first] = this.#waiting.values()
    this.show(first === undefined ? 'running' : 'paused', first ?? '')
  }

  /** What operators see in the Temporal UI: state and step ids, never a parameter. */
  show(state: string, waitingOn: string): void {
    const others = this.#waiting.size > 1 ? ` and ${this.#waiting.size - 1} more` : ''
    setCurrentDetails(waitingOn === '' ? state : `${state}: waits for ${waitingOn}${others}`)
    const shown = `${state} ${waitingOn}`
    if (!this.#input.searchAttributes || shown === this.#shown) return
    this.#shown = shown
    upsertSearchAttributes([
      { key: stateAttribute, value: state },
      { key: waitingAttribute, value: waitingOn === '' ? null : waitingOn },
    ])
  }
}
