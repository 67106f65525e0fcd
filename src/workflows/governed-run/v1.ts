import {
  CancellationScope,
  isCancellation,
  setCurrentDetails,
  makeContinueAsNewFunc,
  setHandler,
  defineSignal,
  proxyLocalActivities,
  upsertSearchAttributes,
  ApplicationFailure,
  sleep,
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
  type WaitReason,
  type Wake,
  endMessage,
  type FinalStatus,
} from '../../contract/messages.ts'
import { endsRun, type BadOutcome } from '../../contract/status.ts'
import type { EngineActivities } from '../../activities/engine.ts'
import { callTool, type CallResult, uncancelled } from './call.ts'
import { History, type ItemsLeft } from './history.ts'
import { runItems, type Window } from './items.ts'
import { detailsOf, searchedBy, Tries } from './operator-view.ts'
import { Turns } from './turns.ts'
import { noWakeUps, WaitingCalls } from './waiting-calls.ts'

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
/** With so many calls in progress or waiting, no further item begins (docs/decisions/0020). */
const mostOpen = 200

/**
 * Interpreter version 1. It knows the graph of the steps, but no parameters.
 *
 * The call of a step is an activity behind the policy interceptor. A held call waits for a wake-up or its
 * expiry, and is then scheduled again. The rows of the call decide what happens after that. So a forged
 * signal, a reset or a second start of the workflow executes nothing.
 *
 * Without `on_error: continue`, a step that ends badly ends the run: no other step starts, held calls stop
 * waiting, and the run ends after the calls in flight. A long run continues in a new Temporal history under
 * the same id.
 */
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
  const status = await CancellationScope.nonCancellable(() =>
    engine.finishRun({ ...finish, runId: input.runId }),
  )
  run.ended(status)
  await closeAs(status, status === finish.status ? finish.stepId : undefined)
}

/** The run keeps its search attributes. */
const continueAsNew = (next: RunInput): Promise<never> =>
  makeContinueAsNewFunc<(input: RunInput) => Promise<void>>()(next)

class Run {
  readonly #input: RunInput
  readonly #waitingCalls = new WaitingCalls(() => this.#publishWaiting())
  readonly #turns = new Turns()
  readonly #history: History
  #entered: boolean
  /** Waiting calls count too. */
  #open = 0
  #failed: Omit<FinishInput, 'runId'> | null = null
  #published = ''
  #state = 'running'
  readonly #tries = new Tries()

  constructor(input: RunInput) {
    this.#input = input
    this.#history = new History(input.carried, this.#waitingCalls, this.#turns)
    this.#entered = !input.gated
  }

  /** Resolves when the run must continue in a new Temporal history. */
  async left(): Promise<RunInput> {
    const carried: Carried = await this.#history.left()
    return { ...this.#input, gated: !this.#entered, carried }
  }

  wake(message: Wake | undefined): void {
    this.#waitingCalls.wake(message)
  }

  async execute(): Promise<Omit<FinishInput, 'runId'>> {
    if (!this.#entered && !(await this.#enter())) return { status: 'cancelled' }
    const steps = new CancellationScope()
    const ended = new Map<string, Promise<void>>()
    // Dependencies may be declared in any order, so all promises exist before the first step starts.
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

  /** Returns false if the run has ended meanwhile. */
  async #enter(): Promise<boolean> {
    let waiting: WaitReason | undefined = this.#history.takeWaiting('')
    let seen = noWakeUps
    for (;;) {
      if (waiting === undefined) {
        const entered = await this.#history.start(() => {
          seen = this.#waitingCalls.wakeCounts('')
          return this.#local(() => engine.enterRun(this.#input.runId))
        })
        if (entered.state === 'ended') return false
        if (entered.state === 'go') break
        waiting = { kind: entered.waitsFor, expiresAt: entered.expiresAt }
      }
      await this.#waitingCalls.until('', waiting, seen)
      waiting = undefined
    }
    this.#entered = true
    this.#publishWaiting()
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

  #local<T>(activity: () => Promise<T>): Promise<T> {
    return uncancelled(() => this.#history.local(activity))
  }

  async #expand(step: SkeletonStep): Promise<ItemsLeft | { ended: BadOutcome }> {
    const expand = () => this.#local(() => engine.expandStep(this.#input.runId, step.id))
    const expanded = await this.#history.start(expand)
    return 'ended' in expanded ? expanded : this.#history.expanded(step.id, expanded.count)
  }

  async #items(step: SkeletonStep): Promise<BadOutcome | null> {
    const left = this.#history.itemsLeft(step.id) ?? (await this.#expand(step))
    if ('ended' in left) return left.ended
    const bad = await runItems(step, left, {
      history: this.#history,
      turns: this.#turns,
      hasRoom: () => this.#open < mostOpen,
      call: (itemIndex, window) => this.#call(step, itemIndex, window),
    })
    await this.#history.inFlight(() => this.#local(() => engine.finishItems(this.#input.runId, step.id)))
    return bad
  }

  /** The call may be held and resumed several times. An item starts only when it has a place in `window`. */
  async #call(step: SkeletonStep, itemIndex: number | null, window?: Window): Promise<BadOutcome | null> {
    this.#open += 1
    const key = wakeKey(step.id, itemIndex)
    let waiting: WaitReason | undefined = this.#history.takeWaiting(key)
    const keepsPlace = (kind: WaitReason['kind']): boolean => kind === 'slot' || step.keepsPlace === true
    if (waiting !== undefined && keepsPlace(waiting.kind)) window?.enter(key)
    let seen = noWakeUps
    let since = 0
    const isLocal = step.quick === true
    try {
      for (;;) {
        if (waiting === undefined) {
          const begin = (): Promise<CallResult> => {
            window?.enter(key)
            seen = this.#waitingCalls.wakeCounts(key)
            since = Date.now()
            return callTool(this.#input, step, itemIndex, this.#history)
          }
          const result = await this.#history.start(begin, isLocal, () => window?.hasPlace(key) ?? true)
          this.#tries.add(step, itemIndex, result, since)
          this.#showDetails()
          if (result.kind === 'done') return null
          if (result.kind === 'ended') return result.outcome
          waiting = result
        }
        if (!keepsPlace(waiting.kind)) window?.leave(key)
        await this.#waitingCalls.until(key, waiting, seen)
        waiting = undefined
      }
    } finally {
      window?.leave(key)
      this.#open -= 1
    }
  }

  ended(status: FinishInput['status']): void {
    this.#publish(status, [])
  }

  #publishWaiting(): void {
    const waiting = this.#waitingCalls.calls()
    const state = !this.#entered ? 'awaiting_approval' : waiting.length === 0 ? 'running' : 'paused'
    this.#publish(state, waiting)
  }

  #showDetails(): void {
    setCurrentDetails(`${this.#state}\n${this.#tries.toString()}`)
  }

  /** Operators see this text in Temporal's UI. It never contains a parameter. */
  #publish(state: string, waiting: readonly [string, WaitReason][]): void {
    this.#state = waiting.length === 0 ? state : `${state}: waits for ${detailsOf(waiting)}`
    this.#showDetails()
    if (!this.#input.searchAttributes) return
    const values = searchedBy(waiting)
    const published = JSON.stringify([state, ...values])
    if (published === this.#published) return
    this.#published = published
    upsertSearchAttributes([
      { key: stateAttribute, value: state },
      { key: waitingAttribute, value: values.length === 0 ? null : values },
    ])
  }
}

/** The outbox delivers a cancellation to Temporal. The workflow waits at most this long for it. */
const patience = '1 minute'

/**
 * Temporal's list shows Completed, Canceled, or Failed for every other status. Without the cancellation in
 * time, `cancelled` also becomes Failed. The failure has the status as its type, and never contains a value.
 */
export async function closeAs(status: FinalStatus, stepId: string | undefined): Promise<void> {
  if (status === 'completed') return
  // `sleep` throws once the workflow is cancelled. Temporal closes only a cancelled workflow as Canceled.
  if (status === 'cancelled') await sleep(patience, { summary: 'until the cancellation arrives' })
  throw ApplicationFailure.create({
    type: status,
    message: endMessage(status, stepId),
    nonRetryable: true,
  })
}
